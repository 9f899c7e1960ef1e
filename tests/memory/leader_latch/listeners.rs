//! Listeners: their events, and the effect of a bad listener on the others.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use zookeeper_recipes::leader_latch::{CloseMode, LeaderLatch, LeaderLatchListener, Leadership};

use super::fixture::{Heard, PATH, hears, latch, leads, no_latch_leads_for, node_of, recorder, setup, waits};
use crate::fixture::{SOON, until, within};

/// All that a listener heard until its latch let it go.
async fn all_heard(mut heard: mpsc::UnboundedReceiver<Heard>) -> Vec<Heard> {
    let mut all = Vec::new();
    within("the latch lets its listener go", SOON, async {
        while let Some(next) = heard.recv().await {
            all.push(next);
        }
    })
    .await;
    all
}

#[tokio::test(start_paused = true)]
async fn listeners_of_a_leader_hear_of_its_close_only_if_the_mode_says_so() {
    let (_server, [client]) = setup().await;
    let cases = [
        (CloseMode::Silent, None, false),
        (CloseMode::NotifyLeader, None, true),
        (CloseMode::Silent, Some(CloseMode::NotifyLeader), true),
        (CloseMode::NotifyLeader, Some(CloseMode::Silent), false),
    ];
    for (built, at_close, told) in cases {
        let latch = LeaderLatch::builder(&client, PATH).close_mode(built);
        let latch = latch.start().expect("the latch starts");
        let (listener, heard) = recorder();
        latch.add_listener(listener);
        let token = leads(&latch).await.fencing_token();
        let closed = match at_close {
            None => latch.close().await,
            Some(mode) => latch.close_with(mode).await,
        };
        closed.expect("closed");
        let heard = all_heard(heard).await;
        // A silent close may come before the listener's task has told of the gain.
        let gain = Heard::IsLeader(token);
        if told {
            assert_eq!(heard, [gain, Heard::NotLeader], "{built:?}, then {at_close:?}");
        } else {
            assert!(heard.iter().all(|it| *it == gain), "{built:?}, then {at_close:?}: {heard:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_of_a_waiter_hear_nothing_of_its_close() {
    let (_server, [client]) = setup().await;
    let leader = latch(&client, "leader");
    leads(&leader).await;
    let waiter = latch(&client, "waiter");
    let (listener, heard) = recorder();
    waiter.add_listener(listener);
    waits(&waiter).await;
    waiter.close_with(CloseMode::NotifyLeader).await.expect("closed");
    assert_eq!(all_heard(heard).await, []);
    assert!(leader.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn each_of_ten_leaders_tells_of_its_gain_and_the_notifying_ones_of_its_end() {
    let (_server, [client]) = setup().await;
    let (mut latches, mut ears) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let mode = if number < 3 { CloseMode::Silent } else { CloseMode::NotifyLeader };
        let latch = LeaderLatch::builder(&client, PATH).close_mode(mode);
        let latch = latch.id(number.to_string()).start().expect("the latch starts");
        let (listener, heard) = recorder();
        latch.add_listener(listener);
        latches.push(latch);
        ears.push(heard);
    }
    let (mut gains, mut ends) = (0, 0);
    for _ in 0..latches.len() {
        let first =
            until("there is a leader", SOON, || async { latches.iter().position(|latch| latch.has_leadership()) })
                .await;
        let (latch, mut heard) = (latches.remove(first), ears.remove(first));
        // Heard before the close, as a silent one may come first otherwise.
        assert!(matches!(hears(&mut heard).await, Heard::IsLeader(_)));
        gains += 1;
        latch.close().await.expect("closed");
        ends += all_heard(heard).await.len();
    }
    assert_eq!((gains, ends), (10, 7));
}

#[tokio::test(start_paused = true)]
async fn a_listener_added_to_a_leader_hears_at_once_and_a_removed_one_no_more() {
    let (_server, [client]) = setup().await;
    let latch = latch(&client, "late");
    let token = leads(&latch).await.fencing_token();
    let (listener, mut stays) = recorder();
    latch.add_listener(listener);
    let (listener, mut removed) = recorder();
    let handle = latch.add_listener(listener);
    assert_eq!(hears(&mut stays).await, Heard::IsLeader(token));
    assert_eq!(hears(&mut removed).await, Heard::IsLeader(token));
    handle.remove();
    latch.close_with(CloseMode::NotifyLeader).await.expect("closed");
    assert_eq!(all_heard(stays).await, [Heard::NotLeader]);
    assert_eq!(all_heard(removed).await, []);
}

/// A listener that says when it was called and then waits for a permit.
struct Blocking {
    called: mpsc::UnboundedSender<Heard>,
    permits: Arc<Semaphore>,
    /// It does not wait when it hears of a gain.
    only_at_end: bool,
}

impl Blocking {
    async fn wait(&self) {
        self.permits.acquire().await.expect("the permits stay").forget();
    }
}

impl LeaderLatchListener for Blocking {
    async fn is_leader(&self, leadership: Leadership) {
        let _ = self.called.send(Heard::IsLeader(leadership.fencing_token()));
        if !self.only_at_end {
            self.wait().await;
        }
    }

    async fn not_leader(&self) {
        let _ = self.called.send(Heard::NotLeader);
        self.wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_is_deleted_only_after_not_leader_has_returned() {
    let (server, [client, other]) = setup().await;
    let old = latch(&client, "old");
    let (called, mut heard) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(0));
    old.add_listener(Blocking { called, permits: Arc::clone(&permits), only_at_end: true });
    let token = leads(&old).await.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let node = node_of(&old);
    let new = latch(&other, "new");
    waits(&new).await;

    let closing = old.close_with(CloseMode::NotifyLeader);
    tokio::pin!(closing);
    let called = async {
        tokio::select! {
            biased;
            _ = &mut closing => panic!("closed before the listener has returned"),
            called = hears(&mut heard) => called,
        }
    };
    assert_eq!(called.await, Heard::NotLeader);
    assert!(!old.has_leadership(), "the end comes before the listener is told");
    // The listener is running: the node stays, and no other participant leads.
    no_latch_leads_for(SOON, &[&new]).await;
    assert!(closing.as_mut().now_or_never().is_none(), "the close waits for the listener");
    assert!(server.stat(&node).is_some());

    permits.add_permits(1);
    within("the close ends", SOON, closing).await.expect("closed");
    assert!(server.stat(&node).is_none());
    leads(&new).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_never_returns_delays_only_itself() {
    let (server, [client]) = setup().await;
    let latch = latch(&client, "blocked");
    let (called, mut blocked) = mpsc::unbounded_channel();
    latch.add_listener(Blocking { called, permits: Arc::new(Semaphore::new(0)), only_at_end: false });
    let (listener, mut other) = recorder();
    latch.add_listener(listener);
    let token = leads(&latch).await.fencing_token();
    assert_eq!(hears(&mut blocked).await, Heard::IsLeader(token));
    assert_eq!(hears(&mut other).await, Heard::IsLeader(token));
    assert!(client.exists(PATH).await.expect("a plain read").is_some());
    within("the close does not wait for it", SOON, latch.close()).await.expect("closed");
    assert_eq!(server.children(PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_close_held_up_by_a_listener_is_freed_by_its_removal_by_a_silent_close_and_by_a_drop() {
    for way_out in ["remove", "close silently", "drop"] {
        let (server, [client]) = setup().await;
        let latch = Arc::new(latch(&client, "stuck"));
        let (called, mut blocked) = mpsc::unbounded_channel();
        let handle = latch.add_listener(Blocking { called, permits: Arc::new(Semaphore::new(0)), only_at_end: true });
        leads(&latch).await;
        let mut closing = Box::pin({
            let latch = Arc::clone(&latch);
            async move { latch.close_with(CloseMode::NotifyLeader).await }
        });
        assert!(futures::poll!(closing.as_mut()).is_pending());
        while hears(&mut blocked).await != Heard::NotLeader {}
        assert_eq!(server.children(PATH).len(), 1, "{way_out}: the node waits for the listener");
        match way_out {
            "remove" => handle.remove(),
            "close silently" => within(way_out, SOON, latch.close_with(CloseMode::Silent)).await.expect("closed"),
            _ => {
                drop(closing);
                drop(latch);
                server.until(|| server.children(PATH).is_empty()).await;
                continue;
            }
        }
        within(way_out, SOON, closing).await.expect("closed");
        assert_eq!(server.children(PATH), [""; 0], "{way_out}");
    }
}

struct Panicking;

impl LeaderLatchListener for Panicking {
    async fn is_leader(&self, _: Leadership) {
        panic!("this listener has a bug");
    }

    async fn not_leader(&self) {
        unreachable!("it was removed after its panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_listener_is_reported_and_removed_and_the_others_go_on() {
    let (_server, [client]) = setup().await;
    let latch = latch(&client, "panic");
    latch.add_listener(Panicking);
    let (listener, mut heard) = recorder();
    latch.add_listener(listener);
    let token = leads(&latch).await.fencing_token();
    let error = until("the panic is reported", SOON, || async { client.last_error() }).await;
    assert!(error.to_string().contains("this listener has a bug"), "{error}");
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    assert!(latch.has_leadership());
    // The close waits for those that are told; the removed one is not.
    let closing = latch.close_with(CloseMode::NotifyLeader);
    within("the close ends", SOON, closing).await.expect("closed");
    assert_eq!(all_heard(heard).await, [Heard::NotLeader]);
    assert!(client.last_error().expect("still there").to_string().contains("bug"), "no second panic");
}
