//! Instances that Curator's service discovery registers and ours finds, and the other way round.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zookeeper_recipes::service_discovery::{
    Change, Changes, Registration, Service, ServiceDiscovery, ServiceInstance, ServiceType,
};

use super::Curator;
use crate::fixture::{Fixture, name_of};
use crate::interop::PATIENCE;
use crate::support::{unique_path, until, within};

const NAME: &str = "api";
/// The class of the peer for payloads, and the classes that Curator writes for a map and a list.
const DETAILS: &str = "DiscoveryPeer$Details";
const MAP: &str = "java.util.LinkedHashMap";
const LIST: &str = "java.util.ArrayList";
const URI_SPEC: &str = "{scheme}://{address}:{port}/{name}";
/// In milliseconds since 1970.
const REGISTERED: u64 = 1_795_690_773_844;

/// The fields of the class of the peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Details {
    zone: String,
    weight: i32,
}

/// What a payload has to be.
trait Payload: Serialize + DeserializeOwned + Debug + Clone + PartialEq + Send + Sync + 'static {}

impl<P: Serialize + DeserializeOwned + Debug + Clone + PartialEq + Send + Sync + 'static> Payload for P {}

fn details() -> Details {
    Details { zone: "a".to_owned(), weight: 3 }
}

fn map() -> BTreeMap<String, String> {
    BTreeMap::from([("zone", "a"), ("rack", "7")].map(|(key, value)| (key.to_owned(), value.to_owned())))
}

fn list() -> Vec<String> {
    ["a", "b"].map(str::to_owned).to_vec()
}

/// Starts Curator's discovery at the path of the fixture.
async fn curator(fixture: &Fixture, payloads: &str, format: &str) -> Curator {
    Curator::discovery(&[&fixture.server.connect_string(), &fixture.path, NAME, payloads, format]).await
}

async fn discovery<P: Payload>(fixture: &Fixture) -> ServiceDiscovery<P> {
    ServiceDiscovery::new(&fixture.client().await, &fixture.path).expect("a discovery")
}

async fn service<P: Payload>(fixture: &Fixture) -> Service<P> {
    discovery(fixture).await.service(NAME).start().await.expect("a service")
}

/// Registers an instance of ours.
async fn register<P: Payload>(discovery: &ServiceDiscovery<P>, instance: ServiceInstance<P>) -> Registration<P> {
    within("it registers", PATIENCE, discovery.register(instance)).await.expect("registered")
}

/// Tells Curator to do something with an instance.
async fn tell(curator: &mut Curator, command: &str, instance: &Value) {
    let answer = within(command, PATIENCE, curator.ask(&format!("{command} {instance}"))).await;
    assert_eq!(answer, "ok");
}

/// Returns what Curator answers to a command; an array in the order of the ids.
async fn answer(curator: &mut Curator, command: &str) -> Value {
    let answer = within(command, PATIENCE, curator.ask(command)).await;
    let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
    if let Value::Array(instances) = &mut answer {
        instances.sort_by_key(|instance| instance["id"].to_string());
    }
    answer
}

/// Waits until Curator's cache has these instances.
async fn is_cached(curator: &mut Curator, expected: &Value) {
    let cached = async {
        while answer(curator, "cached").await != *expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(&format!("Curator's cache has {expected}"), PATIENCE, cached).await;
}

/// Waits until Curator's provider, which has a cache of its own, chooses these in as many choices, in any order.
async fn are_provided(curator: &mut Curator, expected: &[&Value]) {
    let provided = async {
        loop {
            let mut chosen = Vec::new();
            for _ in expected {
                chosen.push(answer(curator, "provided").await);
            }
            chosen.sort_by_key(|instance| instance["id"].to_string());
            if chosen.iter().eq(expected.iter().copied()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(&format!("Curator provides {expected:?}"), PATIENCE, provided).await;
}

/// Returns an instance as the peer describes what it finds.
fn described<P: Payload>(instance: &ServiceInstance<P>) -> Value {
    let time = instance.registration_time().duration_since(UNIX_EPOCH).expect("since 1970");
    json!({
        "id": instance.id(),
        "address": instance.address(),
        "port": instance.port(),
        "sslPort": instance.ssl_port(),
        "payload": instance.payload(),
        "registrationTimeUTC": u64::try_from(time.as_millis()).expect("not that late"),
        "serviceType": instance.service_type(),
        "uri": instance.uri(),
        "enabled": instance.is_enabled(),
    })
}

/// The next change, in words: `+` for added, `~` for updated, `-` for removed, then id, payload, and `off` if disabled.
async fn next(changes: &mut Changes<String>) -> String {
    let words = |instance: &ServiceInstance<String>| {
        let payload = instance.payload().map_or("none", String::as_str);
        format!("{} {payload}{}", instance.id(), if instance.is_enabled() { "" } else { " off" })
    };
    match within("a change", PATIENCE, changes.next()).await.expect("the service is open") {
        Change::Added(new) => format!("+{}", words(&new)),
        Change::Updated { new, .. } => format!("~{}", words(&new)),
        Change::Removed { old } => format!("-{}", words(&old)),
        other => format!("{other:?}"),
    }
}

/// An instance with only a payload.
fn with_payload(id: &str, payload: &str) -> ServiceInstance<String> {
    ServiceInstance::builder(NAME).id(id).payload(payload.to_owned()).build().expect("a good instance")
}

/// An instance of ours with every field.
fn complete<P: Payload>(id: &str, payload: P, class: Option<&str>) -> ServiceInstance<P> {
    let time = UNIX_EPOCH + Duration::from_millis(REGISTERED);
    let builder = ServiceInstance::builder(NAME).id(id).address("10.0.0.1").port(8080).ssl_port(8443);
    let builder = builder.uri_spec(URI_SPEC.parse().expect("a URI")).registration_time(time).payload(payload);
    let builder = if let Some(class) = class { builder.payload_class(class) } else { builder };
    builder.build().expect("a good instance")
}

async fn curator_finds<P: Payload>(payloads: &str, payload: P, class: Option<&str>) {
    let fixture = Fixture::new("curator-finds").await;
    let discovery = discovery(&fixture).await;
    let full = register(&discovery, complete("1", payload, class)).await;
    let empty = ServiceInstance::builder(NAME).id("2").build().expect("a good instance");
    let empty = register(&discovery, empty).await;
    let expected = json!([described(&full.instance()), described(&empty.instance())]);
    assert_eq!(expected[0]["uri"], "https://10.0.0.1:8080/api");

    let mut curator = curator(&fixture, payloads, "compatible").await;
    assert_eq!(answer(&mut curator, "query").await, expected, "{payloads}");
    is_cached(&mut curator, &expected).await;
    are_provided(&mut curator, &[&expected[0], &expected[1]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn curator_finds_what_we_register() {
    curator_finds("text", "text äöü \"quoted\"".to_owned(), None).await;
    curator_finds("map", map(), None).await;
    curator_finds("list", list(), Some(LIST)).await;
    curator_finds("details", details(), Some(DETAILS)).await;
}

/// Compares everything of an instance that Curator has registered, and what we write for the same instance.
async fn we_find<P: Payload>(payloads: &str, format: &str, payload: P, class: Option<&str>) {
    let fixture = Fixture::new("curator-registers").await;
    let service = service::<P>(&fixture).await;
    let mut curator = curator(&fixture, payloads, format).await;
    let instance = json!({
        "id": "java",
        "address": "10.0.0.1",
        "port": 8080,
        "sslPort": 8443,
        "payload": &payload,
        "registrationTimeUTC": REGISTERED,
        "uriSpec": URI_SPEC,
    });
    tell(&mut curator, "register", &instance).await;
    let found = within("it is found", PATIENCE, service.wait_for(1)).await.expect("instances");
    let found = found.get("java").expect("it is found");
    let built = complete("java", payload, class);
    let case = format!("{payloads}, {format}");
    assert_eq!(described(&found), described(&built), "{case}");
    assert_eq!((found.payload(), found.payload_class()), (built.payload(), class), "{case}");
    assert_eq!((found.name(), found.uri_spec()), (NAME, built.uri_spec()), "{case}");
    assert_eq!(answer(&mut curator, "query").await, json!([described(&found)]), "{case}");

    // At another path, where the id is free.
    let theirs = fixture.observer.data(found.path()).await.expect("it is there");
    let mut theirs = String::from_utf8(theirs).expect("it is text");
    if format == "new" {
        // What has this field is equal to what lacks it, and is written again without.
        theirs = theirs.strip_suffix(r#","enabled":true}"#).expect("it ends so").to_owned() + "}";
    }
    assert_eq!(*found, built, "{case}");
    for instance in [(*found).clone(), built] {
        let elsewhere = ServiceDiscovery::new(&fixture.client().await, unique_path("elsewhere")).expect("a discovery");
        let registration = register(&elsewhere, instance).await;
        let ours = fixture.observer.data(&registration.path()).await.expect("it is there");
        if class.is_none() {
            assert_eq!(String::from_utf8_lossy(&ours), theirs, "{case}");
        }
        // The fields of an object are in no order.
        let [ours, theirs] =
            [ours.as_slice(), theirs.as_bytes()].map(|data| serde_json::from_slice::<Value>(data).expect("JSON"));
        assert_eq!(ours, theirs, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn we_find_what_curator_registers_and_write_the_same_bytes() {
    for format in ["compatible", "new"] {
        we_find("text", format, "text äöü \"quoted\" </>".to_owned(), None).await;
        we_find("map", format, map(), Some(MAP)).await;
        we_find("list", format, list(), Some(LIST)).await;
        we_find("details", format, details(), Some(DETAILS)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn each_sees_the_other_register_update_and_unregister() {
    let fixture = Fixture::new("curator-changes").await;
    let mut curator = curator(&fixture, "text", "compatible").await;
    let service = service::<String>(&fixture).await;
    let mut changes = service.changes();

    tell(&mut curator, "register", &json!({"id": "java", "payload": "old"})).await;
    assert_eq!(next(&mut changes).await, "+java old");
    tell(&mut curator, "update", &json!({"id": "java", "payload": "new"})).await;
    assert_eq!(next(&mut changes).await, "~java new");
    assert_eq!(discovery::<String>(&fixture).await.names().await.expect("names"), [NAME]);
    tell(&mut curator, "unregister", &json!({"id": "java"})).await;
    assert_eq!(next(&mut changes).await, "-java new");

    is_cached(&mut curator, &json!([])).await;
    let ours = register(&discovery(&fixture).await, with_payload("rust", "old")).await;
    is_cached(&mut curator, &json!([described(&ours.instance())])).await;
    within("it is updated", PATIENCE, ours.update(with_payload("rust", "new"))).await.expect("updated");
    is_cached(&mut curator, &json!([described(&ours.instance())])).await;
    are_provided(&mut curator, &[&described(&ours.instance())]).await;
    within("it is unregistered", PATIENCE, ours.unregister()).await.expect("unregistered");
    is_cached(&mut curator, &json!([])).await;
    are_provided(&mut curator, &[&Value::Null]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn each_sees_that_an_instance_of_the_other_is_disabled() {
    let fixture = Fixture::new("curator-enabled").await;
    let service = service::<String>(&fixture).await;
    let mut changes = service.changes();
    let mut writer = curator(&fixture, "text", "new").await;
    let instance = |enabled: bool| json!({"id": "java", "payload": "text", "enabled": enabled});
    tell(&mut writer, "register", &instance(false)).await;
    assert_eq!(next(&mut changes).await, "+java text off");
    let ours = register(&discovery(&fixture).await, with_payload("rust", "text")).await;
    assert_eq!(next(&mut changes).await, "+rust text");
    within("it is found", PATIENCE, service.wait_for(1)).await.expect("instances");
    assert!((0..4).all(|_| service.next().is_some_and(|next| next.id() == "rust")), "the other one is passed over");
    tell(&mut writer, "update", &instance(true)).await;
    assert_eq!(next(&mut changes).await, "~java text");

    let mut reader = curator(&fixture, "text", "compatible").await;
    for enabled in [false, true] {
        within("it is written", PATIENCE, ours.set_enabled(enabled)).await.expect("written");
        assert_eq!(next(&mut changes).await, if enabled { "~rust text" } else { "~rust text off" });
        for curator in [&mut writer, &mut reader] {
            let all = answer(curator, "query").await;
            assert_eq!(all[1], described(&ours.instance()));
            is_cached(curator, &all).await;
            let chosen = [&all[0], &all[usize::from(enabled)]];
            are_provided(curator, &chosen).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn instances_of_a_curator_that_is_killed_go_with_its_session() {
    let fixture = Fixture::new("curator-killed").await;
    let mut curator = curator(&fixture, "text", "compatible").await;
    let service = service::<String>(&fixture).await;
    let mut changes = service.changes();
    tell(&mut curator, "register", &json!({"id": "plain", "payload": "text"})).await;
    assert_eq!(next(&mut changes).await, "+plain text");
    let sequential = json!({"id": "numbered", "payload": "text", "serviceType": "DYNAMIC_SEQUENTIAL"});
    tell(&mut curator, "register", &sequential).await;
    assert_eq!(next(&mut changes).await, "+numbered text");
    let lasting = json!({"id": "static", "payload": "text", "serviceType": "STATIC"});
    tell(&mut curator, "register", &lasting).await;
    assert_eq!(next(&mut changes).await, "+static text");
    let numbered = until("it is found", PATIENCE, || async { service.instances().get("numbered") }).await;
    assert_eq!(numbered.service_type(), ServiceType::DynamicSequential);
    let number = name_of(numbered.path()).strip_prefix("numbered").expect("the id, and a number");
    assert!(number.len() == 10 && number.parse::<u32>().is_ok(), "{numbered:?}");

    curator.kill().await;
    let mut gone = [next(&mut changes).await, next(&mut changes).await];
    gone.sort();
    assert_eq!(gone, ["-numbered text", "-plain text"]);
    let left = until("one stays", PATIENCE, || async {
        let instances = service.instances();
        (instances.len() == 1).then_some(instances)
    })
    .await;
    assert_eq!(left.get("static").expect("it stays").service_type(), ServiceType::Static);
}
