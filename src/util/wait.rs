//! Waiting for events that may never happen.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

/// Resolves at `deadline`; never if it is `None`.
pub(crate) async fn sleep_until_opt(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Resolves when the watch, or another future, does; never if it is `None`.
pub(crate) async fn fired<F: Future + Unpin>(watch: &mut Option<F>) -> F::Output {
    match watch {
        Some(watch) => watch.await,
        None => pending().await,
    }
}

/// Resolves with the value; never if there is none.
pub(crate) async fn known<T>(value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => pending().await,
    }
}

/// Never resolves.
pub(crate) async fn forever<T>() -> T {
    pending().await
}

/// Runs `work` until `lost` resolves or `is_held` returns false. Then returns `None` and does not poll `work` again.
pub(crate) async fn run_while_held<F: Future>(
    is_held: impl Fn() -> bool,
    lost: impl Future<Output = ()>,
    work: F,
) -> Option<F::Output> {
    // A loop over work that is always ready must let other tasks run.
    tokio::task::coop::consume_budget().await;
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    // The clock is compared before each poll of the work, as the end of a lease may not be signalled yet.
    poll_fn(|cx| {
        if lost.as_mut().poll(cx).is_ready() || !is_held() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}
