//! The instances of a service as a stream for tower's balancers, and for tonic's channels.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::sync::watch;
use tower::discover::Change;

use super::found::Instance;
use super::service::Service;
use crate::util::panic::caught;

/// Where the instances of a service can be reached, as changes for [`tower::balance`] and for tonic; see
/// [`Service::targets`].
///
/// It is a [`tower::discover::Discover`]. Its keys are the paths of the nodes. There are no errors. It ends when the
/// client is closed.
///
/// [`tower::balance`]: https://docs.rs/tower/latest/tower/balance/
pub struct Targets<T>(BoxStream<'static, Result<Change<Arc<str>, T>, Infallible>>);

impl<P: Send + Sync + 'static> Service<P> {
    /// Returns the instances that [`next`](Self::next) chooses from, as a stream for a balancer: first those that are
    /// there, then each change. `target` returns where an instance can be reached, such as its URI; an instance for
    /// which it returns `None`, or panics, is left out. It is called for each instance at each change, so it must be
    /// quick. A clone of the instance is a target too, for services that
    /// [report](Self::report_error) their errors.
    ///
    /// An instance that is disabled or [down](Self::report_error) is removed, unless all are. In an outage nothing is
    /// removed. If an instance has another target, or has registered again, it is inserted again, as a connection to
    /// its former process is of no use; the balancer replaces it once the new one is ready. Other changes of an
    /// instance, such as that of a payload, are no change here.
    ///
    /// The balancer chooses, so the [strategy](super::ServiceBuilder::strategy) and the weights do not count. The
    /// stream keeps the service up to date, even after all its handles were dropped.
    ///
    /// The stream advances while it is polled. With tonic, a channel that balances:
    ///
    /// ```no_run
    /// # // Stands for `tonic::transport`.
    /// # mod transport {
    /// #     #[derive(Clone)] pub struct Endpoint;
    /// #     impl Endpoint {
    /// #         pub fn from_shared(_: String) -> Result<Self, std::io::Error> { Ok(Endpoint) }
    /// #     }
    /// #     pub enum Change<K, V> { Insert(K, V), Remove(K) }
    /// #     pub struct Channel;
    /// #     impl Channel {
    /// #         pub fn balance_channel<K>(
    /// #             capacity: usize,
    /// #         ) -> (Channel, tokio::sync::mpsc::Sender<Change<K, Endpoint>>) {
    /// #             (Channel, tokio::sync::mpsc::channel(capacity).0)
    /// #         }
    /// #     }
    /// # }
    /// use futures::StreamExt;
    /// use tower::discover::Change;
    /// use zookeeper_recipes::service_discovery::Service;
    /// # use transport::{Channel, Endpoint};
    ///
    /// fn channel(api: &Service<()>) -> Channel {
    ///     let mut targets = api.targets(|instance| instance.uri());
    ///     let (channel, sender) = Channel::balance_channel(1024);
    ///     tokio::spawn(async move {
    ///         while let Some(Ok(change)) = targets.next().await {
    ///             let change = match change {
    ///                 Change::Insert(path, uri) => match Endpoint::from_shared(uri) {
    ///                     Ok(endpoint) => transport::Change::Insert(path, endpoint),
    ///                     Err(_) => continue, // no URI
    ///                 },
    ///                 Change::Remove(path) => transport::Change::Remove(path),
    ///             };
    ///             if sender.send(change).await.is_err() {
    ///                 return; // the channel was dropped
    ///             }
    ///         }
    ///     });
    ///     channel
    /// }
    /// ```
    ///
    /// To such a channel, an endpoint whose instance was killed is ready until it is removed, which takes up to a
    /// session timeout: calls fail, and need several attempts. [`Targets::make_services`] has no such endpoints; the
    /// example `service_discovery_tonic` uses it with tonic's clients.
    pub fn targets<T>(&self, target: impl Fn(&Instance<P>) -> Option<T> + Send + 'static) -> Targets<T>
    where
        T: Clone + PartialEq + Send + 'static,
    {
        let mut views = self.views();
        views.mark_changed();
        let followed = Followed { service: self.clone(), views, target, known: HashMap::new() };
        let changes = stream::unfold(followed, async |mut followed| {
            let changes = followed.next().await?;
            Some((stream::iter(changes.into_iter().map(Ok)), followed))
        });
        // A balancer polls on after the end.
        Targets(changes.flatten().fuse().boxed())
    }
}

/// A service, and what was told of it so far.
struct Followed<P, T, F> {
    service: Service<P>,
    views: watch::Receiver<()>,
    target: F,
    known: HashMap<Arc<str>, Known<T>>,
}

/// What was told of an instance.
#[derive(PartialEq)]
struct Known<T> {
    czxid: i64,
    target: T,
}

impl<P, T, F> Followed<P, T, F>
where
    P: Send + Sync + 'static,
    T: Clone + PartialEq,
    F: Fn(&Instance<P>) -> Option<T>,
{
    /// Waits until something may have changed. Returns the changes; `None` once the client is closed.
    async fn next(&mut self) -> Option<Vec<Change<Arc<str>, T>>> {
        self.views.changed().await.ok()?;
        let mut gone = std::mem::take(&mut self.known);
        let mut changes = Vec::new();
        for instance in self.service.view().turns.instances() {
            let Some(target) = caught(|| (self.target)(instance)).unwrap_or_default() else { continue };
            let before = gone.remove_entry(instance.path());
            let now = Known { czxid: instance.czxid(), target };
            let is_known = before.as_ref().is_some_and(|(_, before)| *before == now);
            let path = before.map_or_else(|| instance.path().into(), |(path, _)| path);
            if !is_known {
                changes.push(Change::Insert(Arc::clone(&path), now.target.clone()));
            }
            self.known.insert(path, now);
        }
        // After those that are new, so that the balancer is never left without any.
        changes.extend(gone.into_keys().map(Change::Remove));
        Some(changes)
    }
}

impl<T> Stream for Targets<T> {
    type Item = Result<Change<Arc<str>, T>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<T> fmt::Debug for Targets<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets").finish_non_exhaustive()
    }
}
