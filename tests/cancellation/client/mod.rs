//! Plain operations and transactions.

pub(crate) mod life;

use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use zookeeper_recipes::{Acl, Client, CreateMode, Error, ErrorKind, WatchEvent, WatchEvents, WatchMode};

use crate::harness::{Run, cases};

cases! {
    get: "Client::get", at least 90 drops, 60 faults;
    exists: "Client::exists", at least 90 drops, 60 faults;
    multi_get: "Client::multi_get", at least 90 drops, 60 faults;
    children: "Client::children", at least 80 drops, 60 faults;
    acl: "Client::acl", at least 80 drops, 60 faults;
    set: "Client::set", at least 70 drops, 40 faults;
    create: "Client::create", at least 70 drops, 40 faults;
    create_sequential: "Client::create", at least 70 drops, 40 faults;
    create_containers: "Client::create_containers", at least 410 drops, 320 faults;
    delete: "Client::delete", at least 90 drops, 70 faults;
    delete_of_a_version: "Client::delete", at least 70 drops, 40 faults;
    delete_recursive: "Client::delete_recursive", at least 70 drops, 40 faults;
    watch: "WatchEvents::next", at least 40 drops, 20 faults;
    watch_of_the_first: "WatchEvents::next", at least 40 drops, 20 faults;
    commit: "Transaction::commit", at least 70 drops, 40 faults;
    commit_with_parents: "Transaction::commit", at least 70 drops, 40 faults;
}

/// Checks that a write that was polled to its end either succeeded or has an unknown outcome.
fn done_or_unknown<T>(outcome: Option<Result<T, Error>>) -> Option<T> {
    match outcome? {
        Ok(value) => Some(value),
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => None,
        Err(error) => panic!("a write that failed for another reason than the loss of its reply: {error}"),
    }
}

async fn get(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    if let Some(read) = run.cut(client.get("/node")).await.done() {
        assert_eq!(read.expect("a read is repeated").0, b"");
    }
    run.is_silent().await;
}

async fn exists(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    if let Some(found) = run.cut(client.exists("/node")).await.done() {
        assert!(found.expect("a read is repeated").is_some());
    }
    run.is_silent().await;
}

async fn multi_get(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    if let Some(read) = run.cut(client.multi_get(["/node", "/none"])).await.done() {
        let read = read.expect("a read is repeated").into_iter();
        let read: Vec<_> = read.map(|read| read.map(|(data, _)| data).map_err(|error| error.kind())).collect();
        assert_eq!(read, [Ok(Vec::new()), Err(ErrorKind::NoNode)]);
    }
    run.is_silent().await;
}

async fn children(run: &mut Run) {
    run.directory("/node");
    run.directory("/node/child");
    let client = run.client().await;
    if let Some(listed) = run.cut(client.children("/node")).await.done() {
        assert_eq!(listed.expect("a read is repeated"), ["child"]);
    }
    run.is_silent().await;
}

async fn acl(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    if let Some(read) = run.cut(client.acl("/node")).await.done() {
        assert_eq!(read.expect("a read is repeated"), [Acl::anyone_all()]);
    }
    run.is_silent().await;
}

/// The write may have happened or not, but only once and as a whole.
async fn set(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    let done = done_or_unknown(run.cut(client.set("/node", "new", None)).await.done());
    run.is_silent().await;
    let (data, stat) = client.get("/node").await.expect("the node is there");
    match stat.version {
        0 => assert!(data.is_empty() && done.is_none()),
        version => assert!(version == 1 && data == b"new" && run.is_polled(), "set {version} times: {data:?}"),
    }
    client.set("/node", "newer", Some(stat.version)).await.expect("another set");
}

async fn create(run: &mut Run) {
    let client = run.client().await;
    let done = done_or_unknown(run.cut(client.create("/node", "data", CreateMode::Persistent)).await.done());
    run.is_silent().await;
    match run.server().get("/node") {
        Some(data) => {
            assert!(data == b"data" && run.is_polled(), "created as a whole, by a poll: {data:?}");
            client.delete("/node", None).await.expect("it is there");
        }
        None => assert_eq!(done, None),
    }
}

async fn create_sequential(run: &mut Run) {
    run.directory("/line");
    let client = run.client().await;
    let create = client.create("/line/n-", "", CreateMode::EphemeralSequential);
    let done = done_or_unknown(run.cut(create).await.done());
    run.is_silent().await;
    let created = run.server().children("/line");
    assert!(created.len() <= usize::from(run.is_polled()), "at most one: {created:?}");
    if let Some(path) = done.filter(|_| run.keeps_its_session()) {
        assert_eq!([path.trim_start_matches("/line/")], *created);
    }
    for name in created {
        client.delete(&format!("/line/{name}"), None).await.expect("it is there");
    }
}

/// Some of the nodes may have been created, none without its parent; the next call creates the others.
async fn create_containers(run: &mut Run) {
    let client = run.client().await;
    if let Some(created) = run.cut(client.create_containers("/a/b/c")).await.done() {
        created.expect("it is repeated");
        assert_eq!(run.server().paths(), ["/a", "/a/b", "/a/b/c"]);
    }
    run.is_silent().await;
    let all = ["/a", "/a/b", "/a/b/c"];
    assert_eq!(run.server().paths(), all[..run.server().paths().len()]);
    assert!(run.is_polled() || run.server().paths().is_empty());
    client.create_containers("/a/b/c").await.expect("existing nodes are left alone");
    assert_eq!(run.server().paths(), all);
    for path in all.iter().rev() {
        client.delete(path, None).await.expect("it is empty");
    }
}

async fn delete(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    // The client then knows that the node was not created since.
    client.exists("/node").await.expect("an answer");
    let outcome = run.cut(client.delete("/node", None)).await.done();
    run.is_silent().await;
    let is_repeated = outcome.is_some() && run.keeps_its_session();
    let done = done_or_unknown(outcome);
    assert!(done.is_some() || !is_repeated);
    is_deleted(run, &client, done).await;
}

async fn delete_of_a_version(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    let done = done_or_unknown(run.cut(client.delete("/node", Some(0))).await.done());
    run.is_silent().await;
    is_deleted(run, &client, done).await;
}

/// Checks that the node is gone if the call reported so; otherwise it may be gone.
async fn is_deleted(run: &Run, client: &Client, done: Option<()>) {
    match client.delete("/node", None).await {
        Ok(()) => assert_eq!(done, None),
        Err(error) => assert!(error.kind() == ErrorKind::NoNode && run.is_polled(), "{error}"),
    }
}

/// Lower nodes are deleted first, and the next call deletes the others.
async fn delete_recursive(run: &mut Run) {
    let all = ["/tree", "/tree/a", "/tree/a/b"];
    all.iter().for_each(|path| run.directory(path));
    let client = run.client().await;
    if let Some(done) = run.cut(client.delete_recursive("/tree")).await.done() {
        done.expect("it is repeated");
        assert!(run.server().paths().is_empty(), "{:?}", run.server().paths());
    }
    run.is_silent().await;
    assert_eq!(run.server().paths(), all[..run.server().paths().len()]);
    match client.delete_recursive("/tree").await {
        Ok(()) => {}
        Err(error) => assert!(error.kind() == ErrorKind::NoNode && run.is_polled(), "{error}"),
    }
    assert!(run.server().paths().is_empty(), "{:?}", run.server().paths());
}

/// The next call returns what was not received; after a fault, it may report that everything must be read again.
async fn watch(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    let mut events = client.watch("/node", WatchMode::Persistent).expect("a good path");
    assert_eq!(events.next().await, Some(Ok(WatchEvent::ReadAgain)));
    run.later(&client, Duration::from_millis(30), |server| {
        server.set_data_by_hand("/node", "new").expect("it is there");
    });
    let first = run.cut(events.next()).await.done().flatten();
    is_reported(first, events).await;
}

async fn watch_of_the_first(run: &mut Run) {
    run.directory("/node");
    let client = run.client().await;
    let mut events = client.watch("/node", WatchMode::PersistentRecursive).expect("a good path");
    let first = run.cut(events.next()).await.done().flatten();
    run.is_silent().await;
    is_reported(first, events).await;
}

async fn is_reported(first: Option<Result<WatchEvent, Error>>, events: WatchEvents) {
    let mut seen: Vec<_> = first.into_iter().collect();
    seen.extend(events.take_until(sleep(Duration::from_secs(15))).collect::<Vec<_>>().await);
    let changed = WatchEvent::DataChanged { path: "/node".to_owned() };
    assert!(seen.contains(&Ok(changed)) || seen.contains(&Ok(WatchEvent::ReadAgain)), "{seen:?}");
    assert!(seen.iter().all(Result::is_ok), "{seen:?}");
}

/// The transaction is carried out as a whole, or not at all.
async fn commit(run: &mut Run) {
    run.directory("/counter");
    let client = run.client().await;
    let both = client.transaction().set_data("/counter", "1", None).create("/log", "1", CreateMode::Persistent);
    let done = done_or_unknown(run.cut(both.commit()).await.done());
    run.is_silent().await;
    let counted = run.server().stat("/counter").is_some_and(|stat| stat.version == 1);
    let logged = run.server().get("/log").is_some();
    assert_eq!(counted, logged, "one without the other");
    assert!(if run.is_polled() { logged || done.is_none() } else { !logged });
    if logged {
        client.transaction().delete("/log", Some(0)).commit().await.expect("another transaction");
    }
}

/// The nodes above are created with the others, or not at all.
async fn commit_with_parents(run: &mut Run) {
    let client = run.client().await;
    let create = client.transaction().create("/a/b/c", "1", CreateMode::Persistent).create_parents();
    done_or_unknown(run.cut(create.commit()).await.done());
    run.is_silent().await;
    let mut left = run.server().paths();
    assert!(left.is_empty() || left == ["/a", "/a/b", "/a/b/c"], "{left:?}");
    left.reverse();
    for path in left {
        client.delete(&path, None).await.expect("it is empty");
    }
}
