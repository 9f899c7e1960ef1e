//! Instances as Spring Cloud and Dubbo register them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{ServiceInstance, ServiceInstanceBuilder};

/// The URI that Spring Cloud gives to its instances.
const SPRING_CLOUD_URI: &str = "{scheme}://{address}:{port}";
const SPRING_CLOUD_CLASS: &str = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";
const DUBBO_CLASS: &str = "org.apache.dubbo.registry.zookeeper.ZookeeperInstance";

/// The metadata in which Spring Cloud has the status of an instance.
const STATUS: &str = "instance_status";
const UP: &str = "UP";

/// The payload of the instances of Spring Cloud and Dubbo, whose classes both have this name and these fields.
///
/// A service that finds instances of both, and of others as well, needs a payload that reads all of them, such as
/// `serde_json::Value`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ZookeeperInstance {
    /// With Spring Cloud, the id of the application; with Dubbo there is none.
    #[serde(default)]
    pub id: Option<String>,
    /// The name of the service.
    #[serde(default)]
    pub name: Option<String>,
    /// What else is known of the instance.
    #[serde(default, deserialize_with = "without_nulls")]
    pub metadata: BTreeMap<String, String>,
}

/// Reads metadata. Java and Go write `null` for a map, or a value, that is missing.
fn without_nulls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let metadata: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
    Ok(metadata.unwrap_or_default().into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

impl ZookeeperInstance {
    /// Returns whether callers of Spring Cloud choose this instance: its metadata `instance_status` is `UP`, in any
    /// case, or missing. They do not look at [`ServiceInstance::is_enabled`].
    ///
    /// ```no_run
    /// # use zookeeper_recipes::service_discovery::{Error, Service, ServiceDiscovery, ZookeeperInstance};
    /// # async fn example(
    /// #     discovery: ServiceDiscovery<ZookeeperInstance>,
    /// # ) -> Result<Service<ZookeeperInstance>, Error> {
    /// let orders = discovery.service("orders").weight(|instance| {
    ///     u32::from(instance.payload().is_none_or(|payload| payload.is_up()))
    /// });
    /// # orders.start().await
    /// # }
    /// ```
    pub fn is_up(&self) -> bool {
        let status = self.metadata.get(STATUS).map(|status| status.trim());
        status.is_none_or(|status| status.is_empty() || status.eq_ignore_ascii_case(UP))
    }
}

impl ServiceInstance<ZookeeperInstance> {
    /// Returns a builder for an instance as Spring Cloud Zookeeper registers it, below the path `/services`: with a
    /// random id, a URI, and a payload whose status is `UP`.
    ///
    /// ```
    /// use zookeeper_recipes::service_discovery::ServiceInstance;
    ///
    /// # fn main() -> Result<(), zookeeper_recipes::service_discovery::Error> {
    /// let instance = ServiceInstance::spring_cloud("orders", "10.0.0.1", 8080)
    ///     .metadata("zone", "a")
    ///     .build()?;
    /// assert_eq!(instance.uri().as_deref(), Some("http://10.0.0.1:8080"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Source: `ZookeeperAutoServiceRegistrationAutoConfiguration` and `ZookeeperInstance` of Spring Cloud Zookeeper.
    pub fn spring_cloud(
        name: impl Into<String>,
        address: impl Into<String>,
        port: u16,
    ) -> ServiceInstanceBuilder<ZookeeperInstance> {
        let name = name.into();
        let payload = ZookeeperInstance { id: Some(name.clone()), name: Some(name.clone()), ..Default::default() };
        ServiceInstance::builder(name)
            .address(address)
            .port(port)
            .uri_spec(SPRING_CLOUD_URI.parse().expect("its braces match"))
            .payload(payload)
            .payload_class(SPRING_CLOUD_CLASS)
            .metadata(STATUS, UP)
    }

    /// Returns a builder for an instance as Dubbo's application-level registry writes it, below the path `/services`:
    /// with the id `<host>:<port>`. Add the metadata that Dubbo's consumers need, `dubbo.endpoints` and
    /// `dubbo.metadata.revision` among them.
    ///
    /// ```
    /// use zookeeper_recipes::service_discovery::ServiceInstance;
    ///
    /// # fn main() -> Result<(), zookeeper_recipes::service_discovery::Error> {
    /// let instance = ServiceInstance::dubbo("orders", "10.0.0.1", 20880)
    ///     .metadata("dubbo.endpoints", r#"[{"port":20880,"protocol":"tri"}]"#)
    ///     .metadata("dubbo.metadata.revision", "0")
    ///     .build()?;
    /// assert_eq!(instance.id(), "10.0.0.1:20880");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Source: `CuratorFrameworkUtils` and `ZookeeperInstance` of `dubbo-registry-zookeeper`.
    pub fn dubbo(
        name: impl Into<String>,
        host: impl Into<String>,
        port: u16,
    ) -> ServiceInstanceBuilder<ZookeeperInstance> {
        let (name, host) = (name.into(), host.into());
        let payload = ZookeeperInstance { name: Some(name.clone()), ..Default::default() };
        ServiceInstance::builder(name)
            .id(format!("{host}:{port}"))
            .address(host)
            .port(port)
            .payload(payload)
            .payload_class(DUBBO_CLASS)
    }
}

impl ServiceInstanceBuilder<ZookeeperInstance> {
    /// Sets one entry of the payload's metadata.
    pub fn metadata(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.change_payload(|payload| drop(payload.metadata.insert(key.into(), value.into())))
    }
}
