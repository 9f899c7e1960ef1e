//! The services that are made of the targets of a service.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::{self, BoxStream, FuturesUnordered, Stream, StreamExt};
use tower::discover::Change;
use tower_service::Service;

use super::targets::Targets;
use crate::util::serializer::BoxError;

/// The pause after the first time that a service could not be made.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Services for a balancer, made of [`Targets`]; see [`Targets::make_services`].
pub struct MadeServices<S>(BoxStream<'static, Result<Change<Arc<str>, S>, Infallible>>);

impl<T: Clone + Send + 'static> Targets<T> {
    /// Makes a service of each target, as tower's `MakeService` does. `make` is called for several targets at once. An
    /// instance gets requests as soon as its service is made; until then, one that is replaced keeps its former
    /// service. If a service cannot be made, that is logged as `service_not_made`, and repeated after 100 ms, then
    /// twice that, up to 10 s, while the instance is there.
    ///
    /// A balancer drops a service that fails to become ready, so services must connect again by themselves, as
    /// `tower::reconnect::Reconnect` and the client of `hyper-util` do.
    ///
    /// ```no_run
    /// use std::convert::Infallible;
    /// use tower::balance::p2c::Balance;
    /// use tower::load::Constant;
    /// use tower::{ServiceExt, service_fn};
    /// use zookeeper_recipes::service_discovery::Service;
    ///
    /// # #[derive(Clone)] struct Connection;
    /// # impl Connection {
    /// #     async fn open(_: String) -> Result<Self, std::io::Error> { Ok(Connection) }
    /// #     async fn get(self, _: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # }
    /// # async fn example(api: &Service<()>) -> Result<(), tower::BoxError> {
    /// let connect = service_fn(async |uri: String| {
    ///     let connection = Connection::open(uri).await?;
    ///     let get = move |path| connection.clone().get(path);
    ///     Ok::<_, std::io::Error>(Constant::new(service_fn(get), 1))
    /// });
    /// let services = api.targets(|instance| instance.uri()).make_services(connect);
    /// let mut balance = Balance::new(services);
    /// println!("{}", balance.ready().await?.call("/").await?);
    /// # use tower::Service as _;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It must be polled inside a tokio runtime with timers.
    pub fn make_services<M>(self, make: M) -> MadeServices<M::Response>
    where
        M: Service<T> + Clone + Send + 'static,
        M::Future: Send,
        M::Response: Send + 'static,
        M::Error: Into<BoxError>,
    {
        let making = Making { targets: self, make, running: FuturesUnordered::new(), services: HashMap::new() };
        let changes = stream::unfold(making, async |mut making| Some((Ok(making.next().await?), making)));
        // A balancer polls on after the end.
        MadeServices(changes.fuse().boxed())
    }
}

/// The targets, and the services that are made and that were made of them.
struct Making<T, M: Service<T>> {
    targets: Targets<T>,
    make: M,
    running: FuturesUnordered<Abortable<Attempts<M::Response>>>,
    services: HashMap<Arc<str>, Made>,
}

/// Returns a service, with the path of its instance.
type Attempts<S> = BoxFuture<'static, (Arc<str>, S)>;

/// The service of one target.
struct Made {
    /// Ends the attempts to make the latest one.
    attempts: AbortHandle,
    /// Whether the balancer has one, perhaps of a former target.
    is_inserted: bool,
}

impl<T, M> Making<T, M>
where
    T: Clone + Send + 'static,
    M: Service<T> + Clone + Send + 'static,
    M::Future: Send,
    M::Response: Send + 'static,
    M::Error: Into<BoxError>,
{
    /// Waits for the next service, or for the end of one. Returns `None` once the client is closed.
    async fn next(&mut self) -> Option<Change<Arc<str>, M::Response>> {
        loop {
            tokio::select! {
                biased;
                change = self.targets.next() => match change? {
                    Ok(Change::Insert(path, target)) => self.begin(path, target),
                    Ok(Change::Remove(path)) => {
                        let made = self.services.remove(&path);
                        made.iter().for_each(|made| made.attempts.abort());
                        if made.is_some_and(|made| made.is_inserted) {
                            return Some(Change::Remove(path));
                        }
                    }
                },
                Some(made) = self.running.next() => {
                    // Otherwise the target is gone or was replaced.
                    let Ok((path, service)) = made else { continue };
                    self.services.entry(Arc::clone(&path)).and_modify(|made| made.is_inserted = true);
                    return Some(Change::Insert(path, service));
                }
            }
        }
    }

    /// Begins to make a service. It takes the place of the one that is being made of the former target.
    fn begin(&mut self, path: Arc<str>, target: T) {
        let (attempts, registration) = AbortHandle::new_pair();
        let service = made(self.make.clone(), Arc::clone(&path), target);
        self.running.push(Abortable::new(Box::pin(service), registration));
        match self.services.entry(path) {
            Entry::Vacant(new) => drop(new.insert(Made { attempts, is_inserted: false })),
            Entry::Occupied(mut made) => std::mem::replace(&mut made.get_mut().attempts, attempts).abort(),
        }
    }
}

/// Makes a service, as often as that takes.
async fn made<T, M>(make: M, path: Arc<str>, target: T) -> (Arc<str>, M::Response)
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
            Ok(service) => return (path, service),
            Err(error) => {
                let error: BoxError = error.into();
                tracing::warn!(event = "service_not_made", path = &*path, %error, ?pause, "trying again after a pause");
            }
        }
        tokio::time::sleep(pause).await;
    }
    unreachable!("there is no last pause")
}

impl<S> Stream for MadeServices<S> {
    type Item = Result<Change<Arc<str>, S>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<S> fmt::Debug for MadeServices<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeServices").finish_non_exhaustive()
    }
}
