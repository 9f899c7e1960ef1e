//! Waiting for events that may never happen.

use std::future::pending;

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

/// Never resolves.
pub(crate) async fn forever<T>() -> T {
    pending().await
}
