//! A limiter that was closed, for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::poll;
use tokio::time::{Instant, advance};
use zookeeper_recipes::limiter::{Error, ShareLimiter};

/// A limiter at which five permits are there.
async fn five() -> ShareLimiter {
    let limiter = ShareLimiter::with_burst(10, 5).expect("a good burst");
    advance(Duration::from_secs(1)).await;
    limiter
}

#[tokio::test(start_paused = true)]
async fn a_later_caller_is_told_by_every_clone() {
    let limiter = five().await;
    let clone = limiter.clone();
    assert!(!clone.is_closed());
    for _ in 0..2 {
        limiter.close();
        assert!(clone.is_closed());
        assert_eq!((clone.rate(), clone.burst()), (0, 5));
        for permits in [0, 1, 5, 6] {
            assert_eq!(clone.try_acquire(permits), Err(Error::Closed));
            assert_eq!(clone.acquire(permits).await, Err(Error::Closed));
        }
    }
    assert_eq!(Error::Closed.to_string(), "the limiter is closed");
}

#[tokio::test(start_paused = true)]
async fn all_waiters_are_told_also_behind_one_that_is_not_polled() {
    for rate in [0, 1] {
        let limiter = ShareLimiter::new(rate);
        let (first, second, third) = (limiter.acquire(1), limiter.acquire(1), limiter.acquire(1));
        tokio::pin!(first, second, third);
        assert!(poll!(first.as_mut()).is_pending());
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        let start = Instant::now();
        limiter.close();
        assert_eq!(
            (third.await, second.await, first.await),
            (Err(Error::Closed), Err(Error::Closed), Err(Error::Closed))
        );
        assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    }
}

#[tokio::test(start_paused = true)]
async fn no_rate_opens_it_again() {
    let limiter = five().await;
    limiter.close();
    assert_eq!(limiter.set_rate(10), Err(Error::Closed));
    assert_eq!(limiter.set_rate_while(10, || true), Err(Error::Closed));
    assert_eq!(limiter.set_rate_until(10, Instant::now() + Duration::from_secs(3_600)), Err(Error::Closed));
    advance(Duration::from_secs(60)).await;
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (0, Err(Error::Closed)));
}

#[tokio::test(start_paused = true)]
async fn it_asks_no_lease_any_more_and_lets_go_of_it() {
    let limiter = ShareLimiter::new(0);
    let lease = Arc::new(AtomicBool::new(true));
    let holds = Arc::clone(&lease);
    // One that panics is no reason to stay open.
    limiter
        .set_rate_while(10, move || holds.load(Ordering::SeqCst) || panic!("a lease that panics"))
        .expect("it is open");
    lease.store(false, Ordering::SeqCst);
    limiter.close();
    assert_eq!(limiter.rate(), 0);
    assert_eq!(Arc::strong_count(&lease), 1);
}

/// On many threads: when `close` has returned nothing is granted, even to a concurrent `acquire` or rate change.
#[test]
fn nothing_is_granted_when_it_has_returned() {
    for _ in 0..500 {
        let limiter = ShareLimiter::with_burst(u64::MAX, 10).expect("a good burst");
        let closed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| while limiter.set_rate(u64::MAX).is_ok() {});
            scope.spawn(|| {
                loop {
                    let late = closed.load(Ordering::SeqCst);
                    match limiter.try_acquire(1) {
                        Ok(granted) => assert!(!late, "it was closed and said {granted}"),
                        Err(error) => break assert_eq!(error, Error::Closed),
                    }
                }
            });
            limiter.close();
            closed.store(true, Ordering::SeqCst);
            assert_eq!(limiter.rate(), 0);
        });
        assert_eq!(limiter.rate(), 0);
    }
}
