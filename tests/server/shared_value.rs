//! The recipes `SharedValue` and `SharedCount` on real ZooKeeper servers.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::shared_value::{Error, SharedCount, SharedValue, Utf8};
use zookeeper_recipes::{Client, ErrorKind, ErrorPolicy};

use crate::fixture::{Fixture, SOON, What, builder, connect, for_each_loss, lose, within};
use crate::support::{OpCode, eventually, unique_path};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);
/// The shortest session that the promises hold for.
const BLOCKED: Duration = Duration::from_secs(2);

async fn text(client: &Client, path: &str, seed: &str) -> SharedValue<String> {
    let starting = SharedValue::builder(client, path).decode(Utf8).seed(seed).start();
    within("it starts", SOON, starting).await.expect("it starts")
}

async fn count(client: &Client, path: &str) -> SharedCount {
    within("it starts", SOON, SharedCount::count(client, path).seed(0).start()).await.expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_the_bytes_of_the_value_in_a_persistent_node() {
    let fixture = Fixture::new("shared").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let path = format!("{}/deep/value", fixture.path);
    let value = text(&one, &path, "seed").await;
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"seed"[..]));
    assert_eq!(fixture.observer.owner(&path).await, Some(0));
    let other = text(&two, &path, "another seed").await;
    assert_eq!(*other.get().expect("a value"), "seed");
    value.set("written").await.expect("set");
    assert_eq!(*value.get().expect("a value"), "written");
    within("it is seen", SOON, other.wait_for(|now| now == "written")).await.expect("it is seen");
    fixture.observer.set_data(&path, b"foreign").await;
    assert_eq!(*within("it is synced", SOON, value.synced()).await.expect("synced"), "foreign");
    let count = count(&one, &format!("{}/deep/count", fixture.path)).await;
    count.set(258).await.expect("set");
    assert_eq!(fixture.observer.data(count.path()).await, Some(vec![0, 0, 1, 2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_cannot_be_read_is_an_error_until_it_can() {
    let fixture = Fixture::new("shared-chroot").await;
    let chroot = unique_path("chroot");
    fixture.observer.create_all(&chroot).await;
    let client = connect(builder(&format!("{}{chroot}", fixture.server.connect_string()), SESSION)).await;
    let value = text(&client, "/value", "seed").await;
    assert_eq!(value.last_error(), None);
    fixture.observer.delete(&format!("{chroot}/value")).await;
    fixture.observer.delete(&chroot).await;
    let fails = || async { value.last_error().is_some_and(|error| error.kind() == ErrorKind::NoNode) };
    eventually("the error is told", SOON, fails).await;

    fixture.observer.create_all(&format!("{chroot}/value")).await;
    within("it is read", SOON, value.wait_for(String::is_empty)).await.expect("it is read");
    eventually("the error is taken back", SOON, || async { value.last_error().is_none() }).await;
}

/// Of another client that writes too, the version would tell; here none does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_write_is_carried_out_once() {
    let fixture = Fixture::with_directory("shared-lost").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let path = format!("{}{}", fixture.path, unique_path("value"));
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let value = text(&client, &path, "a").await;
        let fault = lose(&proxy, what, OpCode::SetData, how);
        let updated = within("it is settled", SOON, value.update(|now| Some(format!("{now}b")))).await;
        assert!(fault.has_fired(), "{case}");
        assert_eq!(client.session_id(), session, "{case}: the session survived");
        match what {
            What::Request => assert_eq!(*updated.expect("known").expect("written"), "ab", "{case}"),
            What::Answer => assert!(matches!(updated, Err(Error::SameValue { version: 1, .. })), "{case}: {updated:?}"),
        }
        assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"ab"[..]), "{case}");
        within("it is seen", SOON, value.wait_for(|now| now == "ab")).await.expect("it is seen");

        let fault = lose(&proxy, what, OpCode::SetData, how);
        let set = within("it is settled", SOON, value.set("c")).await;
        assert!(fault.has_fired(), "{case}");
        assert_eq!(set.expect("known").version(), 2, "{case}: it is set, by whichever client");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_update_at_the_same_time_and_none_is_lost() {
    let fixture = Fixture::new("shared-many").await;
    let clients = join_all((0..6).map(|_| fixture.client())).await;
    let counts = join_all(clients.iter().map(|client| count(client, &fixture.path))).await;
    let updating = counts.iter().cloned().map(|count| {
        tokio::spawn(async move {
            for _ in 0..20 {
                count.update(|now| Some(now + 1)).await.expect("updated").expect("written");
            }
        })
    });
    for done in within("all are done", SOON * 3, join_all(updating)).await {
        done.expect("no panic");
    }
    assert_eq!(fixture.observer.data(&fixture.path).await, Some(120_i32.to_be_bytes().to_vec()));
    for count in &counts {
        within("it is seen", SOON, count.wait_for(|now| *now == 120)).await.expect("it is seen");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_survives_a_killed_session() {
    let fixture = Fixture::new("shared-killed").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let value = text(&client, &fixture.path, "a").await;
    proxy.kill_session().await;
    proxy.cut().await;
    fixture.observer.set_data(&fixture.path, b"b").await;
    within("it is seen", SOON, value.wait_for(|now| now == "b")).await.expect("it is seen");
    within("in the next session", SOON, value.set("c")).await.expect("set");
    assert_eq!(fixture.observer.data(&fixture.path).await.as_deref(), Some(&b"c"[..]));
}

/// As with an atomic number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_was_blocked_for_longer_than_the_session_goes_on() {
    let fixture = Fixture::with_directory("shared-blocked").await;
    let (path, servers) = (format!("{}/value", fixture.path), fixture.server.connect_string());
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let updated = runtime.block_on(async {
            let client = connect(builder(&servers, BLOCKED)).await;
            let value = text(&client, &path, "a").await;
            std::thread::sleep(BLOCKED + SESSION);
            value.set("b").await.expect("set in the next session");
            value.update(|now| Some(format!("{now}c"))).await.expect("updated").expect("written").value().clone()
        });
        // The test may have given up.
        let _ = done.send(updated);
    });
    let updated = within("it goes on", SOON + BLOCKED + SESSION, outcome).await.expect("no panic");
    assert_eq!(updated, "bc");
}
