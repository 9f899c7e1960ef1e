//! Sessions that a real server ends, processes that are killed, and connections that are lost.

use std::time::Duration;

use futures::FutureExt;
use zookeeper_recipes::service_discovery::{Error, ServiceDiscovery, ServiceType};
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use super::fixture::*;
use crate::support::Fault;
use crate::support::elsewhere::{Elsewhere, ordered, say};

const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_killed_session_the_instance_is_back_at_its_path_with_the_latest_data() {
    for service_type in [ServiceType::Dynamic, ServiceType::DynamicSequential] {
        let fixture = Fixture::new("killed").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let registration = register(&client, &fixture.path, instance("1", "old", service_type)).await;
        let (path, session) = (registration.path(), client.session_id());
        let service = service(&fixture.client().await, &fixture.path).await;
        let before = service.instances().get("1").expect("it is found");
        let mut changes = service.changes();
        let new = instance("1", "new", service_type);
        within("it is updated", SOON, registration.update(new)).await.expect("updated");
        within("it is disabled", SOON, registration.set_enabled(false)).await.expect("disabled");

        proxy.kill_session().await;
        proxy.cut().await;
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last: &String| !last.starts_with('+')) {
            seen.push(next(&mut changes).await);
        }
        assert_eq!(seen[seen.len() - 2..], ["-1 new disabled", "+1 new disabled"], "{service_type:?}");
        finds(&service, &["1 new disabled"]).await;
        let now = service.instances().get("1").expect("it is found");
        assert!(now.path() == path && now.stat().czxid > before.stat().czxid, "{service_type:?}: {now:?}");
        assert_ne!(client.session_id(), session);
        assert_eq!(fixture.observer.owner(&path).await, client.session_id(), "{service_type:?}");
        within("it is unregistered", SOON, registration.unregister()).await.expect("unregistered");
        finds(&service, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_deleted_by_hand_comes_back() {
    let fixture = Fixture::new("deleted").await;
    let client = fixture.client().await;
    let registration = register(&client, &fixture.path, dynamic("1", "one")).await;
    let service = service(&fixture.client().await, &fixture.path).await;
    let mut changes = service.changes();
    fixture.observer.delete(&registration.path()).await;
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["-1 one", "+1 one"]);
    finds(&service, &["1 one"]).await;
    assert_eq!(fixture.observer.owner(&registration.path()).await, client.session_id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_cut_off_keeps_its_instances_and_has_what_changed_after_the_reconnect() {
    let fixture = Fixture::new("cut").await;
    let there = fixture.client().await;
    let mut registrations = Vec::new();
    for id in ["kept", "lost", "updated"] {
        registrations.push(register(&there, &fixture.path, dynamic(id, "old")).await);
    }
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let session = client.session_id();
    let service = service(&client, &fixture.path).await;
    let mut changes = service.changes();
    let before = ["kept old", "lost old", "updated old"];
    finds(&service, &before).await;

    proxy.set(Fault::Refuse).await;
    states.wait_for(ConnectionState::Suspended).await;
    let age = service.instances().age();
    within("it is unregistered", SOON, registrations[1].unregister()).await.expect("unregistered");
    within("it is updated", SOON, registrations[2].update(dynamic("updated", "new"))).await.expect("updated");
    let new = register(&there, &fixture.path, dynamic("added", "new")).await;
    eventually("they are old", SOON, || async { !service.instances().is_fresh() }).await;
    assert!(service.instances().age() > age);
    assert!(service.instances().iter().map(|instance| words(&instance)).eq(before), "they stay");
    assert!(before.contains(&&*words(&service.next().expect("an instance"))));
    assert!(changes.next().now_or_never().is_none(), "nothing is reported meanwhile");

    proxy.set(Fault::Pass).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &String| last != "synced") {
        seen.push(next(&mut changes).await);
    }
    seen.sort();
    assert_eq!(seen, ["+added new", "-lost old", "synced", "~updated new"], "each once");
    finds(&service, &["added new", "kept old", "updated new"]).await;
    eventually("they are fresh", SOON, || async { service.instances().is_fresh() }).await;
    assert_eq!(client.session_id(), session, "the session was not lost");
    within("it is unregistered", SOON, new.unregister()).await.expect("unregistered");
    assert_eq!(next(&mut changes).await, "-added new");
}

/// The id of one that is killed: taken until its session has expired, then the next one has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_instance_of_a_killed_process_keeps_its_id_until_the_end_of_its_session_and_a_static_one_stays() {
    if let Some([server, base]) = ordered() {
        let client = connect(builder(&server, Duration::from_secs(2))).await;
        let _dynamic = register(&client, &base, dynamic("1", "first")).await;
        let _static = register(&client, &base, instance("2", "first", ServiceType::Static)).await;
        say(client.session_id().expect("a session"));
        // Until it is killed, or its parent has ended.
        let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().is_some());
        assert!(!order.await.expect("no panic"), "there is no order");
        return;
    }
    let fixture = Fixture::new("process").await;
    let test = concat!(
        module_path!(),
        "::the_instance_of_a_killed_process_keeps_its_id_until_the_end_of_its_session_and_a_static_one_stays"
    );
    let mut other = Elsewhere::start(test, &[&fixture.server.connect_string(), &fixture.path]);
    let their_session: i64 = other.word().await.parse().expect("a session");

    let client = fixture.client().await;
    let service = service(&client, &fixture.path).await;
    finds(&service, &["1 first", "2 first"]).await;
    let before = service.instances().get("1").expect("it is found");
    let taken = discovery(&client, &fixture.path);
    let taken = within("it is taken", SOON, taken.register(dynamic("1", "second"))).await.expect_err("it is taken");
    assert!(matches!(&taken, Error::Taken { path, session } if **path == *before.path() && *session == their_session));
    assert!(taken.to_string().contains(&format!("{their_session:#x}")), "{taken}");

    let mut changes = service.changes();
    let patient = ServiceDiscovery::builder(&client, &fixture.path).wait().build().expect("a discovery");
    let mut following = Box::pin(patient.register(dynamic("1", "second")));
    still_pending("the other session has the id", &mut following).await;
    assert_eq!(other.kill().await, [""; 0]);
    let registration = within("it follows", SOON, following).await.expect("registered");
    assert_eq!(fixture.observer.owner(&registration.path()).await, client.session_id());
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["-1 first", "+1 second"]);
    finds(&service, &["1 second", "2 first"]).await;

    let adopted = register(&client, &fixture.path, instance("2", "second", ServiceType::Static)).await;
    finds(&service, &["1 second", "2 second"]).await;
    within("it is unregistered", SOON, adopted.unregister()).await.expect("unregistered");
    finds(&service, &["1 second"]).await;
}
