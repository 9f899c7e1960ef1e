//! An instance of a service: what is registered, and what is found.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::error::Error;
use super::payload;
use super::{ServiceType, UriSpec};
use crate::layout::service_discovery::Record;
use crate::util::serializer::{BoxError, Serializer};

/// An instance of a service: where it can be reached, and a payload of your own type. Curator's `ServiceInstance`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use zookeeper_recipes::service_discovery::ServiceInstance;
///
/// #[derive(Debug, Clone, Serialize, Deserialize)]
/// struct Details {
///     zone: String,
/// }
///
/// # fn main() -> Result<(), zookeeper_recipes::service_discovery::Error> {
/// let instance = ServiceInstance::builder("api")
///     .address("10.0.0.1")
///     .port(8080)
///     .payload(Details { zone: "a".into() })
///     .build()?;
/// assert_eq!(instance.payload().map(|details| details.zone.as_str()), Some("a"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
pub struct ServiceInstance<P> {
    /// Without the payload.
    pub(super) record: Record,
    payload: Option<P>,
    payload_class: Option<String>,
}

impl<P> ServiceInstance<P> {
    /// Returns a builder for an instance of the service `name`. Without a payload, name its type:
    /// `ServiceInstance::<()>::builder(..)`.
    pub fn builder(name: impl Into<String>) -> ServiceInstanceBuilder<P> {
        ServiceInstanceBuilder::new(name.into())
    }

    /// Returns the name of the service.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Returns the id. Only instances that are [sequential](ServiceType::DynamicSequential) may share one.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Returns the address: a host name, or an IP address.
    pub fn address(&self) -> Option<&str> {
        self.record.address.as_deref()
    }

    /// Returns the port.
    pub fn port(&self) -> Option<u16> {
        self.record.port
    }

    /// Returns the port for TLS.
    pub fn ssl_port(&self) -> Option<u16> {
        self.record.ssl_port
    }

    /// Returns the payload.
    pub fn payload(&self) -> Option<&P> {
        self.payload.as_ref()
    }

    /// Returns the Java class of the payload, if the node names one.
    pub fn payload_class(&self) -> Option<&str> {
        self.payload_class.as_deref()
    }

    /// Returns when the instance was built, by the clock of its machine.
    #[doc(alias = "getRegistrationTimeUTC")]
    pub fn registration_time(&self) -> SystemTime {
        let since = Duration::from_millis(self.record.registration_time.unsigned_abs());
        let time = if self.record.registration_time < 0 {
            UNIX_EPOCH.checked_sub(since)
        } else {
            UNIX_EPOCH.checked_add(since)
        };
        time.unwrap_or(UNIX_EPOCH)
    }

    /// Returns how long the instance stays registered. One that does not say so is [`ServiceType::Dynamic`].
    pub fn service_type(&self) -> ServiceType {
        self.record.service_type.unwrap_or_default()
    }

    /// Returns how to make the URI.
    pub fn uri_spec(&self) -> Option<UriSpec> {
        self.record.uri_spec.clone().map(UriSpec)
    }

    /// Returns the URI, or `None` if there is no [`UriSpec`], or no value for one of its variables.
    #[doc(alias = "buildUriSpec")]
    pub fn uri(&self) -> Option<String> {
        self.build_uri(&self.uri_spec()?)
    }

    /// Returns the URI of this instance by another [`UriSpec`], or `None` if there is no value for one of its
    /// variables.
    pub fn build_uri(&self, spec: &UriSpec) -> Option<String> {
        spec.fill(|variable| self.variable(variable))
    }

    /// Returns the value of a variable of a [`UriSpec`].
    fn variable(&self, name: &str) -> Option<String> {
        Some(match name {
            "scheme" => if self.ssl_port().is_some() { "https" } else { "http" }.to_owned(),
            "name" => self.name().to_owned(),
            "id" => self.id().to_owned(),
            "address" => self.address()?.to_owned(),
            "port" => self.port()?.to_string(),
            "ssl-port" => self.ssl_port()?.to_string(),
            "registration-time-utc" => self.record.registration_time.to_string(),
            "service-type" => self.service_type().to_string().to_lowercase(),
            "[" => "{".to_owned(),
            "]" => "}".to_owned(),
            _ => return None,
        })
    }

    /// Returns whether the instance accepts work. One that does not say so is enabled.
    pub fn is_enabled(&self) -> bool {
        self.record.enabled != Some(false)
    }

    /// Sets whether the instance accepts work.
    pub(super) fn set_enabled(&mut self, enabled: bool) {
        self.record.enabled = enabled_field(enabled);
    }
}

impl<P: Serialize> ServiceInstance<P> {
    /// Returns the data of the instance's node.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        self.to_bytes_with(self.record.enabled)
    }

    /// Returns the data of the node, with this field `enabled`.
    pub(super) fn to_bytes_with(&self, enabled: Option<bool>) -> Result<Vec<u8>, String> {
        let json = |error: serde_json::Error| format!("a payload that cannot be written as JSON: {error}");
        let mut payload = self.payload.as_ref().map(serde_json::to_value).transpose().map_err(json)?;
        if let Some(class) = &self.payload_class {
            let bare = payload.ok_or_else(|| format!("the payload class {class:?} without a payload; set one too"))?;
            payload = Some(payload::with_class(bare, class));
        }
        serde_json::to_vec(&Record { payload, enabled, ..self.record.clone() }).map_err(json)
    }
}

impl<P: DeserializeOwned> ServiceInstance<P> {
    /// Reads the data of a node. What is missing there is as the builder has it by default, so that equal instances are
    /// equal, no matter which program wrote them.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, BoxError> {
        let mut record: Record = serde_json::from_slice(bytes)?;
        let payload = record.payload.take().map(payload::read).transpose();
        let (payload, payload_class) = payload.map_err(|error| format!("the payload: {error}"))?.unzip();
        let payload_class = payload_class.flatten();
        record.service_type.get_or_insert_default();
        let mut instance = ServiceInstance { record, payload, payload_class };
        instance.set_enabled(instance.is_enabled());
        Ok(instance)
    }
}

impl<P: fmt::Debug> fmt::Debug for ServiceInstance<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { name, id, address, port, ssl_port, registration_time, service_type, .. } = &self.record;
        f.debug_struct("ServiceInstance")
            .field("name", name)
            .field("id", id)
            .field("address", address)
            .field("port", port)
            .field("ssl_port", ssl_port)
            .field("payload", &self.payload)
            .field("payload_class", &self.payload_class)
            .field("registration_time", registration_time)
            .field("service_type", service_type)
            .field("uri_spec", &self.uri_spec().map(|spec| spec.to_string()))
            .field("enabled", &self.is_enabled())
            .finish()
    }
}

impl<P: Clone> ServiceInstance<P> {
    /// Returns a builder that has all of this instance: to change a part of it, for
    /// [`Registration::update`](super::Registration::update).
    pub fn to_builder(&self) -> ServiceInstanceBuilder<P> {
        let record = self.record.clone();
        ServiceInstanceBuilder {
            name: record.name,
            id: Some(record.id),
            address: record.address,
            port: record.port,
            ssl_port: record.ssl_port,
            payload: self.payload.clone(),
            payload_class: self.payload_class.clone(),
            registration_time: Some(record.registration_time),
            service_type: self.service_type(),
            uri_spec: self.uri_spec(),
            enabled: self.is_enabled(),
        }
    }
}

/// Returns the field `enabled`. One that accepts work has none, so that the node is as Curator writes it by default.
pub(super) fn enabled_field(enabled: bool) -> Option<bool> {
    (!enabled).then_some(false)
}

/// Reads instances for a cache.
pub(super) struct InstanceJson<P>(PhantomData<fn() -> P>);

impl<P> InstanceJson<P> {
    pub(super) const fn new() -> Self {
        InstanceJson(PhantomData)
    }
}

impl<P> fmt::Debug for InstanceJson<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceJson")
    }
}

impl<P: Serialize + DeserializeOwned + Send + Sync + 'static> Serializer for InstanceJson<P> {
    type Item = ServiceInstance<P>;

    fn serialize(&self, instance: &ServiceInstance<P>) -> Result<Vec<u8>, BoxError> {
        Ok(instance.to_bytes()?)
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<ServiceInstance<P>, BoxError> {
        ServiceInstance::from_bytes(bytes)
    }
}

/// Describes a [`ServiceInstance`]; see [`ServiceInstance::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no instance before build()"]
pub struct ServiceInstanceBuilder<P> {
    name: String,
    id: Option<String>,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    payload: Option<P>,
    payload_class: Option<String>,
    /// In milliseconds since 1970.
    registration_time: Option<i64>,
    service_type: ServiceType,
    uri_spec: Option<UriSpec>,
    enabled: bool,
}

impl<P: Serialize> ServiceInstanceBuilder<P> {
    /// Returns the instance.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the name or the id cannot be the name of a node, if the address is empty, if a port
    /// is 0, or if the payload cannot be written as JSON, or is missing although it has a [class](Self::payload_class).
    pub fn build(self) -> Result<ServiceInstance<P>, Error> {
        let name = format!("{:?}", self.name);
        self.checked().map_err(|why| Error::invalid(&name, why))
    }

    fn checked(self) -> Result<ServiceInstance<P>, String> {
        let id = self.id.unwrap_or_else(|| Uuid::new_v4().to_string());
        check_element("name", &self.name)?;
        check_element("id", &id)?;
        if self.address.as_deref() == Some("") {
            return Err("an empty address; give a host name or an IP address, or none".to_owned());
        }
        if self.payload_class.as_deref() == Some("") {
            return Err("an empty payload class; name the Java class, such as com.example.Details, or none".to_owned());
        }
        for (what, port) in [("port", self.port), ("TLS port", self.ssl_port)] {
            if port == Some(0) {
                return Err(format!("a {what} of 0; 1 to 65535 are allowed"));
            }
        }
        let record = Record {
            name: self.name,
            id,
            address: self.address,
            port: self.port,
            ssl_port: self.ssl_port,
            payload: None,
            registration_time: self.registration_time.unwrap_or_else(|| milliseconds(SystemTime::now())),
            service_type: Some(self.service_type),
            uri_spec: self.uri_spec.map(|spec| spec.0),
            enabled: None,
        };
        let mut instance = ServiceInstance { record, payload: self.payload, payload_class: self.payload_class };
        instance.set_enabled(self.enabled);
        instance.to_bytes()?;
        Ok(instance)
    }
}

impl<P> ServiceInstanceBuilder<P> {
    fn new(name: String) -> Self {
        ServiceInstanceBuilder {
            name,
            id: None,
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            payload_class: None,
            registration_time: None,
            service_type: ServiceType::default(),
            uri_spec: None,
            enabled: true,
        }
    }

    /// Sets the id. Default: a random UUID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the address under which others reach the instance: a host name, or an IP address. None by default. (Curator
    /// takes the first address of the machine, which is often not the right one.)
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the port, from 1 to 65 535.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the port for TLS, from 1 to 65 535.
    pub fn ssl_port(mut self, port: u16) -> Self {
        self.ssl_port = Some(port);
        self
    }

    /// Sets the payload: any value that serde knows. Java reads an object or a list only if it has a
    /// [class](Self::payload_class), or, an object, if its payload type is a map. What serde writes as `null` is found
    /// as no payload.
    pub fn payload(mut self, payload: P) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Changes the payload; the default one if there is none.
    pub(super) fn change_payload(mut self, change: impl FnOnce(&mut P)) -> Self
    where
        P: Default,
    {
        change(self.payload.get_or_insert_default());
        self
    }

    /// Sets the Java class of the payload, which Jackson needs to read a payload of its own type. An object gets the
    /// field `@class`; any other value becomes a list of the class and the value, as
    /// `["java.util.ArrayList", ["a", "b"]]`. Jackson expects that of lists and of `java.lang.Long`, but not of texts,
    /// truth values, `Integer` and `Double`.
    pub fn payload_class(mut self, class: impl Into<String>) -> Self {
        self.payload_class = Some(class.into());
        self
    }

    /// Sets the time of the registration. Default: now. Milliseconds are kept.
    pub fn registration_time(mut self, time: SystemTime) -> Self {
        self.registration_time = Some(milliseconds(time));
        self
    }

    /// Sets how long the instance stays registered. Default [`ServiceType::Dynamic`].
    pub fn service_type(mut self, service_type: ServiceType) -> Self {
        self.service_type = service_type;
        self
    }

    /// Sets how to make the URI. None by default.
    pub fn uri_spec(mut self, spec: UriSpec) -> Self {
        self.uri_spec = Some(spec);
        self
    }

    /// Sets whether the instance accepts work. Default `true`.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }
}

/// Checks a text that becomes an element of a path.
pub(super) fn check_element(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('/') {
        return Err(format!("the {what} {text:?}; it must be the name of a node: not empty, not . or .., without '/'"));
    }
    let path = format!("/{text}");
    crate::util::path::validate_or_root(&path).map_err(|error| format!("the {what} {text:?}: {error}"))
}

fn milliseconds(time: SystemTime) -> i64 {
    let signed = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -signed(before.duration()), signed)
}
