//! Service discovery: processes register where they can be reached, and others find them and choose one. Compatible
//! with Curator's `curator-x-discovery`.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let discovery = ServiceDiscovery::<()>::new(&client, "/services")?;
//!
//! // A server:
//! let instance = ServiceInstance::builder("api").address("10.0.0.1").port(8080).build()?;
//! let registration = discovery.register(instance).await?;
//!
//! // A client:
//! let api = discovery.service("api").start().await?;
//! if let Some(instance) = api.next() {
//!     println!("{:?}:{:?}", instance.address(), instance.port());
//! }
//!
//! // The server ends: callers hear of it, then what is under way is finished.
//! registration.set_enabled(false).await?;
//! tokio::time::sleep(std::time::Duration::from_secs(5)).await;
//! registration.unregister().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It combines a [`PersistentNode`](crate::persistent_node) for each registration with a [`Cache`](crate::cache) for
//! each service. The payload is of any type that serde can write and read: `()` if no
//! instance has one, `serde_json::Value` for any. An instance with a payload of another type cannot be read.
//!
//! With the feature `tower`, `Service::targets` gives the instances to the balancers of tower and tonic.
//!
//! # What it does not promise
//!
//! The instances come from a [`Snapshot`](crate::cache::Snapshot): they are as of a moment in the past. An instance
//! whose process has failed is found until its session has expired. So a caller needs a timeout and another attempt,
//! and [reports](Service::report_error) what has failed. An id is no lock: use a [lock](crate::mutex) or a
//! [leader](crate::leader_latch) for what must not be done twice.
//!
//! # One registration for each id and client
//!
//! Another session's node is left alone: [`register`](ServiceDiscovery::register) fails with [`Error::Taken`], or
//! [waits](ServiceDiscoveryBuilder::wait). Two registrations of one client with the same id share one node, and the one
//! that unregisters first deletes it for a moment: see [persistent
//! nodes](crate::persistent_node#one-object-for-each-path-and-client). A node of a former session of this client counts
//! as another session's. A persistent node is adopted and overwritten, no matter who created it: a static registration
//! takes over what a former process has left; a dynamic one gets the state
//! [`OtherKind`](crate::persistent_node::NodeState::OtherKind), and does not end with the process. Random ids, which
//! are the default, avoid all this.
//!
//! # When things fail
//!
//! T is the session timeout, as configured at this client.
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended` | The instances stay as they were, and their [age](Instances::age) grows. |
//! | `Reconnected`, same session | They are compared with the servers. Missed changes are reported once. |
//! | session `Lost` | A dynamic instance is registered again in the next session, with its latest data. |
//! | all gone after an outage | [`next`](Service::next) returns those of before, until 2 T after the reconnect. |
//! | most gone after a lost session | The same, until half of them are back. |
//! | node deleted by another client | It is created again at once; after repeated deletions, after up to 5 s. |
//! | reply lost | The node is recognized as this session's. There are never two. |
//! | process killed | A dynamic instance is found until its session has expired; a static one stays. |
//! | process stopped for longer than T | As a lost session. |
//! | another session has the id | `register` returns [`Error::Taken`], or [waits](ServiceDiscoveryBuilder::wait). |
//! | a node cannot be read or decoded | The others are found. See [`Instances::unreadable`]. |
//! | calls to an instance fail | It is down after several [reports](Service::report_error); see [`DownPolicy`]. |
//! | all instances are down or disabled | [`next`](Service::next) chooses among them all the same. |
//! | no permission to register | `register` fails. Later, the state is `Failed`, and the create is retried. |
//! | a subscriber is too slow | It receives [`Lagged`](Change::Lagged), with the instances to continue from. |
//! | client closed | Dynamic instances are gone, static ones stay. The changes end, and calls that wait return |
//! | | [`Error::Closed`]. |
//!
//! # What it costs
//!
//! A registration takes two requests, and three to unregister; a few more if the directories have to be created. A
//! service takes four requests to watch and list it, and one read for each instance. After that, each change costs one
//! event and one read. [`next`](Service::next) sends no request and takes no lock; the order of instances is made when
//! one of them changes. The session sends six heartbeats per session timeout while there is a [`Service`].
//!
//! # The znodes
//!
//! | znode | kind | data |
//! |---|---|---|
//! | the base path, and `<base>/<name>` | container, if they were missing | empty |
//! | `<base>/<name>/<id>` | ephemeral; persistent if static or permanent | the instance, as JSON |
//! | `<base>/<name>/_c_<uuid>-<id><ten digits>` | ephemeral; [sequential](ServiceType::DynamicSequential) | likewise |
//!
//! The JSON is what `JsonInstanceSerializer` writes in its compatible mode, which all versions of Curator read. An
//! instance that is disabled has the field `enabled` as well, and each one on
//! [request](ServiceDiscoveryBuilder::always_write_enabled). Curator before 4.2 cannot read that instance: it does not
//! find it, or goes on with what it has read before. Source: the bytes that curator-x-discovery 5.4.0 and 5.7.1 write.

mod change;
mod error;
mod found;
mod health;
mod instance;
mod keeper;
#[cfg(feature = "tower")]
mod made;
mod measure;
mod payload;
mod presets;
mod registration;
mod service;
mod strategy;
#[cfg(feature = "tower")]
mod targets;
mod turns;
mod uri_spec;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::change::{Change, Changes};
pub use self::error::Error;
pub use self::found::{Instance, Instances};
pub use self::health::DownPolicy;
pub use self::instance::{ServiceInstance, ServiceInstanceBuilder};
#[cfg(feature = "tower")]
pub use self::made::{MadeService, MadeServices};
pub use self::presets::ZookeeperInstance;
pub use self::registration::Registration;
pub use self::service::{Service, ServiceBuilder};
pub use self::strategy::{Load, Strategy};
#[cfg(feature = "tower")]
pub use self::targets::Targets;
pub use self::uri_spec::{InvalidUriSpec, UriSpec};
use crate::client::{Client, ErrorKind};
pub use crate::layout::service_discovery::ServiceType;
use crate::util::path::join;

/// Registers instances, and finds them; see the [module](self). Cheap to clone. `P` is the type of their payloads.
pub struct ServiceDiscovery<P> {
    client: Client,
    path: Arc<str>,
    options: Options,
    payload: PhantomData<fn() -> P>,
}

/// How instances are registered.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// Wait while another session has the id.
    waits: bool,
    /// Write `enabled` even if it is true.
    always_writes_enabled: bool,
}

/// Configures a [`ServiceDiscovery`]; see [`ServiceDiscovery::builder`].
#[must_use = "there is no discovery before build()"]
pub struct ServiceDiscoveryBuilder<P> {
    client: Client,
    path: String,
    options: Options,
    payload: PhantomData<fn() -> P>,
}

impl<P> ServiceDiscoveryBuilder<P> {
    /// Makes [`register`](ServiceDiscovery::register) wait while another session has the id, as long as it takes. By
    /// default, it fails with [`Error::Taken`]. Set this for processes that restart with the same id: after a crash,
    /// the old node stays for up to a session timeout.
    pub fn wait(mut self) -> Self {
        self.options.waits = true;
        self
    }

    /// Writes the field `enabled` into each instance, as Curator does with `compatibleSerializationMode(false)`. By
    /// default, only an instance that is disabled has it. Set this for readers that need the field. Curator before 4.2
    /// cannot read any instance that has it.
    #[doc(alias = "compatibleSerializationMode")]
    pub fn always_write_enabled(mut self) -> Self {
        self.options.always_writes_enabled = true;
        self
    }

    /// Returns the discovery, without a request.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`] for a malformed path; [`Error::Closed`].
    pub fn build(self) -> Result<ServiceDiscovery<P>, Error> {
        self.client.open_path_to_read(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let ServiceDiscoveryBuilder { client, path, options, payload } = self;
        Ok(ServiceDiscovery { client, path: path.into(), options, payload })
    }
}

impl<P: Serialize + DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<P> {
    /// Returns a discovery of the services below `path`. Spring Cloud uses `/services`.
    ///
    /// # Errors
    /// As [`ServiceDiscoveryBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        ServiceDiscovery::builder(client, path).build()
    }

    /// Returns a builder for a discovery of the services below `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> ServiceDiscoveryBuilder<P> {
        ServiceDiscoveryBuilder {
            client: client.clone(),
            path: path.into(),
            options: Options::default(),
            payload: PhantomData,
        }
    }

    /// Returns the path below which the services are.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Registers an instance, and waits until its node exists: as long as it takes, even across losses of the
    /// connection and of the session. It stays registered until the [`Registration`] is dropped.
    ///
    /// # Errors
    /// [`Error::Taken`] if another session has the id, unless [`wait`](ServiceDiscoveryBuilder::wait) is set.
    /// [`Error::Client`] with [`ErrorKind::InvalidArgument`] if the instance is above the
    /// [limit](crate::ClientBuilder::max_request_bytes), and if the node cannot be created, for example without
    /// permission. [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: the node is deleted in the background.
    #[doc(alias = "registerService")]
    pub async fn register(&self, instance: ServiceInstance<P>) -> Result<Registration<P>, Error> {
        Registration::start(&self.client, &self.path, instance, self.options).await
    }

    /// Returns a builder for a [`Service`]: the instances with this name, kept up to date.
    #[doc(alias = "serviceProviderBuilder")]
    #[doc(alias = "serviceCacheBuilder")]
    #[doc(alias = "queryForInstances")]
    pub fn service(&self, name: impl AsRef<str>) -> ServiceBuilder<P> {
        let name = name.as_ref();
        let checked = instance::check_element("name", name).map_err(|why| Error::invalid(&self.path, why));
        ServiceBuilder::new(&self.client, checked.map(|()| join(&self.path, name)))
    }

    /// Returns the names of all services that were registered, in order. A name whose last instance has gone
    /// stays until the servers remove its directory, about a minute later. One request.
    ///
    /// # Errors
    /// [`Error::Client`] as [`Client::children`]; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "queryForNames")]
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        match self.client.children(&self.path).await {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            Err(error) => Err(Error::client(&self.path, error)),
        }
    }
}

impl<P> fmt::Debug for ServiceDiscoveryBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscoveryBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<P> Clone for ServiceDiscovery<P> {
    fn clone(&self) -> Self {
        let (client, path) = (self.client.clone(), Arc::clone(&self.path));
        ServiceDiscovery { client, path, options: self.options, payload: PhantomData }
    }
}

impl<P> fmt::Debug for ServiceDiscovery<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscovery").field("path", &self.path).finish_non_exhaustive()
    }
}
