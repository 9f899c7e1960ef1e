//! The values that a leadership returns.

use std::time::Duration;

use tokio::sync::mpsc;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LeaderLatch, LeaderLatchListener, Leadership};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::PATH;
use crate::fixture::{T, within};

/// Passes on whose leadership was gained.
struct Names(mpsc::UnboundedSender<(String, String)>);

impl LeaderLatchListener for Names {
    async fn is_leader(&self, leadership: Leadership) {
        let _ = self.0.send((leadership.path().to_owned(), leadership.id().to_owned()));
    }

    async fn not_leader(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_leadership_names_its_election_and_its_participant_to_callers_and_listeners() {
    for namespace in ["", "/app"] {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).session_timeout(Duration::from_secs(10)).namespace(namespace);
        let client = client.connect().await.expect("a client");
        let latch = LeaderLatch::builder(&client, PATH).id("wörker-7").start().expect("a good path");
        let (names, mut named) = mpsc::unbounded_channel();
        latch.add_listener(Names(names));
        let leadership = within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
        assert_eq!((leadership.path(), leadership.id()), (PATH, "wörker-7"), "{namespace:?}");
        let heard = within("the listener hears of it", T, named.recv()).await;
        assert_eq!(heard, Some((PATH.to_owned(), "wörker-7".to_owned())), "{namespace:?}");
        latch.close().await.expect("closed");
        assert_eq!((leadership.path(), leadership.id()), (PATH, "wörker-7"), "also when it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_participant_without_one_is_empty() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let latch = LeaderLatch::builder(&client, PATH).start().expect("a good path");
    let leadership = within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
    assert_eq!((leadership.path(), leadership.id()), (PATH, ""));
}
