//! Shared by the tests of the service discovery: instances with a text as their payload, and what is found, in words.

use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{
    Change, Changes, Instance, Registration, Service, ServiceDiscovery, ServiceInstance, ServiceType,
};

pub(crate) use crate::fixture::*;

/// The name of the service.
pub(crate) const NAME: &str = "api";

pub(crate) fn discovery(client: &Client, base: &str) -> ServiceDiscovery<String> {
    ServiceDiscovery::new(client, base).expect("a discovery")
}

pub(crate) fn instance(id: &str, payload: &str, service_type: ServiceType) -> ServiceInstance<String> {
    let builder = ServiceInstance::builder(NAME).id(id).address("10.0.0.1").port(8080);
    builder.payload(payload.to_owned()).service_type(service_type).build().expect("a good instance")
}

pub(crate) fn dynamic(id: &str, payload: &str) -> ServiceInstance<String> {
    instance(id, payload, ServiceType::Dynamic)
}

pub(crate) async fn register(client: &Client, base: &str, instance: ServiceInstance<String>) -> Registration<String> {
    let registering = discovery(client, base);
    within("it registers", SOON, registering.register(instance)).await.expect("registered")
}

pub(crate) async fn service(client: &Client, base: &str) -> Service<String> {
    let starting = discovery(client, base).service(NAME).start();
    within("the instances are known", SOON, starting).await.expect("a service")
}

/// An instance in words: its id, its payload, and whether it is disabled.
pub(crate) fn words(instance: &Instance<String>) -> String {
    let payload = instance.payload().expect("a payload");
    format!("{} {payload}{}", instance.id(), if instance.is_enabled() { "" } else { " disabled" })
}

/// Waits until these instances are found, and no others.
pub(crate) async fn finds(service: &Service<String>, expected: &[&str]) {
    eventually(&format!("{expected:?} are found"), SOON, || async {
        service.instances().iter().map(|instance| words(&instance)).eq(expected.iter().copied())
    })
    .await;
}

/// The next change, in words: `+` for added, `~` for updated, `-` for removed.
pub(crate) async fn next(changes: &mut Changes<String>) -> String {
    match within("a change", SOON, changes.next()).await.expect("the service is open") {
        Change::Added(new) => format!("+{}", words(&new)),
        Change::Updated { old, new } => {
            assert_eq!(old.path(), new.path());
            format!("~{}", words(&new))
        }
        Change::Removed { old } => format!("-{}", words(&old)),
        Change::Unreadable(node) => format!("?{}", name_of(node.path())),
        Change::Synced => "synced".to_owned(),
        other => format!("{other:?}"),
    }
}
