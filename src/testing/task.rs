//! A task that runs with a client.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// A task spawned by [`TestingServer::spawn`](super::TestingServer::spawn). As a future it returns the task's output.
/// Dropping it leaves the task running.
#[derive(Debug)]
pub struct Task<T> {
    outcome: oneshot::Receiver<T>,
    /// Dropping the sender does not abort the task.
    abort: Option<oneshot::Sender<()>>,
}

/// The task was aborted, panicked, or ended with its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task was aborted, panicked, or ended with its runtime")]
pub struct TaskGone;

impl<T: Send + 'static> Task<T> {
    /// Returns the handle, and the future to spawn.
    pub(super) fn new(
        work: impl Future<Output = T> + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (done, outcome) = oneshot::channel();
        let (abort, aborted) = oneshot::channel();
        let work = async move {
            tokio::select! {
                biased;
                Ok(()) = aborted => {}
                // The handle may have been dropped.
                outcome = work => drop(done.send(outcome)),
            }
        };
        (Task { outcome, abort: Some(abort) }, work)
    }

    /// Drops the task's future at its current await.
    pub fn abort(&mut self) {
        if let Some(abort) = self.abort.take() {
            // The task may have ended.
            abort.send(()).ok();
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskGone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map_err(|_| TaskGone)
    }
}
