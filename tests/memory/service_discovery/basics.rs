//! Registering, updating, draining, unregistering, and what others find.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance, ServiceType};

use super::fixture::{API, BASE, chosen, described, ids, instance, register, service, settle, setup, words};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn what_is_registered_is_found_until_it_is_unregistered() {
    let (server, [(_, first), (_, second)]) = setup().await;
    let api = service(&second).await;
    assert_eq!((api.path(), api.instances().len(), api.next()), (API, 0, None));
    let mut changes = api.changes();
    let registration = register(&first, "a").await;
    let found = within("it is found", SOON, api.wait_for(1)).await.expect("instances");
    assert_eq!(*found.get("a").expect("it is there"), instance("a"));
    assert!(found.get("b").is_none());
    assert_eq!(api.next().expect("an instance").payload().map(String::as_str), Some("a"));
    registration.unregister().await.expect("unregistered");
    assert_eq!(server.children(API), [""; 0]);
    settle().await;
    assert_eq!((api.instances().is_empty(), api.next()), (true, None));
    assert_eq!(words(&mut changes).await, ["+a", "-a"]);
    registration.unregister().await.expect("twice");
}

#[tokio::test(start_paused = true)]
async fn an_update_is_seen_and_survives_the_session() {
    let (server, [(client, first), (_, second)]) = setup().await;
    let registration = register(&first, "a").await;
    let api = service(&second).await;
    let mut changes = api.changes();
    let updated = described("a").port(81).payload("new".to_owned()).build().expect("good");
    registration.update(updated.clone()).await.expect("written");
    assert_eq!(registration.instance(), updated);
    assert_eq!(words(&mut changes).await, ["~a"]);
    assert_eq!(*api.next().expect("an instance"), updated);
    server.refuse(&client);
    server.expire_session(&client);
    assert_eq!(words(&mut changes).await, ["-a"]);
    server.heal();
    tokio::time::sleep(T).await;
    assert_eq!(words(&mut changes).await, ["+a"]);
    assert_eq!(*api.next().expect("an instance"), updated);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_drained_is_found_and_not_chosen() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let _b = register(&first, "b").await;
    let api = service(&second).await;
    assert_eq!(chosen(&api, 4), ["a", "b"]);
    a.set_enabled(false).await.expect("written");
    settle().await;
    assert_eq!(ids(&api), ["a", "b"]);
    assert!(!api.instances().get("a").expect("it is found").is_enabled());
    assert_eq!(chosen(&api, 4), ["b"]);
    // Only those that accept work count.
    assert!(tokio::time::timeout(SOON, api.wait_for(2)).await.is_err());
    a.set_enabled(true).await.expect("written");
    within("both accept work", SOON, api.wait_for(2)).await.expect("instances");
    assert_eq!(chosen(&api, 4), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_drained_instance_is_drained_in_the_next_session_too() {
    let (server, [(client, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    a.set_enabled(false).await.expect("written");
    let session = client.session_id();
    server.expire_session(&client);
    server.until(|| client.session_id().is_some() && client.session_id() != session).await;
    let api = service(&second).await;
    within("it is back", T, server.until(|| !server.children(API).is_empty())).await;
    settle().await;
    assert!(!api.instances().get("a").expect("it is found").is_enabled());
    assert!(!a.instance().is_enabled());
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_dropped_is_unregistered() {
    let (server, [(_, first), _]) = setup().await;
    for service_type in [ServiceType::Dynamic, ServiceType::Static, ServiceType::Permanent] {
        let described = described("a").service_type(service_type).build().expect("good");
        drop(first.register(described).await.expect("registered"));
        within("it is gone", SOON, server.until(|| server.children(API).is_empty())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_instance_outlives_its_session_and_a_dynamic_one_does_not() {
    let (server, [(client, first), (_, second)]) = setup().await;
    let types = [("a", ServiceType::Dynamic), ("b", ServiceType::Static), ("c", ServiceType::Permanent)];
    let mut registrations = Vec::new();
    for (id, service_type) in types {
        let described = described(id).service_type(service_type).build().expect("good");
        registrations.push(first.register(described).await.expect("registered"));
    }
    let api = service(&second).await;
    server.refuse(&client);
    server.expire_session(&client);
    settle().await;
    assert_eq!(ids(&api), ["b", "c"]);
    assert_eq!(api.instances().get("c").expect("it is there").service_type(), ServiceType::Permanent);
}

#[tokio::test(start_paused = true)]
async fn sequential_instances_may_have_one_id() {
    let (server, [(_, first), (_, second)]) = setup().await;
    let sequential = || described("a").service_type(ServiceType::DynamicSequential).build().expect("good");
    let one = first.register(sequential()).await.expect("registered");
    let two = second.register(sequential()).await.expect("registered");
    let api = service(&second).await;
    assert_eq!(ids(&api), ["a", "a"]);
    assert_ne!(one.path(), two.path());
    assert!(one.path().starts_with(&format!("{API}/_c_")) && one.path().contains("-a0000000"), "{}", one.path());
    one.unregister().await.expect("unregistered");
    settle().await;
    assert_eq!(server.children(API).len(), 1, "the other one is left");
    assert_eq!(api.next().map(|instance| instance.path().to_owned()), Some(two.path()));
}

/// Losing one of these would break users.
#[tokio::test(start_paused = true)]
async fn everything_can_be_used_on_any_thread() {
    fn anywhere<T: Send + Sync + Unpin>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let (_server, [(_, first), _]) = setup().await;
    let registration = register(&first, "a").await;
    let api = service(&first).await;
    let (found, changes) = (api.instances(), api.changes());
    anywhere(&first);
    anywhere(&registration);
    anywhere(&api);
    anywhere(&found);
    anywhere(&found.get("a"));
    sent(&changes);
    sent(&first.register(instance("b")));
    sent(&first.names());
    sent(&first.service("api").start());
    sent(&api.wait_for(1));
    sent(&registration.set_enabled(true));
    sent(&registration.update(instance("a")));
    sent(&registration.unregister());
}

#[tokio::test(start_paused = true)]
async fn the_names_of_all_services_are_known() {
    let (server, [(_, first), _]) = setup().await;
    assert_eq!(first.names().await.expect("an answer"), [""; 0], "there is no base path yet");
    let _a = register(&first, "a").await;
    let other = ServiceInstance::builder("admin").payload(String::new()).build().expect("good");
    let _admin = first.register(other).await.expect("registered");
    assert_eq!(first.names().await.expect("an answer"), ["admin", "api"]);
    assert_eq!(server.children(BASE).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_id_is_random_unless_it_is_given() {
    let (_server, [(_, first), _]) = setup().await;
    let api = service(&first).await;
    let unnamed = || ServiceInstance::builder("api").payload(String::new()).build().expect("good");
    let (one, two) = (first.register(unnamed()).await, first.register(unnamed()).await);
    let (one, two) = (one.expect("registered"), two.expect("registered"));
    assert_ne!(one.instance().id(), two.instance().id());
    within("both are found", SOON, api.wait_for(2)).await.expect("instances");
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_session_is_taken_until_that_ends() {
    let (server, [(one, first), (two, second)]) = setup().await;
    let a = register(&first, "a").await;
    let error = second.register(instance("a")).await.expect_err("taken");
    let words = error.to_string();
    assert!(
        words.contains(&format!("{:#x}", one.session_id().expect("a session"))) && words.contains("wait"),
        "{words}"
    );
    assert!(error.is_retryable() && !error.is_lost());
    let waiting = ServiceDiscovery::builder(&two, BASE).wait().build().expect("good");
    let other = described("a").payload("other".to_owned()).build().expect("good");
    let mut registering = Box::pin(waiting.register(other));
    crate::fixture::still_pending("the id is taken", &mut registering).await;
    assert_eq!(server.stat(&format!("{API}/a")).map(|stat| Some(stat.ephemeral_owner)), Some(one.session_id()));
    a.unregister().await.expect("unregistered");
    let other = within("the id is free", SOON, registering).await.expect("registered");
    assert_eq!(other.state().get(), NodeState::Present);
}

#[tokio::test(start_paused = true)]
async fn a_static_registration_adopts_what_is_there() {
    let (server, [(_, first), (_, second)]) = setup().await;
    server.create_by_hand(API, "", CreateMode::Persistent).ok();
    let path = format!("{API}/a");
    let client = super::fixture::client(&server).await;
    client.create_containers(API).await.expect("created");
    server.create_by_hand(&path, "of before", CreateMode::Persistent).expect("a new node");
    let api = service(&second).await;
    assert_eq!((api.instances().len(), api.instances().unreadable().count()), (0, 1));
    let described = described("a").service_type(ServiceType::Static).build().expect("good");
    let _a = first.register(described).await.expect("registered");
    within("it can be read now", SOON, api.wait_for(1)).await.expect("instances");
    assert_eq!(api.instances().unreadable().count(), 0);
}
