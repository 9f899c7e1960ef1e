//! The locks of the crate zookeeper-client, whose code is not ours, on `listen`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use zookeeper::{Acls, Client, CreateMode, LockOptions, LockPrefix};
use zookeeper_recipes::testing::TestingServer;

/// Long enough for a slow machine; a hand-over that is missed waits longer.
const SOON: Duration = Duration::from_secs(20);

fn prefix() -> LockPrefix<'static> {
    LockPrefix::new_curator("/lock", "lock-").expect("a prefix")
}

async fn connect(hosts: &str) -> Client {
    let client = Client::connect(hosts).await.expect("a client");
    client.mkdir("/lock", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.expect("the directory");
    client
}

async fn take_turns(client: Client, inside: Arc<AtomicUsize>) {
    for _ in 0..5 {
        let options = LockOptions::new(Acls::anyone_all());
        let lock = client.lock(prefix(), b"", options).await.expect("the lock");
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
        tokio::time::sleep(Duration::from_millis(1)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(lock);
    }
}

#[tokio::test]
async fn a_lock_passes_among_several_clients() {
    let server = TestingServer::builder().servers(3).start();
    let listening = server.listen("127.0.0.1:0").expect("free ports");
    let hosts = listening.connect_string();
    let inside = Arc::new(AtomicUsize::new(0));
    let clients = join_all((0..4).map(|_| connect(&hosts))).await;
    let turns = clients.into_iter().map(|client| take_turns(client, Arc::clone(&inside)));
    tokio::time::timeout(SOON, join_all(turns)).await.expect("all turns are over");
}

#[tokio::test]
async fn a_lock_passes_on_when_the_session_of_its_holder_ends() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let (holder, next) = (connect(&listening.connect_string()).await, connect(&listening.connect_string()).await);
    let options = || LockOptions::new(Acls::anyone_all());
    // Forgotten, so that only the end of the session deletes its node.
    std::mem::forget(holder.lock(prefix(), b"", options()).await.expect("the lock"));
    let waiting = next.lock(prefix(), b"", options());
    tokio::pin!(waiting);
    tokio::select! {
        _ = &mut waiting => panic!("two hold the lock"),
        () = server.until(|| server.paths().len() == 3) => {}
    }
    drop(holder);
    tokio::time::timeout(SOON, waiting).await.expect("the lock passes on").expect("the lock");
}
