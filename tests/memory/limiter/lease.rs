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

/// The limiter is of no use to it, but it must not block.
#[tokio::test(start_paused = true)]
async fn a_lease_may_use_the_limiter() {
    let limiter = ShareLimiter::new(0);
    let (of_lease, other) = (limiter.clone(), ShareLimiter::new(5));
    let lease = move || {
        let (rate, shown, taken) = (of_lease.rate(), format!("{of_lease:?}"), of_lease.try_acquire(1));
        assert!(shown.contains(&rate.to_string()) && taken.is_ok() && !of_lease.is_closed(), "{shown}");
        other.rate() == 5
    };
    limiter.set_rate_while(10, lease).expect("no member drives it");
    assert_eq!(limiter.rate(), 10);
    limiter.acquire(1).await.expect("no more than the burst");
    // The lease has the limiter, which has the lease.
    limiter.close();
}

/// One that ends while it is asked.
#[tokio::test(start_paused = true)]
async fn a_lease_may_replace_itself() {
    let limiter = ShareLimiter::new(0);
    let of_lease = limiter.clone();
    limiter.set_rate_while(10, move || of_lease.set_rate(3).is_ok()).expect("no member drives it");
    assert!(limiter.try_acquire(1).is_ok());
    sleep(Duration::from_secs(1)).await;
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (3, Ok(true)));
}
