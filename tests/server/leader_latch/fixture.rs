//! Shared by the tests of the latch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LeaderLatch;

pub(crate) use crate::fixture::*;
pub(crate) use crate::latches::*;

impl Fixture {
    pub(crate) fn latch(&self, client: &Client, id: &str) -> LeaderLatch {
        latch(client, &self.path, id)
    }
}

pub(crate) fn latch(client: &Client, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).id(id).start().expect("the latch starts")
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

    /// How long before the gain of the new one the old one ceased to believe; panics if it did not. To be called when
    /// the new one leads.
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
