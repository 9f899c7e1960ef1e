//! What another client sees: nodes, data, changes, directories.

use serde_json::{Value, json};
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::cache::Content;
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceType};

use super::fixture::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_finds_the_instance_and_each_of_its_changes_and_its_node_is_gone_at_once() {
    let fixture = Fixture::new("services").await;
    let (here, there) = (fixture.client().await, fixture.client().await);
    let service = service(&there, &fixture.path).await;
    assert!(service.next().is_none(), "no client has registered it yet");
    let mut changes = service.changes();

    let registration = register(&here, &fixture.path, dynamic("1", "one")).await;
    let path = format!("{}/{NAME}/1", fixture.path);
    assert_eq!(registration.path(), path);
    assert_eq!(fixture.observer.owner(&path).await, here.session_id());
    assert_eq!(next(&mut changes).await, "+1 one");
    assert!(service.instances().get("1").is_some(), "what is reported is there");
    within("it can be chosen", SOON, service.wait_for(1)).await.expect("instances");
    let found = service.next().expect("an instance");
    assert_eq!(*found, registration.instance());
    assert_eq!((found.address(), found.port()), (Some("10.0.0.1"), Some(8080)));
    let data = fixture.observer.data(&path).await.expect("it is there");
    let written: Value = serde_json::from_slice(&data).expect("JSON");
    assert_eq!((&written["payload"], written.get("enabled")), (&json!("one"), None));

    within("it is updated", SOON, registration.update(dynamic("1", "two"))).await.expect("updated");
    assert_eq!(next(&mut changes).await, "~1 two");
    within("it is disabled", SOON, registration.set_enabled(false)).await.expect("disabled");
    assert_eq!(next(&mut changes).await, "~1 two disabled");
    let data = fixture.observer.data(&path).await.expect("it is there");
    let written: Value = serde_json::from_slice(&data).expect("JSON");
    assert_eq!(written["enabled"], json!(false));
    within("it is enabled", SOON, registration.set_enabled(true)).await.expect("enabled");
    assert_eq!(next(&mut changes).await, "~1 two");
    assert_eq!(discovery(&there, &fixture.path).names().await.expect("names"), [NAME]);

    within("it is unregistered", SOON, registration.unregister()).await.expect("unregistered");
    assert!(!fixture.observer.exists(&path).await, "gone for sure");
    assert_eq!(next(&mut changes).await, "-1 two");
    assert!(service.instances().is_empty(), "what is reported is gone");
    eventually("none can be chosen", SOON, || async { service.next().is_none() }).await;
}

/// The servers of the tests look for empty containers twice a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directories_are_removed_when_they_are_empty_and_a_service_finds_what_comes_after_that() {
    let fixture = Fixture::new("directories").await;
    let client = fixture.client().await;
    let discovery = discovery(&client, &fixture.path);
    let service = service(&client, &fixture.path).await;
    assert_eq!(discovery.names().await.expect("names"), [""; 0], "there is no directory");
    for payload in ["first", "second"] {
        let registration = register(&client, &fixture.path, dynamic("1", payload)).await;
        finds(&service, &[&format!("1 {payload}")]).await;
        assert_eq!(discovery.names().await.expect("names"), [NAME]);
        within("it is unregistered", SOON, registration.unregister()).await.expect("unregistered");
        fixture.observer.wait_until_gone(&fixture.path).await;
        finds(&service, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_register_one_id_in_sequential_nodes() {
    let fixture = Fixture::new("sequential").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let sequential = |payload| instance("1", payload, ServiceType::DynamicSequential);
    let first = register(&one, &fixture.path, sequential("first")).await;
    let second = register(&two, &fixture.path, sequential("second")).await;
    for (registration, client, end) in [(&first, &one, "-10000000000"), (&second, &two, "-10000000001")] {
        let path = registration.path();
        let name = path.strip_prefix(&format!("{}/{NAME}/", fixture.path)).expect("in its directory");
        assert!(name.starts_with("_c_") && name.len() == 3 + 36 + end.len() && name.ends_with(end), "{name}");
        assert_eq!(fixture.observer.owner(&path).await, client.session_id());
    }
    let service = service(&one, &fixture.path).await;
    let found = || {
        let mut found: Vec<_> = service.instances().iter().map(|instance| words(&instance)).collect();
        found.sort();
        found
    };
    assert_eq!(found(), ["1 first", "1 second"]);
    within("it is unregistered", SOON, first.unregister()).await.expect("unregistered");
    eventually("the other one stays", SOON, || async { found() == ["1 second"] }).await;
    assert_eq!(service.instances().get("1").expect("it is found").path(), second.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_be_decoded_does_not_hide_the_others() {
    let fixture = Fixture::new("undecodable").await;
    let client = fixture.client().await;
    let registration = register(&client, &fixture.path, dynamic("1", "one")).await;
    let service = service(&client, &fixture.path).await;
    let mut changes = service.changes();

    let path = format!("{}/{NAME}/0", fixture.path);
    fixture.observer.create_ephemeral(&path, b"\xff no JSON").await;
    assert_eq!(next(&mut changes).await, "?0");
    let instances = service.instances();
    assert!(instances.iter().map(|instance| words(&instance)).eq(["1 one"]));
    let unreadable: Vec<_> = instances.unreadable().collect();
    assert_eq!(unreadable.len(), 1);
    assert_eq!(unreadable[0].path(), path);
    assert!(matches!(unreadable[0].content(), Content::Undecodable { .. }), "{:?}", unreadable[0]);
    assert_eq!(service.next().expect("an instance").path(), registration.path());

    fixture.observer.set_data(&path, br#"{"name":"api","id":"0","payload":"repaired"}"#).await;
    assert_eq!(next(&mut changes).await, "+0 repaired");
    finds(&service, &["0 repaired", "1 one"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_permission_to_create_it_fails() {
    let fixture = Fixture::new("forbidden").await;
    fixture.observer.create_forbidden(&fixture.path).await;
    let client = fixture.client().await;
    let discovery = ServiceDiscovery::<String>::new(&client, &fixture.path).expect("a discovery");
    let registering = within("it fails", SOON, discovery.register(dynamic("1", "one"))).await;
    let error = registering.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}
