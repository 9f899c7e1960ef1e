//! The services that are made of the targets of a service.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{Stream, StreamExt};
use tokio::time::Instant;
use tower::discover::Change;
use tower_service::Service;

use super::targets::Targets;
use crate::util::panic::panic_text;
use crate::util::serializer::BoxError;

/// The pause after a service has failed, or could not be made; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, and how long a service must have been there for the pauses to begin with the first one again.
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
    /// again, after up to 100 ms, then twice that, up to 10 s, as long as the instance is there. The pauses begin again
    /// after a service that was there for 10 s. Meanwhile it is pending, and the balancer chooses among the others. So
    /// if an instance is killed, only the calls that are under way fail. Each failure is logged as `service_failed`; a
    /// panic of `make` is a failure. Put a timeout into `make`: an attempt may take as long as it likes.
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
    /// It was made, at this time.
    Made { service: S, since: Instant, pauses: Pauses },
    /// It is being made, as often as that takes.
    Making(BoxFuture<'static, (S, Pauses)>),
}

/// The pauses of one instance.
struct Pauses {
    next: Duration,
}

impl Pauses {
    const fn new() -> Self {
        Pauses { next: FIRST_PAUSE }
    }

    /// Returns the pause after a failure of a service that was there for so long.
    fn after(&mut self, worked: Duration) -> Duration {
        if worked >= LONGEST_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        pause
    }
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
        let making = made(Arc::clone(&path), target.clone(), make.clone(), Pauses::new());
        MadeService { path, target, make, state: State::Making(making.boxed()) }
    }

    /// Makes it again, after a pause.
    fn make_again(&mut self, pause: Duration, pauses: Pauses) {
        let made = made(Arc::clone(&self.path), self.target.clone(), self.make.clone(), pauses);
        let later = async move {
            tokio::time::sleep(pause).await;
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
                State::Making(making) => {
                    let (service, pauses) = ready!(making.poll_unpin(cx));
                    self.state = State::Made { service, since: Instant::now(), pauses };
                }
                State::Made { service, since, pauses } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(error) => {
                        let mut pauses = std::mem::replace(pauses, Pauses::new());
                        let pause = pauses.after(since.elapsed());
                        log(&self.path, &error.into(), pause);
                        self.make_again(pause, pauses);
                    }
                },
            }
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match &mut self.state {
            State::Made { service, .. } => service.call(request),
            State::Making(_) => panic!("a call of a service that is not ready; poll_ready must return Ready first"),
        }
    }
}

impl<T, M: Service<T>> fmt::Debug for MadeService<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_made = matches!(self.state, State::Made { .. });
        f.debug_struct("MadeService").field("path", &self.path).field("is_made", &is_made).finish_non_exhaustive()
    }
}

/// Makes a service, as often as that takes.
async fn made<T, M>(path: Arc<str>, target: T, make: M, mut pauses: Pauses) -> (M::Response, Pauses)
where
    T: Clone,
    M: Service<T> + Clone,
    M::Error: Into<BoxError>,
{
    loop {
        let (mut make, target) = (make.clone(), target.clone());
        let attempt = async {
            poll_fn(|cx| make.poll_ready(cx)).await.map_err(Into::into)?;
            make.call(target).await.map_err(Into::into)
        };
        let error = match AssertUnwindSafe(attempt).catch_unwind().await {
            Ok(Ok(service)) => return (service, pauses),
            Ok(Err(error)) => error,
            Err(panic) => format!("`make` panicked: {}", panic_text(panic)).into(),
        };
        let pause = pauses.after(Duration::ZERO);
        log(&path, &error, pause);
        tokio::time::sleep(pause).await;
    }
}

fn log(path: &str, error: &BoxError, pause: Duration) {
    tracing::warn!(event = "service_failed", path, %error, ?pause, "it is made again after a pause");
}
