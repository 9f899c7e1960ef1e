//! Lines of contenders on real ZooKeeper servers, as an operator sees them.

use std::time::{Duration, SystemTime};

use zookeeper_recipes::inspect::{self, Role};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{Fixture, SOON, within};
use crate::support::eventually;

async fn acquire(client: &Client, path: &str) -> zookeeper_recipes::mutex::MutexGuard {
    let mutex = InterProcessMutex::new(client, path).expect("a good path");
    within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_sessions_that_wait_for_each_other_are_told_with_their_circle() {
    let fixture = Fixture::with_directory("deadlock").await;
    let paths = ["a", "deep/b", "c"].map(|name| format!("{}/{name}", fixture.path));
    let mut clients = Vec::new();
    let mut held = Vec::new();
    for path in &paths {
        let client = fixture.client().await;
        held.push(acquire(&client, path).await);
        clients.push(client);
    }
    let operator = fixture.client().await;
    let circles = async || inspect::deadlocks(&operator, &fixture.path).await.expect("read").found;
    assert_eq!(circles().await, []);
    let mut waiting = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let mutex = InterProcessMutex::new(client, &paths[(at + 1) % 3]).expect("a good path");
        waiting.push(tokio::spawn(async move { mutex.acquire().await.expect("it is acquired") }));
    }
    eventually("the circle is found", SOON, || async { circles().await.len() == 1 }).await;
    let deadlock = circles().await.pop().expect("a circle");
    let mut ids: Vec<_> = clients.iter().map(|client| client.session_id().expect("a session")).collect();
    let mut told: Vec<_> = deadlock.waits.iter().map(|wait| wait.session_id).collect();
    ids.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, ids, "{deadlock}");
    assert!(held.iter().all(|guard| deadlock.nodes().any(|node| node == guard.node_path())), "{deadlock}");
    // By the clock of the server, which is that of this machine.
    let age = SystemTime::now().duration_since(deadlock.since()).unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}");

    // One of them is stopped, as the guide says.
    let stopped = held.remove(0);
    waiting.remove(0).abort();
    within("it is closed", SOON, clients[0].close()).await.expect("it is closed");
    assert!(!stopped.is_held());
    assert_eq!(circles().await, []);
    let last = within("it has its turn", SOON, waiting.remove(1)).await.expect("no panic");
    assert!(last.is_held());
}

/// Names as Curator and kazoo create them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_with_nodes_of_other_libraries_and_the_numbers_that_are_left() {
    let fixture = Fixture::with_directory("inspect").await;
    let (client, path) = (fixture.client().await, &fixture.path);
    let names = [
        "_c_8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01-__READ__",
        "8d2b5a0e6a864c3c8a273f1f5f4c9a01__rlock__",
        "_c_8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a02-__WRIT__",
        "8d2b5a0e6a864c3c8a273f1f5f4c9a02__lock__",
    ];
    let mut nodes = Vec::new();
    for name in names {
        let prefix = format!("{path}/{name}");
        nodes.push(client.create(&prefix, "host", CreateMode::EphemeralSequential).await.expect("created"));
    }
    client.create(&format!("{path}/note"), "", CreateMode::Persistent).await.expect("created");
    client.delete(&format!("{path}/note"), None).await.expect("deleted");
    let line = inspect::line(&client, path).await.expect("the line");
    assert_eq!(line.places.iter().map(|place| &place.path).collect::<Vec<_>>(), nodes.iter().collect::<Vec<_>>());
    let roles: Vec<_> = line.places.iter().map(|place| place.role).collect();
    assert_eq!(roles, [Role::Reader, Role::Reader, Role::Writer, Role::KazooLock]);
    assert_eq!((line.holders().count(), line.waiting().count()), (2, 2));
    for (place, node) in line.places.iter().zip(&nodes) {
        let owner = place.owner.as_ref().expect("it is readable");
        assert_eq!(Some(owner.fencing_token), fixture.observer.stat(node).await.map(|stat| stat.czxid));
        assert_eq!(Some(owner.session_id), client.session_id());
        assert_eq!(owner.data, b"host");
    }
    // The server tells the number of the next node.
    let next = client.create(&format!("{path}/lock-"), "", CreateMode::EphemeralSequential).await.expect("created");
    let number = i32::MAX as u32 - line.sequence_numbers_left;
    assert!(next.ends_with(&format!("-{number:010}")), "{next}, and {number} was expected");
}

/// Each recipe by the nodes that a server shows, and one that Curator creates.
#[cfg(all(feature = "semaphore", feature = "queue", feature = "double-barrier"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_recipes() {
    use zookeeper_recipes::inspect::{Entry, Recipe};
    use zookeeper_recipes::queue::{DistributedQueue, Utf8};
    use zookeeper_recipes::semaphore::InterProcessSemaphore;

    let fixture = Fixture::with_directory("tree").await;
    let (client, root) = (fixture.client().await, &fixture.path);
    let held = acquire(&client, &format!("{root}/lock")).await;
    let semaphore = InterProcessSemaphore::new(&client, format!("{root}/permits"), 2).expect("good options");
    let permit = within("a permit", SOON, semaphore.acquire(1)).await.expect("a permit");
    let queue = DistributedQueue::builder(&client, format!("{root}/queue"), Utf8).build().expect("a queue");
    let producer = queue.producer();
    within("it is put", SOON, producer.put("one")).await.expect("put");
    let delivery = within("an item", SOON, queue.consumer().take()).await.expect("an item");
    client.create(&format!("{root}/group"), "", CreateMode::Container).await.expect("created");
    client.create(&format!("{root}/group/m1"), "10.0.0.1", CreateMode::Ephemeral).await.expect("created");

    let tree = within("it has looked", SOON, inspect::tree(&client, root)).await.expect("the tree");
    let names: Vec<_> = tree.nodes[1..].iter().map(|node| node.name()).collect();
    assert_eq!(names, ["group", "lock", "permits", "queue"], "{tree}");
    let session = client.session_id();
    for node in &tree.nodes[1..] {
        let [recipe] = &node.recipes[..] else { panic!("one recipe: {tree}") };
        let is_expected = match recipe {
            Recipe::Group(group) => group.members.iter().map(Entry::session_id).eq([session]),
            Recipe::Line(line) => line.holders().map(|place| place.path.as_str()).eq([held.node_path()]),
            Recipe::Semaphore(semaphore) => semaphore.leases.iter().map(Entry::session_id).eq([session]),
            Recipe::Queue(queue) => {
                queue.depth == 1
                    && queue.producers.len() == 1
                    && queue.claims.iter().map(Entry::name).eq([delivery.name()])
            }
            _ => false,
        };
        assert!(is_expected, "{tree}");
    }
    drop(permit);
}
