//! Callers on threads of their own, outside of a runtime.

use std::time::Duration;

use futures::executor::block_on;
use tokio::sync::oneshot;
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::mutex::{Error, InterProcessMutex};

use super::fixture::{Fixture, SOON, acquired, mutex, released};
use crate::support::within;

/// Enters and leaves once. Not a blocking task of a runtime: that has timers.
fn enters(mutex: InterProcessMutex) -> oneshot::Receiver<Result<(), Error>> {
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || done.send(block_on(async { mutex.acquire().await?.release().await })));
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_outside_of_a_runtime_have_their_turns_after_cuts_and_deletions_by_hand() {
    let fixture = Fixture::with_directory("threads").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Session).await;
    let mutex = mutex(&client, &fixture.path);
    let holder = acquired(&mutex).await;
    let callers = [(); 2].map(|()| enters(mutex.clone()));
    fixture.observer.wait_for_children(&fixture.path, 3).await;
    // The waiters look again, each after a delay.
    proxy.cut().await;
    // The first of the waiters, each time: it watches its own node, and enters again.
    for _ in 0..3 {
        let mut names = fixture.nodes().await;
        names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
        fixture.observer.delete(&format!("{}/{}", fixture.path, names[1])).await;
        fixture.observer.wait_for_children(&fixture.path, 3).await;
    }
    proxy.cut().await;
    released(holder).await;
    for caller in callers {
        let outcome = within("its turn comes", SOON, caller).await.expect("the thread does not panic");
        outcome.expect("held and released");
    }
    assert!(fixture.nodes().await.is_empty());
}
