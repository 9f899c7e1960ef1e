//! The instances of one service, and the choice among them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::ServiceInstance;
use super::change::Changes;
use super::error::Error;
use super::found::{Instance, Instances};
use super::health::DownPolicy;
use super::instance::InstanceJson;
#[cfg(feature = "tower")]
use super::keeper::View;
use super::keeper::{Keeper, Shared};
use super::strategy::{Strategy, Weight};
use crate::cache::Cache;
use crate::client::Client;

/// Configures a [`Service`]; see [`ServiceDiscovery::service`](super::ServiceDiscovery::service).
#[must_use = "nothing is looked for before start()"]
pub struct ServiceBuilder<P> {
    client: Client,
    path: Result<String, Error>,
    strategy: Strategy<P>,
    weight: Option<Weight<P>>,
    policy: DownPolicy,
}

impl<P> ServiceBuilder<P> {
    pub(super) fn new(client: &Client, path: Result<String, Error>) -> Self {
        ServiceBuilder {
            client: client.clone(),
            path,
            strategy: Strategy::default(),
            weight: None,
            policy: DownPolicy::default(),
        }
    }

    /// Sets how [`next`](Service::next) chooses. Default [`Strategy::RoundRobin`].
    #[doc(alias = "providerStrategy")]
    pub fn strategy(mut self, strategy: Strategy<P>) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets how many of the choices each instance gets, compared with the others: one with a weight of 2 twice as many
    /// as one with 1, one with 0 none, unless all have 0. Counts for [`Strategy::RoundRobin`] and [`Strategy::Random`].
    /// `weight` is called for each instance when any instance changes. By default, all are equal.
    ///
    /// Weights whose sum is above 4096 are scaled down to that; each that is not 0 keeps one share at least.
    pub fn weight(mut self, weight: impl Fn(&ServiceInstance<P>) -> u32 + Send + Sync + 'static) -> Self {
        self.weight = Some(Weight::new(weight));
        self
    }

    /// Sets when an instance is down, and for how long.
    #[doc(alias = "downInstancePolicy")]
    pub fn down_policy(mut self, policy: DownPolicy) -> Self {
        self.policy = policy;
        self
    }
}

impl<P: Serialize + DeserializeOwned + Send + Sync + 'static> ServiceBuilder<P> {
    /// Looks for the instances, and waits until they are known: as long as it takes, even across losses of the
    /// connection and of the session. A service without any instance is no error.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a name that cannot be the name of a node, and a [`DownPolicy`] out of its range;
    /// [`Error::Client`] as [`CacheBuilder::start`](crate::cache::CacheBuilder::start); [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left.
    pub async fn start(self) -> Result<Service<P>, Error> {
        let path = self.path?;
        self.policy.check().map_err(|why| Error::invalid(&path, why))?;
        let cache = Cache::children(&self.client, &*path).decode(InstanceJson::<P>::new()).start();
        let cache = cache.await.map_err(|error| Error::cache(&path, error))?;
        let core = self.client.core();
        let (keeper, shared, views) = Keeper::new(core, cache.clone(), self.strategy, self.weight, self.policy);
        let (alive, dropped) = oneshot::channel();
        core.runtime.spawn(keeper.run(dropped));
        Ok(Service { handle: Arc::new(Handle { cache, shared, views, _alive: alive }) })
    }
}

impl<P> fmt::Debug for ServiceBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The instances of a service, kept up to date, and the choice among them: Curator's `ServiceProvider` and
/// `ServiceCache`. Cheap to clone.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::service_discovery::{Error, ServiceDiscovery};
///
/// # async fn call(address: Option<&str>) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let discovery = ServiceDiscovery::<serde_json::Value>::new(client, "/services")?;
/// let api = discovery.service("api").start().await?;
/// api.wait_for(1).await?;
/// if let Some(instance) = api.next() {
///     match call(instance.address()).await {
///         Ok(()) => api.report_ok(&instance),
///         Err(_) => api.report_error(&instance),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ServiceProvider")]
#[doc(alias = "ServiceCache")]
pub struct Service<P> {
    handle: Arc<Handle<P>>,
}

struct Handle<P> {
    cache: Cache<ServiceInstance<P>>,
    shared: Arc<Shared<P>>,
    views: watch::Receiver<()>,
    /// The task ends when it is dropped.
    _alive: oneshot::Sender<()>,
}

impl<P: Send + Sync + 'static> Service<P> {
    /// Returns the path of the service.
    pub fn path(&self) -> &str {
        &self.handle.shared.path
    }

    /// Returns the instances, without a request and without a lock. In an outage they stay as they were, and their
    /// [`age`](Instances::age) grows.
    #[doc(alias = "getAllInstances")]
    pub fn instances(&self) -> Instances<P> {
        Instances::new(self.handle.cache.snapshot())
    }

    /// Returns the changes from now on: those that follow [`Changes::start`].
    #[doc(alias = "ServiceCacheListener")]
    pub fn changes(&self) -> Changes<P> {
        Changes::new(&self.handle.shared.path, self.handle.cache.changes())
    }

    /// Waits until there are at least this many instances that are enabled, and returns all instances. Returns at once
    /// if there are.
    ///
    /// # Errors
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_for(&self, instances: usize) -> Result<Instances<P>, Error> {
        self.wait_until(|now| now.iter().filter(|instance| instance.is_enabled()).count() >= instances).await
    }

    /// Waits until `condition` holds for the instances, and [`next`](Self::next) chooses among them; returns them.
    /// Returns at once if that is so now. Changes that follow each other quickly may be skipped.
    ///
    /// # Errors
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_until(&self, mut condition: impl FnMut(&Instances<P>) -> bool) -> Result<Instances<P>, Error> {
        let mut views = self.handle.views.clone();
        loop {
            views.mark_unchanged();
            let viewed = self.handle.shared.view.load().instances.clone();
            if condition(&viewed) {
                // The same instances, perhaps, as they were confirmed later.
                let latest = self.instances();
                return Ok(if condition(&latest) { latest } else { viewed });
            }
            views.changed().await.map_err(|_| Error::Closed { path: Arc::clone(&self.handle.shared.path) })?;
        }
    }

    /// Chooses an instance, by the [strategy](ServiceBuilder::strategy); without a request and without a lock. Returns
    /// `None` if there is none.
    ///
    /// A change is taken into account a moment after [`changes`](Self::changes) and [`instances`](Self::instances) show
    /// it; [`wait_until`](Self::wait_until) waits for that. One that is reported to be down is left out at once; the
    /// rest of the order follows a moment later. After the client is closed, it goes on with those that were there.
    ///
    /// It chooses among the enabled instances that are not down. If there is none, it chooses among the enabled ones;
    /// if all are disabled, among all: see [`ServiceInstance::is_enabled`].
    ///
    /// If all are gone after an outage of this client, it chooses among those of before, until two session timeouts (as
    /// configured at this client) after the reconnect: they may only have to register again. If this client has lost
    /// its session in the outage, it does so as long as fewer than half of them are back, so that the first ones do not
    /// get the calls for all.
    #[doc(alias = "getInstance")]
    pub fn next(&self) -> Option<Instance<P>> {
        let shared = &self.handle.shared;
        shared.view.load().turns.next(&shared.strategy, &shared.position)
    }

    /// Returns what [`next`](Self::next) chooses from.
    #[cfg(feature = "tower")]
    pub(super) fn view(&self) -> Arc<View<P>> {
        self.handle.shared.view.load_full()
    }

    /// Returns a receiver that changes with each [view](Self::view), and is closed with the client.
    #[cfg(feature = "tower")]
    pub(super) fn views(&self) -> watch::Receiver<()> {
        self.handle.views.clone()
    }

    /// Reports that a call to this instance has failed. After several errors it is down; see [`DownPolicy`]. A report
    /// about a registration that is over counts for nothing.
    #[doc(alias = "noteError")]
    pub fn report_error(&self, instance: &Instance<P>) {
        let shared = &self.handle.shared;
        shared.errors.count(&shared.path);
        let view = shared.view.load();
        if view.has(instance) && shared.health.lock().error(instance, Instant::now()) {
            view.turns.pass_over(instance);
            tracing::warn!(event = "instance_down", path = instance.path(), "calls to the instance fail");
            shared.reported.notify_one();
        }
    }

    /// Reports that a call to this instance has succeeded: earlier errors no longer count. One that was probed is up
    /// again. It also works if only errors are reported.
    pub fn report_ok(&self, instance: &Instance<P>) {
        let shared = &self.handle.shared;
        if shared.health.lock().success(instance) {
            tracing::info!(event = "instance_up", path = instance.path(), "a probe of the instance succeeded");
            shared.reported.notify_one();
        }
    }
}

impl<P> Clone for Service<P> {
    fn clone(&self) -> Self {
        Service { handle: Arc::clone(&self.handle) }
    }
}

impl<P> fmt::Debug for Service<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("path", &self.handle.shared.path).finish_non_exhaustive()
    }
}
