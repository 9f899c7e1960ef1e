//! The limiter around a service.

use std::future::{Ready, poll_fn, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tower_layer::Layer;
use tower_service::Service;
use zookeeper_recipes::limiter::{BoxError, Error, ShareLimit, ShareLimitLayer, ShareLimiter};

/// Answers with the request, if it is open and the request is not 0.
#[derive(Debug, Clone, Copy)]
struct Echo {
    open: bool,
}

impl Service<u32> for Echo {
    type Response = u32;
    type Error = &'static str;
    type Future = Ready<Result<u32, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(if self.open { Ok(()) } else { Err("closed") })
    }

    fn call(&mut self, request: u32) -> Self::Future {
        ready(if request > 0 { Ok(request) } else { Err("zero") })
    }
}

fn limited(limiter: &ShareLimiter) -> ShareLimit<Echo> {
    ShareLimitLayer::new(limiter.clone()).layer(Echo { open: true })
}

async fn ask(service: &mut ShareLimit<Echo>, request: u32) -> Result<u32, BoxError> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_permit_and_clones_share_the_rate() {
    let limiter = ShareLimiter::new(10);
    let mut one = limited(&limiter);
    let mut other = one.clone();
    let start = Instant::now();
    for request in 1..=5 {
        let both = tokio::try_join!(ask(&mut one, request), ask(&mut other, request + 100));
        assert_eq!(both.expect("answers"), (request, request + 100));
    }
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_follows_a_new_rate() {
    let limiter = ShareLimiter::new(0);
    let mut service = limited(&limiter);
    assert!(timeout(Duration::from_secs(60), ask(&mut service, 1)).await.is_err());
    limiter.set_rate(10).expect("no member drives it");
    let start = Instant::now();
    assert_eq!(ask(&mut service, 2).await.expect("an answer"), 2);
    assert_eq!(start.elapsed(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn readiness_is_kept_until_the_call_and_costs_one_permit() {
    let limiter = ShareLimiter::with_burst(10, 2).expect("a good burst");
    let mut service = limited(&limiter);
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..3 {
        poll_fn(|cx| service.poll_ready(cx)).await.expect("a permit");
    }
    assert_eq!(limiter.try_acquire(1), Ok(true), "only one of two was taken");
    assert_eq!(service.call(1).await.expect("an answer"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_takes_no_permit() {
    let limiter = ShareLimiter::new(10);
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut service = ShareLimit::new(Echo { open: false }, limiter.clone());
    assert_eq!(ask(&mut service, 1).await.expect_err("not open").to_string(), "closed");
    assert_eq!(limiter.try_acquire(1), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn the_error_is_that_of_the_service() {
    let error = ask(&mut limited(&ShareLimiter::new(10)), 0).await.expect_err("zero");
    assert_eq!(error.to_string(), "zero");
}

#[tokio::test(start_paused = true)]
async fn when_the_limiter_is_closed_it_fails_once_and_for_all() {
    let limiter = ShareLimiter::new(0);
    let mut service = limited(&limiter);
    // The request waits first.
    let (asked, ()) = tokio::join!(ask(&mut service, 1), async { limiter.close() });
    let error = asked.expect_err("no more permits");
    assert_eq!(error.downcast_ref(), Some(&Error::Closed));
    for mut service in [service.clone(), service] {
        let error = ask(&mut service, 1).await.expect_err("no more permits");
        assert_eq!(error.downcast_ref(), Some(&Error::Closed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_of_before_it_was_closed_is_still_good() {
    let limiter = ShareLimiter::new(10);
    let mut service = limited(&limiter);
    poll_fn(|cx| service.poll_ready(cx)).await.expect("a permit");
    limiter.close();
    assert_eq!(service.call(1).await.expect("an answer"), 1);
    ask(&mut service, 2).await.expect_err("no more permits");
}

/// As after a timeout around `ready()`.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_kept_and_not_polled_holds_no_others_up() {
    let limiter = ShareLimiter::new(10);
    let (mut kept, mut other) = (limited(&limiter), limited(&limiter));
    let ready = poll_fn(|cx| kept.poll_ready(cx));
    assert!(timeout(Duration::from_millis(10), ready).await.is_err());
    let start = Instant::now();
    for request in 1..=5 {
        assert_eq!(ask(&mut other, request).await.expect("an answer"), request);
    }
    assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(ask(&mut kept, 9).await.expect("an answer"), 9);
    assert_eq!(start.elapsed(), Duration::ZERO, "its permit was set aside");
}

#[tokio::test]
#[should_panic(expected = "poll_ready")]
async fn a_call_without_readiness_is_a_mistake() {
    let _ = limited(&ShareLimiter::new(10)).call(1).await;
}
