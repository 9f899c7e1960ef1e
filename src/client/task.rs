//! A background task of a recipe, as the recipe's handles see it.

use tokio::sync::watch;

use super::runtime::Runtime;

/// A running task, and its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Task<T> {
    outcome: watch::Receiver<Option<T>>,
}

impl<T: Clone + Send + Sync + 'static> Task<T> {
    pub(crate) fn spawn(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (done, outcome) = watch::channel(None);
        runtime.spawn(async move {
            let outcome = work.await;
            done.send_replace(Some(outcome));
        });
        Task { outcome }
    }

    /// Waits for the outcome. Returns `None` if the task ended without one: its runtime has ended, or it panicked.
    pub(crate) async fn outcome(&self) -> Option<T> {
        let mut outcome = self.outcome.clone();
        outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
    }
}
