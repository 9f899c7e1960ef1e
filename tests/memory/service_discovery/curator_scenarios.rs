//! The scenarios of Curator's own tests of its service discovery, by the classes and methods there. Those that are not
//! here are in `basics`, `choice`, `faults`, `formats` and `input` beside it, and in the unit tests.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::service_discovery::{
    Registration, Service, ServiceDiscovery, ServiceInstance, ServiceType, Strategy, UriSpec,
};
use zookeeper_recipes::testing::{Data, TestingServer};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{
    API, BASE, chosen, client, described, discovery, ids, instance, register, service, settle, setup, words,
};
use crate::fixture::{SOON, T, requests, still_pending, within};

const LATENCY: Duration = Duration::from_millis(5);

/// A server that is so slow that a test can act between two requests.
fn slow_server() -> TestingServer {
    TestingServer::builder().latency(LATENCY..=LATENCY).start()
}

/// Returns whether these ids are registered by the present session of this client.
fn are_registered(server: &TestingServer, client: &Client, ids: &[&str]) -> bool {
    let is_own = |id: &&str| {
        let stat = server.stat(&format!("{API}/{id}"));
        stat.is_some_and(|stat| Some(stat.ephemeral_owner) == client.session_id())
    };
    server.children(API) == ids && ids.iter().all(is_own)
}

/// `TestServiceDiscovery.testCrashedServer`, and `testCrashedServerMultiInstances`.
#[tokio::test(start_paused = true)]
async fn instances_are_back_after_their_session_and_the_servers_have_ended() {
    for expected in [&["a"][..], &["a", "b"]] {
        let (server, [(client, first), (_, second)]) = setup().await;
        let mut registrations = Vec::new();
        for id in expected {
            registrations.push(register(&first, id).await);
        }
        let session = client.session_id();
        server.expire_session(&client);
        server.stop();
        server.restart(Data::Kept);
        let back = server.until(|| are_registered(&server, &client, expected));
        within("they are back", T, back).await;
        assert_ne!(client.session_id(), session);
        assert_eq!(ids(&service(&second).await), expected);
    }
}

/// `TestServiceDiscovery.testMultipleInstances`.
#[tokio::test(start_paused = true)]
async fn instances_are_found_under_the_name_of_their_service_only() {
    let (_server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<()>::new(&client, "/test").expect("a good path");
    let mut registrations: Vec<Registration<()>> = Vec::new();
    for name in ["one", "one", "two", "two"] {
        let instance = ServiceInstance::builder(name).build().expect("a good instance");
        registrations.push(discovery.register(instance).await.expect("registered"));
    }
    assert_eq!(discovery.names().await.expect("an answer"), ["one", "two"]);
    for (name, registrations) in ["one", "two"].into_iter().zip(registrations.chunks(2)) {
        let service = discovery.service(name).start().await.expect("a service");
        let mut registered: Vec<_> = registrations.iter().map(Registration::instance).collect();
        registered.sort_by(|one, other| one.id().cmp(other.id()));
        assert!(service.instances().iter().map(|found| (*found).clone()).eq(registered), "{name}");
    }
}

/// `TestServiceDiscovery.testNoServerOnStart`. Curator's client starts without a server; ours fails then, and waits if
/// it has connected once.
#[tokio::test(start_paused = true)]
async fn what_begins_without_a_server_is_done_when_there_is_one() {
    let (server, [(_, first), (_, second)]) = setup().await;
    server.stop();
    let error = Client::builder_for_testing(&server).connect().await.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
    let mut registering = Box::pin(first.register(instance("a")));
    still_pending("there is no server", &mut registering).await;
    let mut starting = Box::pin(second.service("api").start());
    still_pending("there is no server", &mut starting).await;
    server.restart(Data::Kept);
    let _a = within("it is registered", T, registering).await.expect("registered");
    let api = within("it is looked for", T, starting).await.expect("a service");
    within("it is found", SOON, api.wait_for(1)).await.expect("instances");
    assert_eq!(second.names().await.expect("an answer"), ["api"]);
    assert_eq!(*api.next().expect("an instance"), instance("a"));
}

/// `TestServiceDiscovery.testUnregisterService`: it is unregistered while it is being registered again, at any moment.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_unregistered_while_it_registers_again_stays_away() {
    for expires in [true, false] {
        let (mut early, mut late) = (0, 0);
        for after in (0..100).step_by(2) {
            let server = slow_server();
            let client = client(&server).await;
            let registration = register(&discovery(&client), "a").await;
            if expires {
                server.expire_session(&client);
            }
            server.stop();
            server.restart(Data::Kept);
            tokio::time::sleep(Duration::from_millis(after)).await;
            if registration.state().get() == NodeState::Present {
                late += 1;
            } else {
                early += 1;
            }
            within("it is unregistered", T, registration.unregister()).await.expect("unregistered");
            assert_eq!(server.children(API), [""; 0], "after {after} ms, expires: {expires}");
            tokio::time::sleep(T * 2).await;
            assert_eq!(server.children(API), [""; 0], "after {after} ms, expires: {expires}");
        }
        assert!(early > 5 && late > 5, "expires: {expires}: {early} before it was back, {late} after that");
    }
}

/// `TestServiceDiscovery.testCleaning`.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_unregistered_leaves_nothing() {
    let (server, [(client, first), _]) = setup().await;
    let registration = register(&first, "a").await;
    settle().await;
    assert!(server.watches() > 0);
    registration.unregister().await.expect("unregistered");
    within("its watches are gone", SOON, server.until(|| server.watches() == 0)).await;
    let session = client.session_id();
    server.clear_records();
    server.expire_session(&client);
    let next_session = server.until(|| client.session_id().is_some() && client.session_id() != session);
    within("there is another session", T, next_session).await;
    tokio::time::sleep(T).await;
    assert_eq!(requests(&server), [], "it does not register again");
}

/// `TestServiceCache.testInitialLoad`.
#[tokio::test(start_paused = true)]
async fn each_registration_is_one_change_and_a_later_service_begins_with_all() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let expected = ["a", "b", "c"];
    let api = service(&second).await;
    let mut changes = api.changes();
    let mut registrations = Vec::new();
    for id in expected {
        registrations.push(register(&first, id).await);
    }
    assert_eq!(words(&mut changes).await, ["+a", "+b", "+c"]);
    let later = service(&second).await;
    assert_eq!(ids(&later), expected);
    assert_eq!(chosen(&later, 3), expected);
}

/// `TestServiceCache.testCache`.
#[tokio::test(start_paused = true)]
async fn an_instance_of_another_service_is_no_change() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let api = service(&second).await;
    let mut changes = api.changes();
    let _a = register(&first, "a").await;
    assert_eq!(words(&mut changes).await, ["+a"]);
    let _b = register(&first, "b").await;
    assert_eq!(words(&mut changes).await, ["+b"]);
    let another = ServiceInstance::builder("another").payload("thing".to_owned()).build().expect("good");
    let _another = first.register(another).await.expect("registered");
    assert_eq!(words(&mut changes).await, [""; 0]);
}

/// `TestServiceCacheRace.testRaceOnInitialLoad`, and `TestServiceCacheImpl.testInitialLoadRaceConditionNewApi`: one is
/// registered while the instances are listed and read, at any moment.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_registered_while_a_service_starts_is_found_once() {
    let (mut at_the_start, mut as_a_change) = (0, 0);
    for after in (0..100).step_by(2) {
        let server = slow_server();
        let (one, two) = (client(&server).await, client(&server).await);
        let (first, second) = (discovery(&one), discovery(&two));
        let _a = register(&first, "a").await;
        let starting = async {
            tokio::time::sleep(LATENCY * 6).await;
            let api = service(&second).await;
            (api.changes(), api)
        };
        let registering = async {
            tokio::time::sleep(Duration::from_millis(after)).await;
            register(&first, "b").await
        };
        let ((mut changes, api), _b) = tokio::join!(starting, registering);
        let begun: Vec<_> = changes.start().iter().map(|instance| instance.id().to_owned()).collect();
        match begun.len() {
            1 => {
                as_a_change += 1;
                assert_eq!((begun, words(&mut changes).await), (vec!["a".to_owned()], vec!["+b".to_owned()]));
            }
            _ => {
                at_the_start += 1;
                assert_eq!((begun, words(&mut changes).await), (vec!["a".to_owned(), "b".to_owned()], vec![]));
            }
        }
        assert_eq!(ids(&api), ["a", "b"], "after {after} ms");
        assert_eq!(chosen(&api, 2), ["a", "b"], "after {after} ms");
    }
    assert!(at_the_start > 5 && as_a_change > 5, "{at_the_start} at the start, {as_a_change} as a change");
}

/// `TestServiceProvider.testDisabledInstance`. Curator's provider gives none and lists none; here the last instance is
/// listed and chosen, and says that it is disabled: a caller may refuse it.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_registered_as_disabled_is_chosen_only_if_there_is_no_other() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let disabled = described("a").enabled(false).build().expect("good");
    let _a = first.register(disabled.clone()).await.expect("registered");
    let api = service(&second).await;
    assert_eq!(*api.instances().get("a").expect("it is found"), disabled);
    assert!(!api.next().expect("the only one").is_enabled());
    let mut enabled = Box::pin(api.wait_for(1));
    still_pending("none is enabled", &mut enabled).await;
    let _b = register(&first, "b").await;
    within("one is enabled", SOON, enabled).await.expect("instances");
    assert_eq!(chosen(&api, 4), ["b"]);
}

/// `TestWatchedInstances.testWatchedInstances`. There, a registration takes over what another client has written into
/// its node. Here it keeps what its own process has set: that is written with the next update, and in the next session.
#[tokio::test(start_paused = true)]
async fn what_another_client_writes_is_found_and_does_not_become_the_registration() {
    let (server, [(client, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&second).await;
    let mut changes = api.changes();
    let by_hand = |payload: &str| {
        let path = format!("{API}/a");
        let mut node: Value = serde_json::from_slice(&server.get(&path).expect("it is there")).expect("JSON");
        node["payload"] = payload.into();
        server.set_data_by_hand(&path, node.to_string()).expect("it is there");
    };
    let found = |api: &Service<String>| api.next().and_then(|found| found.payload().cloned());
    by_hand("different");
    assert_eq!(words(&mut changes).await, ["~a"]);
    assert_eq!(found(&api).as_deref(), Some("different"));
    assert_eq!(a.instance(), instance("a"));
    a.update(described("a").payload("updated".to_owned()).build().expect("good")).await.expect("written");
    assert_eq!(words(&mut changes).await, ["~a"]);
    assert_eq!(found(&api).as_deref(), Some("updated"));
    by_hand("different");
    assert_eq!(words(&mut changes).await, ["~a"]);
    server.expire_session(&client);
    assert_eq!(words(&mut changes).await, ["-a", "+a"]);
    assert_eq!(found(&api).as_deref(), Some("updated"));
}

/// The fields of the instances in Curator's tests of its serializer.
fn serialized<P: Serialize>(payload: Option<P>, enabled: bool) -> ServiceInstance<P> {
    let builder = ServiceInstance::builder("name").id("id").address("address").port(10).ssl_port(20);
    let builder = builder.registration_time(SystemTime::UNIX_EPOCH).service_type(ServiceType::Dynamic);
    let builder = builder.uri_spec("{name}/b/{id}".parse().expect("a good spec")).enabled(enabled);
    let builder = match payload {
        Some(payload) => builder.payload(payload),
        None => builder,
    };
    builder.build().expect("a good instance")
}

/// Registers an instance with this payload, and compares what is found. Returns the payload as it was written.
async fn comes_back<P>(payload: Option<P>, enabled: bool) -> Value
where
    P: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static,
{
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<P>::new(&client, BASE).expect("a good path");
    let built = serialized(payload, enabled);
    let _registration = discovery.register(built.clone()).await.expect("registered");
    let found = discovery.service("name").start().await.expect("a service").instances();
    let found = found.get("id").expect("it can be read");
    assert_eq!(*found, built);
    assert_eq!((found.name(), found.address(), found.port()), ("name", Some("address"), Some(10)));
    assert_eq!((found.ssl_port(), found.uri_spec()), (Some(20), Some("{name}/b/{id}".parse().expect("a good spec"))));
    assert_eq!((found.payload(), found.is_enabled()), (built.payload(), enabled));
    let written = server.get(&format!("{BASE}/name/id")).expect("it is there");
    serde_json::from_slice::<Value>(&written).expect("JSON")["payload"].take()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Payload {
    val: String,
}

/// `TestJsonInstanceSerializer.testBasic`, `testNoPayload`, `testPayloadAsMap` and `testPayloadClass`.
#[tokio::test(start_paused = true)]
async fn an_instance_with_any_payload_is_found_as_it_was_registered() {
    for enabled in [true, false] {
        assert_eq!(comes_back(Some("payload".to_owned()), enabled).await, json!("payload"));
        assert_eq!(comes_back::<()>(None, enabled).await, Value::Null);
        let map = BTreeMap::from(["1", "2"].map(|key| (key.to_owned(), format!("Test value {key}"))));
        assert_eq!(comes_back(Some(map), enabled).await, json!({ "1": "Test value 1", "2": "Test value 2" }));
        let payload = Payload { val: "Test value".into() };
        assert_eq!(comes_back(Some(payload), enabled).await, json!({ "val": "Test value" }));
    }
}

/// `TestJsonInstanceSerializer.testWrongPayloadType`.
#[tokio::test(start_paused = true)]
async fn a_payload_of_another_type_cannot_be_read_and_hides_no_other_instance() {
    let (_server, [(client, first), _]) = setup().await;
    let _text = register(&first, "text").await;
    let discovery = ServiceDiscovery::<f64>::new(&client, BASE).expect("a good path");
    let number = ServiceInstance::builder("api").id("number").payload(1.5).build().expect("good");
    let _number = discovery.register(number).await.expect("registered");
    let api = discovery.service("api").start().await.expect("a service");
    assert_eq!(api.next().expect("the other one").payload(), Some(&1.5));
    let found = api.instances();
    let unreadable: Vec<_> = found.unreadable().map(|node| format!("{:?}", node.content())).collect();
    assert_eq!((found.len(), unreadable.len()), (1, 1));
    assert!(unreadable[0].contains(r#"the payload: invalid type: string \"text\", expected f64"#), "{unreadable:?}");
}

fn spec(text: &str) -> UriSpec {
    text.parse().expect("a good spec")
}

/// `TestUriSpec.testScheme`.
#[test]
fn the_scheme_is_that_of_the_port() {
    let builder = || ServiceInstance::<()>::builder("foo").id("x").port(5);
    let uri = |instance: ServiceInstance<()>| instance.build_uri(&spec("{scheme}://foo.com"));
    assert_eq!(uri(builder().build().expect("good")).as_deref(), Some("http://foo.com"));
    assert_eq!(uri(builder().ssl_port(5).build().expect("good")).as_deref(), Some("https://foo.com"));
}

/// `TestUriSpec.testFromInstance`. There, a caller may replace variables; here, it writes another spec.
#[test]
fn each_field_of_an_instance_is_a_variable() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(789);
    let builder = ServiceInstance::<()>::builder("foo").id("bar").address("1.2.3.4").port(5).ssl_port(6);
    let instance = builder.registration_time(time).service_type(ServiceType::Permanent).build().expect("good");
    let variables = "{address}:{port}:{ssl-port}/{name}/{id}/{registration-time-utc}/{service-type}";
    let uri = |scheme: &str| instance.build_uri(&spec(&format!("{scheme}://{variables}")));
    assert_eq!(uri("test").as_deref(), Some("test://1.2.3.4:5:6/foo/bar/789/permanent"));
    assert_eq!(uri("{scheme}").as_deref(), Some("https://1.2.3.4:5:6/foo/bar/789/permanent"));
}

/// `TestUriSpec.testBasic` and `testEscapes`. There, a caller may give the value of any variable, and one without a
/// value is left out; here, there are the variables of an instance, and no URI if one has no value.
#[tokio::test(start_paused = true)]
async fn a_spec_is_written_in_its_parts_and_braces_are_escaped() {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<()>::new(&client, BASE).expect("a good path");
    let variable = |value: &str| json!({ "value": value, "variable": true });
    let text = |value: &str| json!({ "value": value, "variable": false });
    let [basic, escapes] = ["{name}{id}three-four-five{port}seven{address}", "{name}two-three-{[}four{]}-five{port}"];
    let basic_parts = [
        variable("name"),
        variable("id"),
        text("three-four-five"),
        variable("port"),
        text("seven"),
        variable("address"),
    ];
    let escaped = [text("two-three-"), variable("["), text("four"), variable("]"), text("-five")];
    let escaped_parts = [&[variable("name")][..], &escaped, &[variable("port")]].concat();
    for (id, of, parts) in [("basic", basic, &basic_parts[..]), ("escapes", escapes, &escaped_parts)] {
        let described = ServiceInstance::builder("api").id(id).uri_spec(spec(of)).build().expect("good");
        assert_eq!((described.uri(), spec(of).to_string()), (None, of.to_owned()));
        let _registration = discovery.register(described).await.expect("registered");
        let written = server.get(&format!("{API}/{id}")).expect("it is there");
        let written: Value = serde_json::from_slice(&written).expect("JSON");
        assert_eq!(written["uriSpec"], json!({ "parts": parts }));
    }
    let described = ServiceInstance::<()>::builder("api").build().expect("good");
    assert_eq!(described.build_uri(&spec("two-three-{[}four{]}-five")).as_deref(), Some("two-three-{four}-five"));
}

async fn ten(discovery: &ServiceDiscovery<String>) -> Vec<Registration<String>> {
    let mut registrations = Vec::new();
    for number in 0..10 {
        registrations.push(register(discovery, &number.to_string()).await);
    }
    registrations
}

fn next_number(service: &Service<String>) -> usize {
    service.next().expect("an instance").id().parse().expect("a number")
}

/// `TestStrategies.testRandom`.
#[tokio::test(start_paused = true)]
async fn random_choices_are_evenly_spread() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = ten(&first).await;
    let api = first.service("api").strategy(Strategy::Random).start().await.expect("a service");
    let mut counts = [0; 10];
    for _ in 0..10_000 {
        counts[next_number(&api)] += 1;
    }
    // Ten standard deviations from the mean.
    assert!(counts.iter().all(|count| (700..=1_300).contains(count)), "{counts:?}");
}

/// `TestStrategies.testRoundRobin`. There, it begins with the first instance; here, each process with another one.
#[tokio::test(start_paused = true)]
async fn round_robin_keeps_its_order_for_many_rounds() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = ten(&first).await;
    let api = service(&first).await;
    let begun = next_number(&api);
    for turn in 1..12_350 {
        assert_eq!(next_number(&api), (begun + turn) % 10, "{turn}");
    }
}

/// `ServiceCacheLeakTester`: services that are started, used and dropped, again and again.
#[tokio::test(start_paused = true)]
async fn many_services_leave_nothing() {
    let (server, [(_, first), _]) = setup().await;
    let _a = register(&first, "a").await;
    settle().await;
    let watches = server.watches();
    // The task of a service holds the weight, and what it shares with the handles holds the strategy.
    let kept = Arc::new(());
    for _ in 0..100 {
        let of_services = [Arc::clone(&kept), Arc::clone(&kept)];
        let [weight, load] = of_services.map(|kept| move |_: &ServiceInstance<String>| Arc::strong_count(&kept));
        let strategy = Strategy::least_loaded(move |instance| load(instance) as u64);
        let starting = first.service("api").strategy(strategy).weight(move |instance| weight(instance) as u32).start();
        assert!(starting.await.expect("a service").next().is_some());
    }
    settle().await;
    assert_eq!((server.watches(), Arc::strong_count(&kept)), (watches, 1));
}
