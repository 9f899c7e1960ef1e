//! Ten thousand latches on one client: more names to watch than one message to a server can hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::leader_latch::{LeaderLatch, LeaderLatchListener, Leadership};

use super::fixture::{Fixture, States, latch, was_cut_off_and_came_back};
use crate::support::eventually;

const LATCHES: usize = 10_000;
/// A server takes less than a million bytes of names in one message.
const NAMES: usize = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// For so long nothing may change: flapping shows within a second.
const QUIET: Duration = Duration::from_secs(4);

/// How often leadership was gained and lost, by all latches together.
#[derive(Debug, Default)]
struct Turns {
    gained: AtomicUsize,
    lost: AtomicUsize,
}

impl Turns {
    fn seen(&self) -> (usize, usize) {
        (self.gained.load(Ordering::SeqCst), self.lost.load(Ordering::SeqCst))
    }
}

struct Counter(Arc<Turns>);

impl LeaderLatchListener for Counter {
    async fn is_leader(&self, _: Leadership) {
        self.0.gained.fetch_add(1, Ordering::SeqCst);
    }

    async fn not_leader(&self) {
        self.0.lost.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_latches_of_one_client_settle_once_and_keep_leading_through_a_reconnect() {
    // The server then removes ten thousand containers, for a minute, and none of another test meanwhile.
    let fixture = Fixture::on_a_server_of_its_own("crowd").await;
    fixture.observer.create(&fixture.path, b"").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(20), ErrorPolicy::Session).await;
    let session = client.session_id();
    let turns = Arc::new(Turns::default());
    let latches: Vec<LeaderLatch> = (0..LATCHES)
        .map(|number| {
            let latch = latch(&client, &format!("{}/{number:0>80}", fixture.path), "one");
            latch.add_listener(Counter(Arc::clone(&turns)));
            latch
        })
        .collect();
    eventually("all lead", PATIENCE, async || turns.gained.load(Ordering::SeqCst) >= LATCHES).await;
    // An observation: overload of a session shows after it has settled.
    tokio::time::sleep(QUIET).await;
    assert_eq!(turns.seen(), (LATCHES, 0), "gained and lost");
    let names: usize = latches.iter().filter_map(LeaderLatch::our_path).map(|path| path.len()).sum();
    assert!(names > NAMES, "{names} bytes of names");

    let mut states = States::of(&client);
    proxy.cut().await;
    was_cut_off_and_came_back(&client, &mut states).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(turns.seen(), (LATCHES, 0), "gained and lost, after the reconnect");
    assert!(latches.iter().all(LeaderLatch::has_leadership));

    // The watches are armed again: changes of a node are still seen.
    let (gone, rest) = latches.split_first().expect("latches");
    fixture.observer.delete(&gone.our_path().expect("a leader has a node")).await;
    eventually("it enters again", PATIENCE, async || turns.seen() == (LATCHES + 1, 1)).await;
    assert!(rest.iter().all(LeaderLatch::has_leadership));

    // Not one by one, with the rest of the watches, when all is dropped.
    client.close().await.expect("closed");
    let directories = fixture.nodes().await;
    let paths = directories.iter().map(|name| format!("{}/{name}", fixture.path));
    futures::stream::iter(paths).for_each_concurrent(64, async |path| fixture.observer.delete(&path).await).await;
}
