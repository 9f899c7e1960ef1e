//! Listeners of several types, kept together.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedSender};
use zookeeper_recipes::leader_latch::{BoxLeaderLatchListener, CloseMode, LeaderLatchListener, Leadership};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::latch;
use crate::fixture::{T, within};

/// Passes on what it is told.
struct Told(UnboundedSender<&'static str>);

impl LeaderLatchListener for Told {
    async fn is_leader(&self, leadership: Leadership) {
        assert!(leadership.is_held());
        let _ = self.0.send("leads");
    }

    async fn not_leader(&self) {
        let _ = self.0.send("leads no more");
    }
}

/// As `Told`, but of another type.
struct Loud(UnboundedSender<&'static str>);

impl LeaderLatchListener for Loud {
    async fn is_leader(&self, _: Leadership) {
        let _ = self.0.send("leads!");
    }

    async fn not_leader(&self) {
        let _ = self.0.send("leads no more!");
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_of_several_types_are_kept_together_boxed_or_shared() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let latch = latch(&client, "");
    let (told, mut heard) = mpsc::unbounded_channel();
    let shared = Arc::new(Told(told.clone()));
    let listeners = vec![BoxLeaderLatchListener::new(Arc::clone(&shared)), BoxLeaderLatchListener::new(Loud(told))];
    for listener in listeners {
        latch.add_listener(listener);
    }
    latch.add_listener(shared);
    within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
    within("each is told", T, latch.close_with(CloseMode::NotifyLeader)).await.expect("closed");
    let mut all = Vec::new();
    while let Some(news) = within("the listeners are gone", T, heard.recv()).await {
        all.push(news);
    }
    all.sort_unstable();
    assert_eq!(all, ["leads", "leads", "leads no more", "leads no more", "leads no more!", "leads!"]);
}
