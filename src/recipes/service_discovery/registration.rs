//! An instance that is kept registered.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::error::Error;
use super::instance::enabled_field;
use super::{Options, ServiceInstance, ServiceType};
use crate::StateReceiver;
use crate::client::Client;
use crate::persistent_node::{Foreign, NodeMode, NodeState, PersistentNode};
use crate::util::mutex::Mutex;
use crate::util::path::join;

/// An instance that is kept registered: through losses of the connection and the session, and deletions by hand. See
/// [`ServiceDiscovery::register`](super::ServiceDiscovery::register).
///
/// Dropping it unregisters the instance in the background, whatever its [`ServiceType`].
/// [`unregister`](Self::unregister) waits until that is done.
#[must_use = "dropped, the instance is unregistered"]
pub struct Registration<P> {
    path: Arc<str>,
    node: PersistentNode,
    options: Options,
    instance: Mutex<ServiceInstance<P>>,
}

impl<P: Serialize> Registration<P> {
    /// Registers an instance below this path; waits until that is done. Cancel safe: the node is deleted in the
    /// background.
    pub(super) async fn start(
        client: &Client,
        base: &str,
        instance: ServiceInstance<P>,
        options: Options,
    ) -> Result<Self, Error> {
        let path: Arc<str> = join(&join(base, instance.name()), instance.id()).into();
        let node = PersistentNode::builder(client, &*path)
            .mode(mode(instance.service_type()))
            .data(options.bytes(&instance, instance.is_enabled()).map_err(|why| Error::invalid(&path, why))?)
            .start()
            .map_err(|error| Error::node(&path, error))?;
        tokio::select! {
            biased;
            created = node.created() => drop(created.map_err(|error| Error::node(&path, error))?),
            foreign = node.foreign(), if !options.waits => {
                let Foreign { session, .. } = foreign.map_err(|error| Error::node(&path, error))?;
                return Err(Error::Taken { path, session });
            }
        }
        Ok(Registration { path, node, options, instance: Mutex::new(instance) })
    }

    /// Replaces the instance, except for its name, id and type, and waits until it is written. It counts from the first
    /// poll on, even for later sessions, and even after an error of a request. If several calls overlap, the latest one
    /// wins.
    ///
    /// Everything else is replaced too: one that was [disabled](Self::set_enabled) is enabled again, unless the new one
    /// is built as disabled. To change a part, begin with [`ServiceInstance::to_builder`] of
    /// [`instance`](Self::instance):
    ///
    /// ```no_run
    /// # use zookeeper_recipes::service_discovery::{Error, Registration};
    /// # async fn example(registration: Registration<String>) -> Result<(), Error> {
    /// let moved = registration.instance().to_builder().port(8081).build()?;
    /// registration.update(moved).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the name, the id or the type differs; [`Error::Client`] as
    /// [`PersistentNode::set_data`]; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once it was polled, the instance is written in the background even if the future is dropped.
    #[doc(alias = "updateService")]
    pub async fn update(&self, instance: ServiceInstance<P>) -> Result<(), Error> {
        let number = {
            let mut now = self.instance.lock();
            let identity = |of: &ServiceInstance<P>| (of.name().to_owned(), of.id().to_owned(), of.service_type());
            let (old, new) = (identity(&now), identity(&instance));
            if old != new {
                let why = format!("an update of {old:?} to {new:?}; name, id and type cannot be changed");
                return Err(Error::invalid(&self.path, why));
            }
            let number = self.want(self.options.bytes(&instance, instance.is_enabled()))?;
            *now = instance;
            number
        };
        self.written(number).await
    }

    /// Sets whether the instance accepts work, and waits until that is written. One that is disabled stays registered,
    /// and gets no new work as soon as its callers have heard of it: to drain it before it is
    /// [unregistered](Self::unregister). If no other instance is enabled, callers go on choosing it.
    ///
    /// # Errors
    /// [`Error::Client`] as [`PersistentNode::set_data`]; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once it was polled, it is written in the background even if the future is dropped.
    pub async fn set_enabled(&self, enabled: bool) -> Result<(), Error> {
        let number = {
            let mut now = self.instance.lock();
            let number = self.want(self.options.bytes(&now, enabled))?;
            now.set_enabled(enabled);
            number
        };
        self.written(number).await
    }

    /// Replaces the data of the node. Called under the lock, so that the node and the instance change in the same
    /// order.
    fn want(&self, bytes: Result<Vec<u8>, String>) -> Result<u64, Error> {
        let bytes = bytes.map_err(|why| Error::invalid(&self.path, why))?;
        self.node.want(bytes).map_err(|error| Error::node(&self.path, error))
    }

    async fn written(&self, number: u64) -> Result<(), Error> {
        self.node.written(number).await.map_err(|error| Error::node(&self.path, error))
    }
}

impl<P> Registration<P> {
    /// Returns the instance as it was set last.
    pub fn instance(&self) -> ServiceInstance<P>
    where
        P: Clone,
    {
        self.instance.lock().clone()
    }

    /// Returns the state of the node, to read it or to wait for changes.
    pub fn state(&self) -> StateReceiver<NodeState> {
        self.node.state()
    }

    /// Returns the path of the node. With [`ServiceType::DynamicSequential`], the name of the node begins with
    /// `_c_<uuid>-`, as with Curator's protection, and ends in ten digits.
    pub fn path(&self) -> String {
        self.node.path().unwrap_or_else(|| self.path.to_string())
    }

    /// Unregisters the instance. Returns once its node is certainly gone. It may be called twice.
    ///
    /// # Errors
    /// As [`PersistentNode::close`].
    ///
    /// # Cancel safety
    /// Once it was polled, the node is deleted in the background even if the future is dropped.
    #[doc(alias = "unregisterService")]
    pub async fn unregister(&self) -> Result<(), Error> {
        self.node.close().await.map_err(|error| Error::node(&self.path, error))
    }
}

impl<P> fmt::Debug for Registration<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &self.path())
            .field("state", &self.state().get())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the data of the node.
    fn bytes<P: Serialize>(self, instance: &ServiceInstance<P>, enabled: bool) -> Result<Vec<u8>, String> {
        let field = if self.always_writes_enabled { Some(enabled) } else { enabled_field(enabled) };
        instance.to_bytes_with(field)
    }
}

fn mode(service_type: ServiceType) -> NodeMode {
    match service_type {
        ServiceType::Dynamic => NodeMode::Ephemeral,
        ServiceType::DynamicSequential => NodeMode::EphemeralSequential,
        ServiceType::Static | ServiceType::Permanent => NodeMode::Persistent,
    }
}
