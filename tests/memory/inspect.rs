//! Lines of contenders as an operator sees them.

use std::time::Duration;

use zookeeper_recipes::inspect::{self, Deadlock, Line, Owner, Place, Role};
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard, revoke};
use zookeeper_recipes::queue::{DistributedQueue, RawBytes};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, requests, two_nodes, within};

fn mutex(client: &Client, path: &str, data: &str) -> InterProcessMutex {
    InterProcessMutex::builder(client, path).data(data).build().expect("a good path")
}

/// Starts to wait for a lock, and returns once its node is there.
async fn waits(server: &TestingServer, client: &Client, path: &str) -> tokio::task::JoinHandle<MutexGuard> {
    let nodes = server.children(path).len();
    let mutex = mutex(client, path, "waiting");
    let waiting = tokio::spawn(async move { mutex.acquire().await.expect("held") });
    within("it has a place", SOON, server.until(|| server.children(path).len() > nodes)).await;
    waiting
}

/// Waits until nothing is under way: under the paused clock, nothing that begins earlier takes that long. All who wait
/// have armed their watches then.
pub(crate) async fn quiet() {
    tokio::time::sleep(SOON).await;
}

/// How long a request of an operator with a slow connection takes, and as long its answer.
pub(crate) const ONE_WAY: Duration = Duration::from_millis(100);

/// Returns once so many of these requests have been sent and served. Their answers are under way then.
pub(crate) async fn served(server: &TestingServer, what: Operation, count: usize) {
    within("it asks", SOON * 5, server.until(|| sent(server, what) == count)).await;
    tokio::time::sleep(ONE_WAY + ONE_WAY / 2).await;
}

fn sent(server: &TestingServer, what: Operation) -> usize {
    requests(server).into_iter().filter(|&sent| sent == what).count()
}

fn owners(line: &Line) -> impl Iterator<Item = &Owner> {
    line.places.iter().map(|place| place.owner.as_ref().expect("it is readable"))
}

/// The circles; all is readable.
async fn circles(client: &Client, path: &str) -> Vec<Deadlock> {
    let found = inspect::deadlocks(client, path).await.expect("read");
    assert_eq!(found.denied, [""; 0]);
    found.found
}

fn sessions<'a>(places: impl Iterator<Item = &'a Place>) -> Vec<i64> {
    places.filter_map(Place::session_id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_mutex_with_one_that_holds_and_two_that_wait() {
    let server = TestingServer::start();
    let [one, two, three] = [server.client().await, server.client().await, server.client().await];
    let [one, two, three] = [one, two, three].map(|client| client.expect("a client"));
    let held = mutex(&one, "/app/lock", "host-1").acquire().await.expect("held");
    let second = waits(&server, &two, "/app/lock").await;
    let third = waits(&server, &three, "/app/lock").await;
    server.create_by_hand("/app/lock/note", "", CreateMode::Persistent).expect("a node");
    quiet().await;
    let watches = server.watches();
    server.clear_records();

    let line = inspect::line(&one, "/app/lock").await.expect("the line");
    assert_eq!(requests(&server), [Operation::List, Operation::GetData, Operation::GetData, Operation::GetData]);
    assert_eq!(server.watches(), watches, "those of the waiters");
    assert_eq!((line.path.as_str(), &line.others[..]), ("/app/lock", &["note".to_owned()][..]));
    let ids = [&one, &two, &three].map(|client| client.session_id().expect("a session"));
    assert_eq!(sessions(line.places.iter()), ids);
    let [first, middle, last] = &line.places[..] else { panic!("three places: {line}") };
    let owner = first.owner.as_ref().expect("it is readable");
    assert_eq!((first.path.as_str(), owner.fencing_token), (held.node_path(), held.fencing_token()));
    assert_eq!((first.role, first.number, &owner.data[..]), (Role::Lock, Some(0), &b"host-1"[..]));
    assert_eq!((first.waits_for.as_ref(), middle.waits_for.as_ref()), (None, Some(&first.path)));
    assert_eq!(last.waits_for.as_ref(), Some(&middle.path));
    assert_eq!((line.holders().count(), line.waiting().count()), (1, 2));
    assert!(owners(&line).all(|owner| !owner.is_orphan() && !owner.is_revoked()));

    revoke(&two, held.node_path()).await.expect("it is asked to");
    let line = inspect::line(&three, "/app/lock").await.expect("the line");
    assert!(owners(&line).next().is_some_and(Owner::is_revoked));
    held.release().await.expect("it was held");
    let second = within("it holds", SOON, second).await.expect("no panic");
    let line = inspect::line(&three, "/app/lock").await.expect("the line");
    assert_eq!(sessions(line.holders()), [ids[1]]);
    second.release().await.expect("it was held");
    within("it holds", SOON, third).await.expect("no panic").release().await.expect("it was held");
    let line = inspect::line(&three, "/app/lock").await.expect("the line");
    assert_eq!(
        (line.places.len(), line.sequence_numbers_left),
        (0, i32::MAX as u32 - 4),
        "three contenders, and a note"
    );
}

#[tokio::test(start_paused = true)]
async fn readers_hold_together_and_a_latch_leads() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let lock = InterProcessReadWriteLock::new(&client, "/app/rw").expect("a good path");
    let readers = [lock.read().acquire().await.expect("reads"), lock.read().acquire().await.expect("reads")];
    let writer = lock.write();
    let writing = tokio::spawn(async move { drop(writer.acquire().await) });
    let latch = LeaderLatch::builder(&client, "/app/leader").id("me").start().expect("a latch");
    latch.wait_for_leadership().await.expect("it leads");
    within("it waits", SOON, server.until(|| server.children("/app/rw").len() == 3)).await;

    let found = inspect::lines(&client, "/app").await.expect("the lines");
    assert_eq!(found.denied, [""; 0]);
    let [leader, rw] = &found.lines[..] else { panic!("two lines: {found:?}") };
    assert_eq!((leader.path.as_str(), rw.path.as_str()), ("/app/leader", "/app/rw"));
    assert_eq!(leader.places[0].role, Role::Candidate);
    assert_eq!(owners(leader).map(|owner| &owner.data[..]).collect::<Vec<_>>(), [b"me"]);
    assert_eq!(
        rw.places.iter().map(|place| place.role).collect::<Vec<_>>(),
        [Role::Reader, Role::Reader, Role::Writer]
    );
    let tokens: Vec<_> = owners(rw).take(rw.holders().count()).map(|owner| owner.fencing_token).collect();
    assert_eq!(tokens, readers.each_ref().map(|reader| reader.fencing_token()));
    assert_eq!(rw.places[2].waits_for.as_ref(), Some(&rw.places[1].path));
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn three_sessions_that_wait_for_each_other_are_told_with_their_circle() {
    let server = TestingServer::start();
    let mut clients = Vec::new();
    let mut held = Vec::new();
    for path in ["/app/a", "/app/deep/b", "/app/c"] {
        let client = server.client().await.expect("a client");
        held.push(mutex(&client, path, "").acquire().await.expect("held"));
        clients.push(client);
    }
    let operator = server.client().await.expect("a client");
    let first = waits(&server, &clients[0], "/app/deep/b").await;
    let second = waits(&server, &clients[1], "/app/c").await;
    assert_eq!(circles(&operator, "/").await, [], "the third waits for none yet");
    let third = waits(&server, &clients[2], "/app/a").await;

    let found = circles(&operator, "/").await;
    let [deadlock] = &found[..] else { panic!("one circle: {found:?}") };
    let ids: Vec<_> = clients.iter().map(|client| client.session_id().expect("a session")).collect();
    let mut circle: Vec<_> = deadlock.waits.iter().map(|wait| (wait.session_id, wait.owner_id)).collect();
    circle.sort_unstable();
    let mut expected = vec![(ids[0], ids[1]), (ids[1], ids[2]), (ids[2], ids[0])];
    expected.sort_unstable();
    assert_eq!(circle, expected);
    for guard in &held {
        assert!(deadlock.nodes().any(|node| node == guard.node_path()), "{deadlock}");
    }
    assert_eq!(circles(&operator, "/app/deep").await, [], "one of the lines has no circle");

    // The third one gives up.
    third.abort();
    within("its node is gone", SOON, server.until(|| server.children("/app/a").len() == 1)).await;
    assert_eq!(circles(&operator, "/").await, []);
    first.abort();
    second.abort();
}

/// Their names are those of places.
#[tokio::test(start_paused = true)]
async fn directories_of_any_name_are_looked_into_also_for_a_namespaced_client() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).namespace("tenant").connect().await.expect("a client");
    for path in ["/app/lock-1", "/app/shard-lock-7/inner", "/app/plain"] {
        mutex(&client, path, "").acquire().await.expect("held").release().await.expect("it was held");
        let prefix = format!("{path}/x-lock-");
        client.create(&prefix, "", CreateMode::EphemeralSequential).await.expect("created");
    }
    for path in ["/app", "/"] {
        let found = inspect::lines(&client, path).await.expect("the lines");
        let paths: Vec<_> = found.lines.iter().map(|line| line.path.as_str()).collect();
        assert_eq!(paths, ["/app/lock-1", "/app/plain", "/app/shard-lock-7/inner"]);
        assert!(
            found.lines.iter().all(|line| line.holders().count() == 1 && line.places[0].path.starts_with(&line.path))
        );
    }
    let line = inspect::line(&client, "/app").await.expect("the line");
    assert_eq!((line.places.len(), line.others.len()), (0, 3), "they have children: {line}");
}

/// The list shows a writer, and its read finds none.
#[tokio::test(start_paused = true)]
async fn a_writer_that_becomes_a_reader_between_the_list_and_the_read_holds() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let lock = InterProcessReadWriteLock::new(&client, "/rw").expect("a good path");
    let writes = lock.write().acquire().await.expect("it writes");
    let writer = lock.write();
    let waiting = tokio::spawn(async move { drop(writer.acquire().await) });
    within("it waits", SOON, server.until(|| server.children("/rw").len() == 2)).await;
    quiet().await;
    let operator = server.client().await.expect("a client");
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::line(&operator, "/rw").await });
    served(&server, Operation::List, 1).await;
    let reads = writes.downgrade().await.expect("it reads now");
    let line = within("it has looked", SOON * 5, looking).await.expect("no panic").expect("the line");
    let holders: Vec<_> = line.holders().map(|place| (place.role, place.path.as_str())).collect();
    assert_eq!(holders, [(Role::Reader, reads.node_path())]);
    assert_eq!(line.waiting().count(), 1);
    waiting.abort();
}

/// A line is read again, as a writer has disappeared, and its directory is gone by then.
#[tokio::test(start_paused = true)]
async fn a_directory_that_disappears_meanwhile_does_not_end_the_search() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    server.create_by_hand("/app", "", CreateMode::Persistent).expect("a node");
    let lock = InterProcessReadWriteLock::new(&client, "/app/rw").expect("a good path");
    let writes = lock.write().acquire().await.expect("it writes");
    let held = mutex(&client, "/app/lock", "").acquire().await.expect("held");
    quiet().await;
    let operator = server.client().await.expect("a client");
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::lines(&operator, "/app").await });
    served(&server, Operation::List, 3).await;
    writes.release().await.expect("it was held");
    server.delete_by_hand("/app/rw").expect("it is there");
    let found = within("it has looked", SOON * 5, looking).await.expect("no panic").expect("the lines");
    let paths: Vec<_> = found.lines.iter().map(|line| line.path.as_str()).collect();
    assert_eq!((paths, found.denied), (vec!["/app/lock"], Vec::new()));
    assert_eq!(sent(&server, Operation::List), 4, "the directory was to be listed again");
    held.release().await.expect("it was held");
}

/// Two sessions wait for each other twice, and one of the circles ends while it is looked at.
#[tokio::test(start_paused = true)]
async fn a_circle_that_ends_does_not_hide_another_one_of_its_sessions() {
    let server = TestingServer::start();
    let [one, two] = [server.client().await.expect("a client"), server.client().await.expect("a client")];
    let mut tasks = Vec::new();
    let mut held = Vec::new();
    for (first, second) in [("/a", "/b"), ("/c", "/d")] {
        held.push(mutex(&one, first, "").acquire().await.expect("held"));
        held.push(mutex(&two, second, "").acquire().await.expect("held"));
        tasks.push(waits(&server, &one, second).await);
        tasks.push(waits(&server, &two, first).await);
    }
    let operator = server.client().await.expect("a client");
    quiet().await;
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::deadlocks(&operator, "/").await });
    served(&server, Operation::GetData, 8).await;
    // Of the circle that comes first.
    tasks.remove(0).abort();
    let found = within("it has looked", SOON * 5, looking).await.expect("no panic").expect("read").found;
    let [deadlock] = &found[..] else { panic!("one circle: {found:?}") };
    assert_eq!(deadlock.waits.len(), 2);
    assert!(deadlock.nodes().all(|node| !node.starts_with("/b/")), "{deadlock}");
    assert_eq!(server.children("/b").len(), 1, "the waiter is gone");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Between the reads of the lines and the second look.
#[tokio::test(start_paused = true)]
async fn a_circle_that_is_gone_at_the_second_look_is_not_told() {
    let server = TestingServer::start();
    let [one, two] = [server.client().await.expect("a client"), server.client().await.expect("a client")];
    let held = mutex(&one, "/a", "").acquire().await.expect("held");
    let other = mutex(&two, "/b", "").acquire().await.expect("held");
    let (first, second) = (waits(&server, &one, "/b").await, waits(&server, &two, "/a").await);
    let operator = server.client().await.expect("a client");
    quiet().await;
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::deadlocks(&operator, "/").await });
    served(&server, Operation::GetData, 4).await;
    assert_eq!(sent(&server, Operation::Exists), 0, "the second look comes later");
    other.release().await.expect("it was held");
    let found = within("it has looked", SOON, looking).await.expect("no panic").expect("read");
    assert_eq!(sent(&server, Operation::Exists), 4);
    assert_eq!(found.to_string(), "no deadlock");
    within("it holds", SOON, first).await.expect("no panic").release().await.expect("it was held");
    held.release().await.expect("it was held");
    within("it holds", SOON, second).await.expect("no panic").release().await.expect("it was held");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_told() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let held = mutex(&client, "/app/lock", "mine").acquire().await.expect("held");
    server.create_by_hand("/app/secret", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/app/secret/lock", "", CreateMode::Persistent).expect("a node");
    server.deny(held.node_path());
    let line = inspect::line(&client, "/app/lock").await.expect("the line");
    assert_eq!((line.places[0].path.as_str(), line.places[0].number), (held.node_path(), Some(0)));
    assert_eq!((line.places[0].owner.as_ref(), line.places[0].session_id()), (None, None));
    let found = inspect::lines(&client, "/app").await.expect("the lines");
    assert_eq!(found.denied, [held.node_path()]);
    let found = inspect::deadlocks(&client, "/app").await.expect("read");
    assert_eq!(found.to_string(), format!("no deadlock\nnot readable: {}", held.node_path()));
    server.allow(held.node_path());
    assert_eq!(circles(&client, "/app").await, []);

    server.deny("/app/secret");
    let found = inspect::lines(&client, "/app").await.expect("the lines");
    assert_eq!((found.lines.len(), &found.denied[..]), (1, &["/app/secret".to_owned()][..]));
    assert_eq!(inspect::deadlocks(&client, "/app").await.expect("read").denied, ["/app/secret"]);
    let error = inspect::line(&client, "/app/secret").await.expect_err("it may not be listed");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}

#[tokio::test(start_paused = true)]
async fn paths_without_a_line() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    for path in ["/nothing", "nothing", "/a//b", ""] {
        let kind = if path == "/nothing" { ErrorKind::NoNode } else { ErrorKind::InvalidPath };
        let error = inspect::line(&client, path).await.expect_err("no line");
        assert_eq!(error.kind(), kind, "{path:?}: {error}");
        assert_eq!(inspect::lines(&client, path).await.expect_err("no lines").kind(), kind, "{path:?}");
        assert_eq!(inspect::deadlocks(&client, path).await.expect_err("no lines").kind(), kind, "{path:?}");
    }
    server.create_by_hand("/empty", "", CreateMode::Persistent).expect("a node");
    let line = inspect::line(&client, "/empty").await.expect("the line");
    assert_eq!((line.places.len(), line.others.len()), (0, 0));
    assert_eq!(line.to_string(), "/empty: 0 hold, 0 wait, 2147483647 numbers left");
    assert_eq!(inspect::lines(&client, "/empty").await.expect("the lines").lines, []);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_session_is_an_orphan_and_the_end_of_the_counter_is_told() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    server.create_by_hand("/lock", "", CreateMode::Persistent).expect("a node");
    server.set_sequence("/lock", i32::MAX - 3).expect("it is there");
    let nodes = two_nodes(&server, "/lock", "lock-");
    let line = inspect::line(&client, "/lock").await.expect("the line");
    assert_eq!(line.places.iter().map(|place| &place.path).collect::<Vec<_>>(), nodes.iter().collect::<Vec<_>>());
    assert!(owners(&line).all(Owner::is_orphan));
    assert_eq!(line.sequence_numbers_left, 1);
    two_nodes(&server, "/lock", "lock-");
    let line = inspect::line(&client, "/lock").await.expect("the line");
    assert_eq!(
        (line.sequence_numbers_left, line.places[2].number, line.places[3].number),
        (0, Some(2_147_483_646), None)
    );
}

#[tokio::test(start_paused = true)]
async fn the_items_of_a_queue_are_not_read_and_the_line_of_a_semaphore_is() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let producer = DistributedQueue::builder(&client, "/app/queue", RawBytes).build().expect("a queue").producer();
    for item in ["a", "b", "c"] {
        producer.put(item.as_bytes().to_vec()).await.expect("put");
    }
    let semaphore = InterProcessSemaphore::new(&client, "/app/permits", 1).expect("a good path");
    let held = semaphore.acquire(1).await.expect("a permit");
    let waiting = tokio::spawn(async move { drop(semaphore.acquire(1).await) });
    within("it waits", SOON, server.until(|| server.children("/app/permits/locks").len() == 1)).await;
    quiet().await;
    server.clear_records();
    let found = inspect::lines(&client, "/app").await.expect("the lines");
    assert_eq!(found.lines.iter().map(|line| line.path.as_str()).collect::<Vec<_>>(), ["/app/permits/locks"]);
    // The path, the queue, its producers and the node of one, the semaphore, its two directories and both leases.
    assert_eq!(sent(&server, Operation::List), 1 + 3 + 5, "{:?}", requests(&server));
    waiting.abort();
    drop(held);
}
