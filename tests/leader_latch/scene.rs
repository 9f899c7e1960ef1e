//! What the tests of the latch share: words for what a latch does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch, LeaderLatchListener, Leadership};

pub(crate) use crate::scene::*;
use crate::support::{eventually, within};

impl Scene {
    pub(crate) fn latch(&self, client: &Client, id: &str) -> LeaderLatch {
        latch(client, &self.path, id)
    }
}

pub(crate) fn latch(client: &Client, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).id(id).start().expect("the latch starts")
}

/// The leadership of a latch that is expected to get it.
pub(crate) async fn leads(latch: &LeaderLatch) -> Leadership {
    let what = format!("{} leads", latch.id());
    let waiting = within(&what, SOON, latch.wait_for_leadership());
    waiting.await.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// As `leads`, for a latch that may be told of an error in between.
pub(crate) async fn leads_in_the_end(latch: &LeaderLatch) -> Leadership {
    let mut states = latch.state();
    let what = format!("{} leads in the end", latch.id());
    let led = within(&what, SOON, states.wait_for(|state| state.is_leader())).await;
    let led = led.expect("the latch is alive");
    led.leadership().expect("a leader has its leadership")
}

/// Waits until the latch has this status.
pub(crate) async fn reaches(latch: &LeaderLatch, status: LatchStatus) {
    let mut states = latch.state();
    let what = format!("{} is {status:?}", latch.id());
    let reached = within(&what, SOON, states.wait_for(|state| state.status() == status)).await;
    drop(reached.expect("the latch is alive"));
}

/// Waits until the latch stands in line behind somebody; its node.
pub(crate) async fn stands(latch: &LeaderLatch) -> String {
    reaches(latch, LatchStatus::Waiting).await;
    latch.our_path().expect("who stands in line has a node")
}

/// The ids of the line, in order.
pub(crate) async fn line_of(latch: &LeaderLatch) -> Vec<String> {
    let line = latch.participants().await.expect("the participants");
    line.into_iter().map(|participant| participant.id).collect()
}

/// Waits until the ids of the line are these, in order.
pub(crate) async fn line_becomes(latch: &LeaderLatch, ids: &[&str]) {
    eventually(&format!("the line is {ids:?}"), SOON, || async { line_of(latch).await == ids }).await;
}

/// Looks again and again, for the time given, and panics if one of the latches ever leads.
pub(crate) async fn nobody_leads_for(time: Duration, latches: &[&LeaderLatch]) {
    let watching = latches.iter().map(|latch| async {
        let mut states = latch.state();
        let led = states.wait_for(|state| state.is_leader()).await;
        assert!(led.is_err(), "{} leads", latch.id());
    });
    let led = tokio::time::timeout(time, futures::future::join_all(watching)).await;
    assert!(led.is_err(), "the latches are alive");
}

/// What a listener heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    IsLeader(i64),
    NotLeader,
}

/// A listener that passes on what it hears; a leadership as its token.
pub(crate) struct Ear(mpsc::UnboundedSender<Heard>);

pub(crate) fn ear() -> (Ear, mpsc::UnboundedReceiver<Heard>) {
    let (sender, heard) = mpsc::unbounded_channel();
    (Ear(sender), heard)
}

impl LeaderLatchListener for Ear {
    async fn is_leader(&self, leadership: Leadership) {
        let _ = self.0.send(Heard::IsLeader(leadership.fencing_token()));
    }

    async fn not_leader(&self) {
        let _ = self.0.send(Heard::NotLeader);
    }
}

/// The next thing that a listener hears.
pub(crate) async fn hears(heard: &mut mpsc::UnboundedReceiver<Heard>) -> Heard {
    let next = within("the listener hears something", SOON, heard.recv());
    next.await.expect("the listener is alive")
}

/// What a latch went through: the edges of "leads", as seen by who follows its state.
pub(crate) struct Edges {
    task: JoinHandle<()>,
    edges: Arc<std::sync::Mutex<Vec<Edge>>>,
}

/// The latch began, or ceased, to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edge {
    Leads { token: i64, node: String },
    LeadsNot,
}

impl Edges {
    /// Follows the state from now on; who leads already has an edge at once.
    pub(crate) fn of(latch: &LeaderLatch) -> Edges {
        let mut states = latch.state();
        let edges: Arc<std::sync::Mutex<Vec<Edge>>> = Arc::default();
        let seen = Arc::clone(&edges);
        let task = tokio::spawn(async move {
            let mut led = false;
            loop {
                let leadership = states.borrow_and_update().leadership();
                if leadership.is_some() != led {
                    led = !led;
                    seen.lock().expect("no panic while locked").push(match leadership {
                        Some(leadership) => Edge::Leads {
                            token: leadership.fencing_token(),
                            node: leadership.fence().path().to_owned(),
                        },
                        None => Edge::LeadsNot,
                    });
                }
                if states.changed().await.is_err() {
                    return;
                }
            }
        });
        Edges { task, edges }
    }

    pub(crate) fn seen(&self) -> Vec<Edge> {
        self.edges.lock().expect("no panic while locked").clone()
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks an old and a new leader whether they lead, as often as it can, on a thread of its own: what only the clock can
/// tell shows here and not in events.
pub(crate) struct Handover {
    stop: Arc<AtomicBool>,
    asking: std::thread::JoinHandle<(Option<Instant>, Option<Instant>)>,
    begin: Instant,
}

impl Handover {
    pub(crate) fn watch(old: &Arc<LeaderLatch>, new: &Arc<LeaderLatch>) -> Handover {
        let stop = Arc::new(AtomicBool::new(false));
        let asking = std::thread::spawn({
            let (old, new, stop) = (Arc::clone(old), Arc::clone(new), Arc::clone(&stop));
            move || {
                let (mut believed, mut gained) = (None, None);
                while !stop.load(Ordering::SeqCst) {
                    // The gain is noted too early and the end of the belief too late, if at all.
                    let now = Instant::now();
                    if new.has_leadership() {
                        gained.get_or_insert(now);
                    }
                    if old.has_leadership() {
                        believed = Some(Instant::now());
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                (believed, gained)
            }
        });
        Handover { stop, asking, begin: Instant::now() }
    }

    /// How long before the gain of the new one the old one ceased to believe; panics if it did not. To be called when the
    /// new one leads.
    pub(crate) async fn margin(self, what: &str) -> Duration {
        // The thread has seen the gain after the next round at the latest.
        tokio::time::sleep(A_WHILE).await;
        self.stop.store(true, Ordering::SeqCst);
        let (believed, gained) = self.asking.join().expect("asking does not panic");
        let believed = believed.expect("the old one led at first");
        let gained = gained.expect("the new one leads");
        let margin = gained
            .checked_duration_since(believed)
            .unwrap_or_else(|| panic!("{what}: two led for {:?}", believed - gained));
        let (believed, gained) = (believed - self.begin, gained - self.begin);
        println!(
            "{what}: the old leader believed until {believed:?}, the new one led at {gained:?}: margin {margin:?}"
        );
        margin
    }
}
