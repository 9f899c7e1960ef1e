//! The limiter around a service.

use std::future::{Ready, poll_fn, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tower_layer::Layer;
use tower_service::Service;
use zookeeper_recipes::limiter::{ShareLimit, ShareLimitLayer, ShareLimiter};

/// Answers with the request, if it is open.
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
        ready(Ok(request))
    }
}

fn limited(limiter: &ShareLimiter) -> ShareLimit<Echo> {
    ShareLimitLayer::new(limiter.clone()).layer(Echo { open: true })
}

async fn ask(service: &mut ShareLimit<Echo>, request: u32) -> Result<u32, &'static str> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_permit_and_clones_share_the_rate() {
    let limiter = ShareLimiter::new(10);
    let mut one = limited(&limiter);
    let mut other = one.clone();
    let start = Instant::now();
    for request in 0..5 {
        let (first, second) = tokio::join!(ask(&mut one, request), ask(&mut other, request + 100));
        assert_eq!((first, second), (Ok(request), Ok(request + 100)));
    }
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_follows_a_new_rate() {
    let limiter = ShareLimiter::new(0);
    let mut service = limited(&limiter);
    assert!(timeout(Duration::from_secs(60), ask(&mut service, 1)).await.is_err());
    limiter.set_rate(10);
    let start = Instant::now();
    assert_eq!(ask(&mut service, 2).await, Ok(2));
    assert_eq!(start.elapsed(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn readiness_is_kept_until_the_call_and_costs_one_permit() {
    let limiter = ShareLimiter::with_burst(10, 2).expect("a good burst");
    let mut service = limited(&limiter);
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..3 {
        assert_eq!(poll_fn(|cx| service.poll_ready(cx)).await, Ok(()));
    }
    assert_eq!(limiter.try_acquire(1), Ok(true), "only one of two was taken");
    assert_eq!(service.call(1).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_takes_no_permit() {
    let limiter = ShareLimiter::new(10);
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut service = ShareLimit::new(Echo { open: false }, limiter.clone());
    assert_eq!(ask(&mut service, 1).await, Err("closed"));
    assert_eq!(limiter.try_acquire(1), Ok(true));
}

#[tokio::test]
#[should_panic(expected = "poll_ready")]
async fn a_call_without_readiness_is_a_mistake() {
    let _ = limited(&ShareLimiter::new(10)).call(1).await;
}
