//! Readers together, writers alone, and the other participants on the same path.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::join_all;

use super::fixture::{Fixture, SOON, lock, name_of, reading, still_pending, within, writing};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_on_many_tasks_read_together_and_write_alone() {
    let fixture = Fixture::with_directory("read-write").await;
    // The number of readers, or -1 for a writer.
    let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let clients = join_all((0..8).map(|_| fixture.client())).await;
    let tasks = (0..32).map(|number| {
        let lock = lock(&clients[number % clients.len()], &fixture.path);
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        tokio::spawn(async move {
            for round in 0..8 {
                if (number + round) % 4 == 0 {
                    let guard = lock.write().acquire().await.expect("it writes");
                    assert_eq!(inside.swap(-1, Ordering::SeqCst), 0, "alone");
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    assert_eq!(inside.swap(0, Ordering::SeqCst), -1, "alone");
                    guard.release().await.expect("it was held");
                } else {
                    let guard = lock.read().acquire().await.expect("it reads");
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers > 0, "no writer");
                    most.fetch_max(readers, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("it was held");
                }
            }
        })
    });
    for done in within("all have had it", SOON * 3, join_all(tasks)).await {
        done.expect("no panic");
    }
    assert!(most.load(Ordering::SeqCst) > 1, "readers were together");
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_are_curators_and_curators_count() {
    let fixture = Fixture::with_directory("read-write-names").await;
    let lock = lock(&fixture.client().await, &fixture.path);
    let reader = reading(&lock).await;
    let node = name_of(reader.node_path()).to_owned();
    assert!(node.starts_with("_c_") && &node[39..] == "-__READ__0000000000", "{node}");
    let stat = fixture.observer.stat(reader.node_path()).await.expect("it exists");
    assert_eq!(stat.czxid, reader.fencing_token());
    reader.release().await.expect("it was held");
    let writer = writing(&lock).await;
    assert_eq!(&name_of(writer.node_path())[39..], "-__WRIT__0000000001");
    writer.release().await.expect("it was held");

    // A Java service writes: its node was there first.
    let java = format!("{}/_c_11111111-2222-3333-4444-555555555555-__WRIT__0000000000", fixture.path);
    fixture.observer.create_ephemeral(&java, b"10.0.0.7").await;
    let read = lock.read();
    let mut waiting = Box::pin(read.acquire());
    still_pending("a Java service writes", &mut waiting).await;
    assert_eq!(lock.participants().await.expect("an answer")[0], java);
    // It downgrades as Curator does: both nodes exist for a while, with the same number.
    let reads = java.replace("__WRIT__", "__READ__").replace("_c_1", "_c_2");
    fixture.observer.create_ephemeral(&reads, b"10.0.0.7").await;
    still_pending("it still has the node of a writer", &mut waiting).await;
    fixture.observer.delete(&java).await;
    let reader = within("it reads beside the Java service", SOON, waiting).await.expect("it reads");
    let write = lock.write();
    let mut waiting = Box::pin(write.acquire());
    still_pending("two read", &mut waiting).await;
    reader.release().await.expect("it was held");
    still_pending("the Java service reads", &mut waiting).await;
    fixture.observer.delete(&reads).await;
    let writer = within("it writes", SOON, waiting).await.expect("it writes");
    writer.release().await.expect("it was held");
}
