//! ServiceDiscovery: registering, finding, updating, unregistering, and waiting for the others.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use tokio::time::timeout;
use tower::discover;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{
    Change, Error, Instances, Registration, Service, ServiceDiscovery, ServiceInstance, ServiceType,
};

use crate::harness::{Run, cases};

cases! {
    register: "ServiceDiscovery::register", at least 50 drops, 30 faults;
    register_static: "ServiceDiscovery::register", at least 50 drops, 30 faults;
    register_with_a_number: "ServiceDiscovery::register", at least 50 drops, 30 faults;
    register_after_another: "ServiceDiscovery::register", at least 50 drops, 30 faults;
    names: "ServiceDiscovery::names", at least 20 drops, 8 faults;
    start: "ServiceBuilder::start", at least 50 drops, 30 faults;
    wait_for: "Service::wait_for", at least 20 drops, 8 faults;
    wait_until: "Service::wait_until", at least 20 drops, 8 faults;
    changes: "Changes::next", at least 20 drops, 8 faults;
    targets: "Targets::next", at least 20 drops, 8 faults;
    made_services: "MadeServices::next", at least 20 drops, 8 faults;
    update: "Registration::update", at least 50 drops, 30 faults;
    set_enabled: "Registration::set_enabled", at least 50 drops, 30 faults;
    unregister: "Registration::unregister", at least 50 drops, 30 faults;
    unregister_static: "Registration::unregister", at least 50 drops, 30 faults;
}

const BASE: &str = "/services";
const API: &str = "/services/api";
const OWN: &str = "/services/api/a";
/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

type Discovery = ServiceDiscovery<String>;

fn directories(run: &mut Run) {
    run.directory(BASE);
    run.directory(API);
}

fn discovery(client: &Client) -> Discovery {
    ServiceDiscovery::builder(client, BASE).wait().build().expect("a good path")
}

fn instance_of(id: &str, payload: &str, service_type: ServiceType) -> ServiceInstance<String> {
    let instance = ServiceInstance::builder("api").id(id).payload(payload.to_owned()).service_type(service_type);
    instance.registration_time(SystemTime::UNIX_EPOCH).build().expect("a good instance")
}

fn instance(id: &str, payload: &str) -> ServiceInstance<String> {
    instance_of(id, payload, ServiceType::Dynamic)
}

async fn registered(client: &Client, service_type: ServiceType) -> Registration<String> {
    let discovery = discovery(client);
    let registering = discovery.register(instance_of("a", "old", service_type));
    timeout(PATIENCE, registering).await.expect("it registers").expect("it is repeated")
}

async fn service(client: &Client) -> Service<String> {
    let starting = discovery(client).service("api").start();
    timeout(PATIENCE, starting).await.expect("it starts").expect("it is repeated")
}

/// Returns the only node.
fn node(run: &Run) -> Option<String> {
    let names = run.server().children(API);
    assert!(names.len() < 2, "{names:?}");
    let data = run.server().get(&format!("{API}/{}", names.first()?))?;
    Some(String::from_utf8_lossy(&data).into_owned())
}

async fn is_written(run: &Run, what: &str) {
    run.in_the_end("it is written", || node(run).is_some_and(|data| data.contains(what))).await;
}

async fn unregisters(run: &Run, registration: &Registration<String>) {
    timeout(PATIENCE, registration.unregister()).await.expect("it ends").expect("it is repeated");
    assert_eq!(node(run), None);
}

/// Describes the instances: their ids, and payloads.
fn described(instances: &Instances<String>) -> Vec<(String, Option<String>)> {
    instances.iter().map(|instance| (instance.id().to_owned(), instance.payload().cloned())).collect()
}

/// After a drop, the node is deleted in the background, and the id is free for another try.
async fn register(run: &mut Run) {
    register_as(run, ServiceType::Dynamic).await;
}

/// A lasting node, too.
async fn register_static(run: &mut Run) {
    register_as(run, ServiceType::Static).await;
}

async fn register_with_a_number(run: &mut Run) {
    register_as(run, ServiceType::DynamicSequential).await;
}

async fn register_as(run: &mut Run, service_type: ServiceType) {
    directories(run);
    let client = run.client().await;
    let discovery = discovery(&client);
    let first = match run.cut(discovery.register(instance_of("a", "old", service_type))).await.done() {
        Some(registered) => registered.expect("it is repeated"),
        None => {
            run.in_the_end("it is gone", || node(run).is_none()).await;
            registered(&client, service_type).await
        }
    };
    is_written(run, r#""payload":"old""#).await;
    unregisters(run, &first).await;
}

/// A call that was dropped while it waited leaves the node of the other session alone.
async fn register_after_another(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("a", "other")).await.expect("nothing is wrong yet");
    let discovery = discovery(&client);
    let waiting = run.cut(discovery.register(instance("a", "old"))).await.done();
    assert!(waiting.is_none(), "{waiting:?}");
    is_written(run, r#""payload":"other""#).await;
    unregisters(run, &other).await;
    unregisters(run, &registered(&client, ServiceType::Dynamic).await).await;
}

/// It only reads.
async fn names(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let discovery = discovery(&client);
    if let Some(names) = run.cut(discovery.names()).await.done() {
        assert_eq!(names.expect("it is repeated"), ["api"]);
    }
    run.is_silent_if_calm().await;
    assert_eq!(discovery.names().await.expect("nothing is wrong any more"), ["api"]);
}

/// After a drop, nothing is left.
async fn start(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("b", "other")).await.expect("nothing is wrong yet");
    let of_others = run.settled_watches().await;
    if let Some(service) = run.cut(discovery(&client).service("api").start()).await.done() {
        assert_eq!(service.expect("it is repeated").instances().len(), 1);
    }
    run.only_watches_of_others_are_left(of_others).await;
    run.is_silent_if_calm().await;
    let service = service(&client).await;
    assert_eq!(service.next().map(|instance| instance.id().to_owned()).as_deref(), Some("b"));
    drop(service);
    run.only_watches_of_others_are_left(of_others).await;
    unregisters(run, &other).await;
}

/// The call only waits, and changes nothing.
async fn wait_for(run: &mut Run) {
    wait_with(run, async |run, service| run.cut(service.wait_for(1)).await.done()).await;
}

async fn wait_until(run: &mut Run) {
    wait_with(run, async |run, service| run.cut(service.wait_until(|now| now.get("b").is_some())).await.done()).await;
}

async fn wait_with(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &Service<String>) -> Option<Result<Instances<String>, Error>>,
) {
    directories(run);
    let client = run.client().await;
    let service = service(&client).await;
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("b", "other")).await.expect("nothing is wrong yet");
    if let Some(instances) = cut(run, &service).await {
        assert_eq!(instances.expect("it is open").len(), 1);
    }
    let instances = timeout(PATIENCE, service.wait_for(1)).await.expect("it comes").expect("it is open");
    assert!(instances.get("b").is_some());
    unregisters(run, &other).await;
}

/// The next call returns a change that was not returned.
async fn changes(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let service = service(&client).await;
    let mut changes = service.changes();
    let mut now = described(&changes.start());
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("b", "other")).await.expect("nothing is wrong yet");
    other.update(instance("b", "new")).await.expect("nothing is wrong yet");
    let mut change = run.cut(changes.next()).await.done();
    loop {
        match change.unwrap_or(None) {
            Some(Change::Added(new)) => now.push((new.id().to_owned(), new.payload().cloned())),
            Some(Change::Updated { old, new }) => {
                assert_eq!(now, [(old.id().to_owned(), old.payload().cloned())]);
                now = vec![(new.id().to_owned(), new.payload().cloned())];
            }
            Some(Change::Removed { .. }) => now.clear(),
            _ => {}
        }
        if now == [("b".to_owned(), Some("new".to_owned()))] {
            break;
        }
        change = Some(timeout(PATIENCE, changes.next()).await.expect("no change is missing"));
    }
    unregisters(run, &other).await;
}

/// The next call returns a change that was not returned.
async fn targets(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let mut targets = service(&client).await.targets(|instance| instance.payload().cloned());
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("b", "other")).await.expect("nothing is wrong yet");
    other.update(instance("b", "new")).await.expect("nothing is wrong yet");
    let mut change = run.cut(targets.next()).await.done();
    while !matches!(change.unwrap_or(None), Some(Ok(discover::Change::Insert(_, payload))) if payload == "new") {
        change = Some(timeout(PATIENCE, targets.next()).await.expect("no change is missing"));
    }
    unregisters(run, &other).await;
}

/// As that of the targets.
async fn made_services(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let make = tower::service_fn(|(): ()| std::future::ready(Ok::<_, std::convert::Infallible>(())));
    let mut made = service(&client).await.targets(|_| Some(())).make_services(make);
    let other = run.other_client().await;
    let other = discovery(&other).register(instance("b", "other")).await.expect("nothing is wrong yet");
    let mut change = run.cut(made.next()).await.done();
    while !matches!(change.unwrap_or(None), Some(Ok(discover::Change::Insert(path, _))) if path.ends_with("/b")) {
        change = Some(timeout(PATIENCE, made.next()).await.expect("no change is missing"));
    }
    unregisters(run, &other).await;
}

/// Once polled, the instance counts, even for later sessions.
async fn update(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let registration = registered(&client, ServiceType::Dynamic).await;
    if let Some(updated) = run.cut(registration.update(instance("a", "new"))).await.done() {
        updated.expect("it is repeated");
        assert!(node(run).is_none_or(|data| data.contains(r#""payload":"new""#)));
    }
    let payload = if run.is_polled() { "new" } else { "old" };
    assert_eq!(registration.instance().payload().map(String::as_str), Some(payload));
    is_written(run, &format!(r#""payload":"{payload}""#)).await;
    run.server().expire_session(&client);
    is_written(run, &format!(r#""payload":"{payload}""#)).await;
    unregisters(run, &registration).await;
}

/// Once polled, it counts, even for later sessions, and nothing else changes.
async fn set_enabled(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let registration = registered(&client, ServiceType::Dynamic).await;
    if let Some(set) = run.cut(registration.set_enabled(false)).await.done() {
        set.expect("it is repeated");
        assert!(node(run).is_none_or(|data| data.contains(r#""enabled":false"#)));
    }
    let is_as_it_was_set = || {
        let is_disabled = |data: String| data.contains(r#""enabled":false"#);
        let is_right = |data: String| data.contains(r#""payload":"old""#) && is_disabled(data) == run.is_polled();
        node(run).is_some_and(is_right)
    };
    assert_eq!(registration.instance().is_enabled(), !run.is_polled());
    run.in_the_end("it is written", is_as_it_was_set).await;
    run.server().expire_session(&client);
    run.in_the_end("it is written again", is_as_it_was_set).await;
    unregisters(run, &registration).await;
}

/// Once polled, the node is deleted.
async fn unregister(run: &mut Run) {
    unregister_as(run, ServiceType::Dynamic).await;
}

async fn unregister_static(run: &mut Run) {
    unregister_as(run, ServiceType::Static).await;
}

async fn unregister_as(run: &mut Run, service_type: ServiceType) {
    directories(run);
    let client = run.client().await;
    let registration = registered(&client, service_type).await;
    match run.cut(registration.unregister()).await.done() {
        Some(unregistered) => {
            unregistered.expect("it is repeated");
            assert_eq!(node(run), None);
        }
        None if run.is_polled() => run.in_the_end("it is gone", || node(run).is_none()).await,
        None => run.in_the_end("it is there", || run.server().get(OWN).is_some()).await,
    }
    unregisters(run, &registration).await;
}
