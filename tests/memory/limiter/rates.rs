//! How fast permits come, and what a change of the rate does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Machine};

use tokio::time::{Instant, advance, sleep};
use zookeeper_recipes::limiter::{Error, ShareLimiter};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long it takes to acquire so many, one by one.
async fn time_of(limiter: &ShareLimiter, permits: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..permits {
        limiter.acquire(1).await.expect("one is no more than the burst");
    }
    start.elapsed()
}

/// How many are there now.
fn there_are(limiter: &ShareLimiter) -> u64 {
    std::iter::from_fn(|| limiter.try_acquire(1).expect("one is no more than the burst").then_some(())).count() as u64
}

#[tokio::test(start_paused = true)]
async fn permits_come_at_the_rate() {
    for (rate, permits, time) in [(1, 3, 3_000), (10, 10, 1_000), (1_000, 1_000, 1_000), (100_000, 200_000, 2_000)] {
        assert_eq!(time_of(&ShareLimiter::new(rate), permits).await, millis(time), "{permits} at {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_no_clock_divides_is_kept_in_the_long_run() {
    for (rate, permits, time) in [(7, 7_000, 1_000_000), (99, 990, 10_000), (333, 3_330, 10_000)] {
        assert_eq!(time_of(&ShareLimiter::new(rate), permits).await, millis(time), "{permits} at {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_starts_empty_and_keeps_no_more_than_its_burst() {
    let limiter = ShareLimiter::with_burst(10, 5).expect("a good burst");
    assert_eq!(there_are(&limiter), 0);
    advance(millis(300)).await;
    assert_eq!(there_are(&limiter), 3);
    advance(millis(3_600_000)).await;
    assert_eq!(there_are(&limiter), 5);
}

#[tokio::test(start_paused = true)]
async fn it_also_keeps_what_comes_in_10_ms() {
    let limiter = ShareLimiter::new(100_000);
    advance(millis(60_000)).await;
    assert_eq!(there_are(&limiter), 1 + 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_no_burst() {
    let limiter = ShareLimiter::with_burst(10, 5).expect("a good burst");
    advance(millis(60_000)).await;
    limiter.set_rate(10_000).expect("no member drives it");
    assert_eq!(there_are(&limiter), 5, "as many as before, though there is room for more now");
    assert_eq!(time_of(&limiter, 100).await, millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_raise_counts_from_now_on() {
    let limiter = ShareLimiter::new(1);
    advance(millis(500)).await;
    limiter.set_rate(10).expect("no member drives it");
    // Half of it was there, the other half comes ten times as fast.
    assert_eq!(time_of(&limiter, 1).await, millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_lower_rate_pays_the_same_debt() {
    let limiter = ShareLimiter::new(10);
    advance(millis(50)).await;
    limiter.set_rate(1).expect("no member drives it");
    assert_eq!(time_of(&limiter, 1).await, millis(500));
    assert_eq!(time_of(&limiter, 1).await, millis(1_000), "and no more was there");
}

#[tokio::test(start_paused = true)]
async fn a_lower_rate_has_less_room() {
    let limiter = ShareLimiter::with_burst(100_000, 5).expect("a good burst");
    advance(millis(60_000)).await;
    limiter.set_rate(10).expect("no member drives it");
    assert_eq!(there_are(&limiter), 5);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_set_again_changes_nothing() {
    let limiter = ShareLimiter::new(10);
    let setter = limiter.clone();
    let often = async {
        for _ in 0..99 {
            sleep(millis(10)).await;
            setter.set_rate(10).expect("no member drives it");
        }
    };
    let (time, ()) = tokio::join!(time_of(&limiter, 10), often);
    assert_eq!(time, millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn at_a_rate_of_0_it_grants_nothing_and_keeps_nothing() {
    let limiter = ShareLimiter::with_burst(10, 5).expect("a good burst");
    advance(millis(60_000)).await;
    limiter.set_rate(0).expect("no member drives it");
    assert_eq!((limiter.rate(), there_are(&limiter)), (0, 0));
    advance(millis(60_000)).await;
    limiter.set_rate(10).expect("no member drives it");
    assert_eq!((limiter.rate(), there_are(&limiter)), (10, 0));
    assert_eq!(time_of(&limiter, 1).await, millis(100));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_burst_is_an_error_at_once() {
    let limiter = ShareLimiter::with_burst(0, 5).expect("a good burst");
    let error = Error::TooMany { permits: 6, burst: 5 };
    assert_eq!(limiter.acquire(6).await, Err(error));
    assert_eq!(limiter.try_acquire(6), Err(error));
    let text = "acquire 6 permits at once: the burst of the limiter is 5; see ShareLimiter::with_burst";
    assert_eq!(error.to_string(), text);
    assert_eq!(ShareLimiter::with_burst(10, 0).err(), Some(Error::NoBurst));
    assert_eq!(limiter.acquire(0).await, Ok(()), "of none there are enough");
}

#[tokio::test(start_paused = true)]
async fn the_largest_values_do_not_overflow() {
    let limiter = ShareLimiter::with_burst(u64::MAX, u64::MAX).expect("a good burst");
    limiter.acquire(u64::MAX).await.expect("no more than the burst");
    advance(Duration::from_secs(3_600 * 24 * 365)).await;
    assert_eq!(limiter.try_acquire(u64::MAX), Ok(true));
    assert_eq!(limiter.try_acquire(u64::MAX), Ok(false), "no second burst was kept");
    limiter.set_rate(1).expect("no member drives it");
    // Waits for longer than there are nanoseconds to count, until the rate changes.
    let (all, ()) = tokio::join!(limiter.acquire(u64::MAX), async {
        sleep(millis(1_000)).await;
        limiter.set_rate(u64::MAX).expect("no member drives it");
    });
    assert_eq!(all, Ok(()));
}

/// On many threads, by the machine's clock: the highest rate limits all grants, even if it is set meanwhile.
#[test]
fn threads_together_get_no_more_than_the_rate() {
    const HIGHEST: u64 = 50_000;
    const BURST: u64 = 10;
    let start = Machine::now();
    let limiter = ShareLimiter::with_burst(HIGHEST, BURST).expect("a good burst");
    let granted = Arc::new(AtomicU64::new(0));
    let over = || start.elapsed() >= millis(200);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over() {
                    if limiter.try_acquire(2) == Ok(true) {
                        granted.fetch_add(2, Ordering::Relaxed);
                    }
                }
            });
        }
        for rate in (0..HIGHEST).rev().step_by(7).take_while(|_| !over()) {
            limiter.set_rate(HIGHEST - rate % 1_000).expect("no member drives it");
        }
    });
    let most = start.elapsed().as_nanos() as u64 * HIGHEST / 1_000_000_000;
    let granted = granted.load(Ordering::Relaxed);
    assert!((100..=most).contains(&granted), "{granted} of {most}");
}
