//! A rate that is valid only for as long as something else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, advance, sleep, timeout};
use zookeeper_recipes::limiter::ShareLimiter;

#[tokio::test(start_paused = true)]
async fn from_the_deadline_on_nothing_is_granted() {
    let limiter = ShareLimiter::with_burst(0, 5).expect("a good burst");
    limiter.set_rate_until(10, Instant::now() + Duration::from_secs(1)).expect("no member drives it");
    advance(Duration::from_millis(999)).await;
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (10, Ok(true)));
    advance(Duration::from_millis(1)).await;
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (0, Ok(false)), "also of those that were there");
}

#[tokio::test(start_paused = true)]
async fn who_waits_at_the_deadline_waits_for_the_next_rate() {
    let limiter = ShareLimiter::new(0);
    // It would come one millisecond too late.
    limiter.set_rate_until(1, Instant::now() + Duration::from_millis(999)).expect("no member drives it");
    let waits = limiter.acquire(1);
    tokio::pin!(waits);
    assert!(timeout(Duration::from_secs(60), waits.as_mut()).await.is_err());
    let start = Instant::now();
    limiter.set_rate(10).expect("no member drives it");
    waits.await.expect("no more than the burst");
    assert_eq!(start.elapsed(), Duration::from_millis(100), "nothing of the time before counts");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_asked_each_time() {
    let lease = Arc::new(AtomicBool::new(true));
    let holds = Arc::clone(&lease);
    let limiter = ShareLimiter::with_burst(0, 5).expect("a good burst");
    limiter.set_rate_while(10, move || holds.load(Ordering::SeqCst)).expect("no member drives it");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(limiter.try_acquire(1), Ok(true));
    lease.store(false, Ordering::SeqCst);
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (0, Ok(false)));
    lease.store(true, Ordering::SeqCst);
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (10, Ok(false)), "the accumulated permits are lost");
    sleep(Duration::from_millis(100)).await;
    assert_eq!(limiter.try_acquire(1), Ok(true), "it was renewed");
}

#[tokio::test(start_paused = true)]
async fn the_next_rate_has_no_lease_of_the_one_before() {
    let limiter = ShareLimiter::new(0);
    limiter.set_rate_while(10, || false).expect("no member drives it");
    limiter.set_rate(20).expect("no member drives it");
    assert_eq!(limiter.rate(), 20);
    limiter.set_rate_while(30, || false).expect("no member drives it");
    assert_eq!(limiter.rate(), 0);
}
