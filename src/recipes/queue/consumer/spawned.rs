//! A handler that runs each call on its own task.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{AbortHandle, Abortable};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::handle::ClaimHandle;
use super::handler::QueueHandler;
use crate::util::serializer::BoxError;

/// A [handler](QueueHandler) that runs each call on its own task, on the runtime in which the client was connected. So
/// on a multi-threaded runtime the items are handled in parallel, and an item that computes or blocks does not delay
/// the others. Without it, all handlers of one [`consume`](super::Consumer::consume) share the task of that call.
///
/// When the call is dropped (the claim is lost, or the grace period is over), its task is aborted. If the task is being
/// polled on another thread at that moment, it runs to its next await that waits.
///
/// ```no_run
/// use zookeeper_recipes::queue::{ClaimHandle, Consumer, Error, Spawned, Utf8};
///
/// # async fn ship(order: String) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(consumer: Consumer<Utf8>) -> Result<(), Error> {
/// let ship = |order: String, _: ClaimHandle| ship(order);
/// consumer.consume(4, Spawned::new(ship)).await
/// # }
/// ```
pub struct Spawned<H>(Arc<H>);

impl<H> Spawned<H> {
    /// Wraps `handler`.
    pub fn new(handler: H) -> Self {
        Spawned(Arc::new(handler))
    }
}

impl<T: Send + 'static, H: QueueHandler<T> + 'static> QueueHandler<T> for Spawned<H> {
    async fn handle(&self, item: T, claim: ClaimHandle) -> Result<(), BoxError> {
        let handler = Arc::clone(&self.0);
        let (abort, registration) = AbortHandle::new_pair();
        let _aborts = AbortOnDrop(abort);
        let (done, outcome) = oneshot::channel();
        let core = claim.core();
        let work = async move {
            let outcome = AssertUnwindSafe(handler.handle(item, claim)).catch_unwind().await;
            // The call may have been dropped.
            let _ = done.send(outcome);
        };
        core.runtime.spawn(Abortable::new(work.in_current_span(), registration).map(drop));
        match outcome.await {
            Ok(Ok(handled)) => handled,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err("the runtime of the client has ended".into()),
        }
    }
}

/// Aborts the task when the call that waits for it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<H> fmt::Debug for Spawned<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").finish_non_exhaustive()
    }
}
