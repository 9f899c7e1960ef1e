//! The services that are made of the targets of a service.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{Stream, StreamExt};
use tower::discover::Change;
use tower_service::Service;

use super::targets::Targets;
use crate::util::serializer::BoxError;

/// The pause after a service has failed, or could not be made.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Services for a balancer, made of [`Targets`]; see [`Targets::make_services`].
pub struct MadeServices<T, M> {
    targets: Targets<T>,
    make: M,
}

impl<T: Clone + Send + 'static> Targets<T> {
    /// Makes a service of each target. `make` is what tower calls a `MakeService`: a service that takes a target, and
    /// answers with a service, such as a connection.
    ///
    /// A service that cannot be made, and one that fails to become ready, as a connection that was closed does, is made
    /// again, after 100 ms, then twice that, up to 10 s, as long as the instance is there. Meanwhile it is pending, and
    /// the balancer chooses among the others. So if an instance is killed, only the calls that are under way fail.
    /// Each failure is logged as `service_failed`.
    ///
    /// Services are made while the balancer is polled. One in a `tower::buffer::Buffer` is polled when there are calls:
    /// until the next call, nothing is connected, and connections to instances that are gone stay.
    ///
    /// ```no_run
    /// # use std::future::{Ready, ready};
    /// # use std::task::{Context, Poll};
    /// use tower::balance::p2c::Balance;
    /// use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
    /// use tower::{BoxError, Service as _, ServiceExt, service_fn};
    /// use zookeeper_recipes::service_discovery::Service;
    ///
    /// # struct Connection;
    /// # impl Connection {
    /// #     async fn open(_: String) -> Result<Self, std::io::Error> { Ok(Connection) }
    /// # }
    /// # impl tower::Service<&'static str> for Connection {
    /// #     type Response = String;
    /// #     type Error = std::io::Error;
    /// #     type Future = Ready<Result<String, std::io::Error>>;
    /// #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
    /// #         Poll::Ready(Ok(()))
    /// #     }
    /// #     fn call(&mut self, _: &'static str) -> Self::Future { ready(Ok(String::new())) }
    /// # }
    /// # async fn example(api: &Service<()>) -> Result<(), BoxError> {
    /// let targets = api.targets(|instance| instance.uri());
    /// // Its `poll_ready` returns an error once it is closed, as that of hyper's
    /// // connections does.
    /// let services = targets.make_services(service_fn(Connection::open));
    /// let discover =
    ///     PendingRequestsDiscover::new(services, CompleteOnResponse::default());
    /// let mut balance = Balance::new(discover);
    /// println!("{}", balance.ready().await?.call("/").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It must be polled inside a tokio runtime with timers.
    pub fn make_services<M>(self, make: M) -> MadeServices<T, M>
    where
        M: Service<T> + Clone + Send + Unpin + 'static,
        M::Future: Send,
        M::Response: Send + 'static,
        M::Error: Into<BoxError>,
    {
        MadeServices { targets: self, make }
    }
}

impl<T, M> Stream for MadeServices<T, M>
where
    T: Clone + Send + Unpin + 'static,
    M: Service<T> + Clone + Send + Unpin + 'static,
    M::Future: Send,
    M::Response: Send + 'static,
    M::Error: Into<BoxError>,
{
    type Item = Result<Change<Arc<str>, MadeService<T, M>>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let change = match ready!(self.targets.poll_next_unpin(cx)) {
            Some(Ok(Change::Insert(path, target))) => {
                let service = MadeService::new(Arc::clone(&path), target, self.make.clone());
                Change::Insert(path, service)
            }
            Some(Ok(Change::Remove(path))) => Change::Remove(path),
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(change)))
    }
}

impl<T, M> fmt::Debug for MadeServices<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeServices").finish_non_exhaustive()
    }
}

/// The service of one instance, which is made again when it has failed; see [`Targets::make_services`].
pub struct MadeService<T, M: Service<T>> {
    path: Arc<str>,
    target: T,
    make: M,
    state: State<M::Response>,
}

/// A service, or how it is made.
enum State<S> {
    /// It was made.
    Made(S),
    /// It is being made, as often as that takes.
    Making(BoxFuture<'static, S>),
}

impl<T, M> MadeService<T, M>
where
    T: Clone + Send + 'static,
    M: Service<T> + Clone + Send + 'static,
    M::Future: Send,
    M::Response: Send + 'static,
    M::Error: Into<BoxError>,
{
    fn new(path: Arc<str>, target: T, make: M) -> Self {
        let state = State::Making(made(Arc::clone(&path), target.clone(), make.clone()).boxed());
        MadeService { path, target, make, state }
    }

    /// Makes it again, after a pause.
    fn make_again(&mut self) {
        let made = made(Arc::clone(&self.path), self.target.clone(), self.make.clone());
        let later = async {
            tokio::time::sleep(FIRST_PAUSE).await;
            made.await
        };
        self.state = State::Making(later.boxed());
    }
}

impl<T, M, Request> Service<Request> for MadeService<T, M>
where
    T: Clone + Send + 'static,
    M: Service<T> + Clone + Send + 'static,
    M::Future: Send,
    M::Response: Service<Request> + Send + 'static,
    <M::Response as Service<Request>>::Error: Into<BoxError>,
    M::Error: Into<BoxError>,
{
    type Response = <M::Response as Service<Request>>::Response;
    type Error = <M::Response as Service<Request>>::Error;
    type Future = <M::Response as Service<Request>>::Future;

    /// Waits until the service is made and ready. Never fails.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            match &mut self.state {
                State::Making(making) => self.state = State::Made(ready!(making.poll_unpin(cx))),
                State::Made(service) => match ready!(service.poll_ready(cx)) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(error) => {
                        let error = error.into();
                        tracing::warn!(event = "service_failed", path = &*self.path, %error, "making it again");
                        self.make_again();
                    }
                },
            }
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match &mut self.state {
            State::Made(service) => service.call(request),
            State::Making(_) => panic!("a call of a service that is not ready; poll_ready must return Ready first"),
        }
    }
}

impl<T, M: Service<T>> fmt::Debug for MadeService<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_made = matches!(self.state, State::Made(_));
        f.debug_struct("MadeService").field("path", &self.path).field("is_made", &is_made).finish_non_exhaustive()
    }
}

/// Makes a service, as often as that takes.
async fn made<T, M>(path: Arc<str>, target: T, make: M) -> M::Response
where
    T: Clone,
    M: Service<T> + Clone,
    M::Error: Into<BoxError>,
{
    let pauses = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE).with_jitter();
    for pause in pauses.without_max_times().build() {
        let (mut make, target) = (make.clone(), target.clone());
        let attempt = async {
            poll_fn(|cx| make.poll_ready(cx)).await?;
            make.call(target).await
        };
        match attempt.await {
            Ok(service) => return service,
            Err(error) => {
                let error: BoxError = error.into();
                tracing::warn!(event = "service_failed", path = &*path, %error, ?pause, "it cannot be made");
            }
        }
        tokio::time::sleep(pause).await;
    }
    unreachable!("there is no last pause")
}
