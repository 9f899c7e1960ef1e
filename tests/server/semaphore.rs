//! The recipe `InterProcessSemaphore` on real ZooKeeper servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::semaphore::{Error, InterProcessSemaphore};
use zookeeper_recipes::{Client, CreateMode, ErrorKind, ErrorPolicy};

use crate::fixture::{A_WHILE, Fixture, SOON, within};
use crate::support::unique_path;

fn semaphore(client: &Client, fixture: &Fixture, permits: u32) -> InterProcessSemaphore {
    InterProcessSemaphore::builder(client, &*fixture.path).permits(permits).data("ours").build().expect("good")
}

/// The names of the nodes in the line, and of the leases.
async fn nodes(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let [line, leases] = ["locks", "leases"].map(|name| format!("{}/{name}", fixture.path));
    (fixture.observer.children(&line).await, fixture.observer.children(&leases).await)
}

async fn leases_are(fixture: &Fixture, leases: usize) {
    let counted = async {
        loop {
            let (line, all) = nodes(fixture).await;
            if line.is_empty() && all.len() == leases {
                return;
            }
        }
    };
    within("there are so many leases", SOON, counted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_sees_the_nodes_of_curator() {
    let fixture = Fixture::new("semaphore-names").await;
    let client = fixture.client().await;
    let semaphore = semaphore(&client, &fixture, 2);
    let guard = within("they are free", SOON, semaphore.acquire(2)).await.expect("held");
    leases_are(&fixture, 2).await;
    for path in guard.node_paths() {
        let (data, stat) = fixture.observer.get(path).await.expect("it is there");
        assert_eq!(data, b"ours");
        assert_eq!(Some(stat.ephemeral_owner), client.session_id());
        let name = path.rsplit('/').next().expect("a name");
        let (uuid, number) = name.strip_prefix("_c_").and_then(|name| name.split_once("-lease-")).expect("protected");
        assert_eq!((uuid.len(), number.len()), (36, 10), "{name}");
    }
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "both are taken");
    let (line, leases) = nodes(&fixture).await;
    assert!(line.len() == 1 && line[0].starts_with("_c_") && line[0].contains("-lock-"), "{line:?}");
    assert_eq!(leases.len(), 3);
    guard.release().await.expect("they were held");
    let guard = within("they are free", SOON, waiting).await.expect("held");
    guard.release().await.expect("it was held");
    leases_are(&fixture, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_never_take_more_than_the_permits_and_all_get_their_turns() {
    const PERMITS: u32 = 4;
    let fixture = Fixture::with_directory("semaphore-turns").await;
    let taken = Arc::new(AtomicU32::new(0));
    let clients = join_all((0..6).map(|_| fixture.client())).await;
    let tasks = (0..12u32).map(|number| {
        let semaphore = semaphore(&clients[number as usize % clients.len()], &fixture, PERMITS);
        let taken = Arc::clone(&taken);
        tokio::spawn(async move {
            for turn in 0..10 {
                let wanted = 1 + (number + turn) % PERMITS;
                let guard = semaphore.acquire(wanted).await.expect("held");
                let now = taken.fetch_add(wanted, Ordering::SeqCst) + wanted;
                assert!(now <= PERMITS, "{now}");
                tokio::task::yield_now().await;
                assert!(guard.is_held());
                taken.fetch_sub(wanted, Ordering::SeqCst);
                guard.release().await.expect("they were held");
            }
        })
    });
    for done in within("all have had them", SOON * 3, join_all(tasks)).await {
        done.expect("no panic");
    }
    leases_are(&fixture, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_session_is_killed_is_told_and_its_fenced_write_is_refused() {
    let fixture = Fixture::with_directory("semaphore-killed").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(3), ErrorPolicy::Session).await;
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let guard = within("they are free", SOON, semaphore(&client, &fixture, 2).acquire(2)).await.expect("held");
    let write = client.transaction().check(&guard.fence()).set_data(&report, b"held", None);
    write.commit().await.expect("a holder writes");
    let other = semaphore(&fixture.client().await, &fixture, 2);
    let mut waiting = Box::pin(other.acquire(2));
    assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "both are taken");
    proxy.kill_session().await;
    let next = within("they are free again", SOON, waiting).await.expect("held");
    assert!(next.fencing_token() > guard.fencing_token());
    let late = client.transaction().check(&guard.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(
        matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced | ErrorKind::OutcomeUnknown),
        "{refused}"
    );
    proxy.cut().await;
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held());
    let error = within("it is over", SOON, guard.release()).await.expect_err("they were lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"held"[..]));
    next.release().await.expect("they were held");
    leases_are(&fixture, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_lowers_and_raises_the_number_of_permits() {
    let fixture = Fixture::with_directory("semaphore-count").await;
    let count = unique_path("count");
    let (client, operator) = (fixture.client().await, fixture.client().await);
    operator.create(&count, 2i32.to_be_bytes(), CreateMode::Persistent).await.expect("a new node");
    let builder = InterProcessSemaphore::builder(&client, &*fixture.path).permits_from(&*count);
    let semaphore = builder.build().expect("good paths");
    let first = within("it is free", SOON, semaphore.acquire(1)).await.expect("held");
    let second = within("it is free", SOON, semaphore.acquire(1)).await.expect("held");
    operator.set(&count, 1i32.to_be_bytes(), None).await.expect("it exists");
    first.release().await.expect("it was held");
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "one of one is taken");
    assert!(second.is_held());
    operator.set(&count, 2i32.to_be_bytes(), None).await.expect("it exists");
    let third = within("it is woken", SOON, waiting).await.expect("held");
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "two of two are taken");
    operator.delete(&count, None).await.expect("it exists");
    let error = within("it is told", SOON, waiting).await.expect_err("there is no count");
    assert_eq!(error.kind(), ErrorKind::NoNode, "{error}");
    assert!(second.is_held() && third.is_held(), "holders need no count");
    drop((second, third));
    leases_are(&fixture, 0).await;
}
