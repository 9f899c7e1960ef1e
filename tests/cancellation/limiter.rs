//! ShareLimiter: a dropped call takes no permits, and the callers behind it move up.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::limiter::ShareLimiter;

use crate::harness::{Run, cases};

cases! {
    acquire: "ShareLimiter::acquire", at least 60 drops, 24 faults;
    acquire_behind_another: "ShareLimiter::acquire", at least 90 drops, 38 faults;
}

/// The time per permit.
const PERMIT: Duration = Duration::from_millis(100);

fn limiter() -> ShareLimiter {
    ShareLimiter::new(10)
}

async fn acquire(run: &mut Run) {
    run.client().await;
    let limiter = limiter();
    let start = Instant::now();
    let taken = run.cut(limiter.acquire(1)).await.done().is_some();
    let dropped = start.elapsed();
    limiter.acquire(1).await.expect("no more than the burst");
    if !taken {
        // The dropped call has taken nothing of the next permit.
        assert_eq!(start.elapsed(), dropped.max(PERMIT));
    }
}

async fn acquire_behind_another(run: &mut Run) {
    run.client().await;
    let limiter = limiter();
    let first = limiter.acquire(1);
    tokio::pin!(first);
    assert!(futures::poll!(first.as_mut()).is_pending(), "there is none yet");
    if let Some(taken) = run.cut(limiter.acquire(1)).await.done() {
        taken.expect("no more than the burst");
        assert!(futures::poll!(first.as_mut()).is_ready(), "that of the caller before it was set aside");
    } else {
        first.await.expect("no more than the burst");
    }
    sleep(2 * PERMIT).await;
    assert_eq!(limiter.try_acquire(1), Ok(true), "no cancelled caller is still counted as waiting");
}
