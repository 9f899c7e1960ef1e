//! A tower service behind a limiter.

use std::fmt;
use std::task::{Context, Poll, ready};

use futures::future::{BoxFuture, MapErr, TryFutureExt};
use tower_layer::Layer;
use tower_service::Service;

use super::{Error, ShareLimiter};

/// The error of a limited service: any error, as `tower::BoxError`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Limits services to the rate of a [`ShareLimiter`]: each request takes one permit.
///
/// Its services and their clones share one limiter. Keep a clone of the limiter to set the rate. The error of the
/// services is a [`BoxError`], as in tower's layers that can fail: the error of the service, or [`Error::Closed`] once
/// the limiter is [closed](ShareLimiter::close).
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Ready, poll_fn, ready};
/// use std::task::{Context, Poll};
/// use tower_layer::Layer;
/// use tower_service::Service;
/// use zookeeper_recipes::limiter::{ShareLimitLayer, ShareLimiter};
///
/// #[derive(Clone)]
/// struct Echo;
///
/// impl Service<u32> for Echo {
///     type Response = u32;
///     type Error = Infallible;
///     type Future = Ready<Result<u32, Infallible>>;
///
///     fn poll_ready(
///         &mut self,
///         _: &mut Context<'_>,
///     ) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn call(&mut self, request: u32) -> Self::Future {
///         ready(Ok(request))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), zookeeper_recipes::limiter::BoxError> {
/// let limiter = ShareLimiter::new(100);
/// let mut service = ShareLimitLayer::new(limiter.clone()).layer(Echo);
/// poll_fn(|cx| service.poll_ready(cx)).await?; // 10 ms later
/// assert_eq!(service.call(7).await?, 7);
/// limiter.set_rate(50)?;
///
/// limiter.close();
/// let ready = poll_fn(|cx| service.poll_ready(cx)).await;
/// let error = ready.expect_err("no more permits");
/// assert!(error.is::<zookeeper_recipes::limiter::Error>());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ShareLimitLayer {
    limiter: ShareLimiter,
}

impl ShareLimitLayer {
    /// Returns a layer that uses this limiter.
    pub fn new(limiter: ShareLimiter) -> Self {
        ShareLimitLayer { limiter }
    }
}

impl<S> Layer<S> for ShareLimitLayer {
    type Service = ShareLimit<S>;

    fn layer(&self, inner: S) -> ShareLimit<S> {
        ShareLimit::new(inner, self.limiter.clone())
    }
}

/// A service that is ready when a permit has been granted.
///
/// If the service is dropped before it uses its permit, the permit is lost. A permit that was granted before the
/// limiter was closed stays valid. A service that waits and is no longer polled, for example after a timeout around
/// `ready()`, does not delay others: it keeps its place, and its permit is set aside for its next request.
pub struct ShareLimit<S> {
    inner: S,
    limiter: ShareLimiter,
    permit: Permit,
}

/// The permit for the next request.
enum Permit {
    /// No caller has polled the service since the last request.
    None,
    /// The service waits for one.
    Awaited(BoxFuture<'static, Result<(), Error>>),
    /// The service has one.
    Granted,
}

impl<S> ShareLimit<S> {
    /// Limits `inner`.
    pub fn new(inner: S, limiter: ShareLimiter) -> Self {
        ShareLimit { inner, limiter, permit: Permit::None }
    }

    fn poll_permit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            match &mut self.permit {
                Permit::Granted => return Poll::Ready(Ok(())),
                Permit::Awaited(permit) => {
                    let granted = ready!(permit.as_mut().poll(cx));
                    self.permit = if granted.is_ok() { Permit::Granted } else { Permit::None };
                    granted?;
                }
                Permit::None => {
                    let limiter = self.limiter.clone();
                    self.permit = Permit::Awaited(Box::pin(async move { limiter.acquire(1).await }));
                }
            }
        }
    }
}

impl<S, Request> Service<Request> for ShareLimit<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = MapErr<S::Future, fn(S::Error) -> BoxError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Polls the service first, so that no permit is taken for a service that cannot use it.
        ready!(self.inner.poll_ready(cx)).map_err(Into::into)?;
        self.poll_permit(cx).map_err(Into::into)
    }

    /// # Panics
    /// If the service was not ready, as [`Service::call`] allows.
    fn call(&mut self, request: Request) -> Self::Future {
        assert!(matches!(self.permit, Permit::Granted), "poll_ready must return Ready before each call");
        self.permit = Permit::None;
        self.inner.call(request).map_err(Into::into)
    }
}

/// A clone waits for its own permits.
impl<S: Clone> Clone for ShareLimit<S> {
    fn clone(&self) -> Self {
        ShareLimit::new(self.inner.clone(), self.limiter.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for ShareLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareLimit").field("inner", &self.inner).field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
