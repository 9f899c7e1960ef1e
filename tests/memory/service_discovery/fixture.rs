//! Shared by the tests of service discovery.

use std::time::{Duration, SystemTime};

use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{
    Change, Changes, Registration, Service, ServiceDiscovery, ServiceInstance, ServiceInstanceBuilder,
};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::{SOON, T, within};

pub(crate) const BASE: &str = "/services";
/// The directory of the service that the tests use.
pub(crate) const API: &str = "/services/api";

pub(crate) type Discovery = ServiceDiscovery<String>;

/// A server, and the discovery of two clients.
pub(crate) async fn setup() -> (TestingServer, [(Client, Discovery); 2]) {
    let server = TestingServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let [first, second] = [&one, &two].map(discovery);
    (server, [(one, first), (two, second)])
}

pub(crate) async fn client(server: &TestingServer) -> Client {
    Client::builder_for_testing(server).session_timeout(T).connect().await.expect("a client")
}

pub(crate) fn discovery(client: &Client) -> Discovery {
    ServiceDiscovery::new(client, BASE).expect("a good path")
}

/// An instance of the service with this id, and the id as payload; registered at a known time.
pub(crate) fn described(id: &str) -> ServiceInstanceBuilder<String> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_690_773_844);
    ServiceInstance::builder("api").id(id).address("10.0.0.1").port(80).payload(id.to_owned()).registration_time(time)
}

pub(crate) fn instance(id: &str) -> ServiceInstance<String> {
    described(id).build().expect("a good instance")
}

pub(crate) async fn register(discovery: &Discovery, id: &str) -> Registration<String> {
    within("it is registered", SOON, discovery.register(instance(id))).await.expect("registered")
}

pub(crate) async fn service(discovery: &Discovery) -> Service<String> {
    within("it is looked for", SOON, discovery.service("api").start()).await.expect("a service")
}

/// The ids of all instances that are found.
pub(crate) fn ids(service: &Service<String>) -> Vec<String> {
    service.instances().iter().map(|instance| instance.id().to_owned()).collect()
}

/// The ids of the next choices.
pub(crate) fn choices(service: &Service<String>, calls: usize) -> Vec<String> {
    (0..calls).filter_map(|_| service.next()).map(|instance| instance.id().to_owned()).collect()
}

/// The ids of so many choices, each once, in order.
pub(crate) fn chosen(service: &Service<String>, calls: usize) -> Vec<String> {
    let mut ids = choices(service, calls);
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Everything under way is done.
pub(crate) async fn settle() {
    tokio::time::sleep(SOON).await;
}

/// The next changes in words, until there are no more.
pub(crate) async fn words(changes: &mut Changes<String>) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(change)) = tokio::time::timeout(SOON, changes.next()).await {
        words.push(match change {
            Change::Added(new) => format!("+{}", new.id()),
            Change::Updated { new, .. } => format!("~{}", new.id()),
            Change::Removed { old } => format!("-{}", old.id()),
            Change::Unreadable(node) => format!("?{}", node.name()),
            Change::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        });
    }
    words
}
