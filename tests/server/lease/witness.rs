//! Sees from outside when the nodes of the leaders go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper::{Error, EventType, OneshotWatcher, Stat};

use super::holders::Place;
use super::moment::Moment;
use crate::support::{Observer, within};

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at all nodes.
const PAUSE: Duration = Duration::from_millis(40);

/// When a node was last seen and first missed; it was deleted in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// A read that was asked for at this moment, behind a sync, found the node.
    pub(crate) there: Option<Moment>,
    /// At this moment it was known to be gone.
    pub(crate) gone: Option<Moment>,
    /// Why the fault of its owner is not seen, if it is not.
    pub(crate) unclear: Option<&'static str>,
}

impl Sight {
    /// Whether the end of the node is still to be seen.
    pub(crate) fn is_open(&self) -> bool {
        self.gone.is_none() && self.unclear.is_none()
    }

    /// In milliseconds from `moment`.
    pub(crate) fn story(&self, moment: Moment) -> String {
        let [there, gone] = [self.there, self.gone].map(|at| at.map(|at| at.millis_since(moment)));
        format!("there at {there:.1?}, gone by {gone:.1?}")
    }
}

/// Watches nodes until it is dropped.
#[derive(Debug)]
pub(crate) struct Witness {
    observer: Observer,
    sights: Arc<Mutex<Vec<Sight>>>,
    _tasks: JoinSet<()>,
}

impl Witness {
    /// Watches the nodes from a session of its own with one of `servers`; returns when all watches are set.
    pub(crate) async fn of(servers: &str, places: &[Place]) -> Witness {
        let observer = Observer::connect(servers).await;
        let sights = Arc::new(Mutex::new(vec![Sight::default(); places.len()]));
        let mut tasks = JoinSet::new();
        let nodes: Vec<String> = places.iter().map(|place| place.node.clone()).collect();
        for (i, node) in nodes.iter().enumerate() {
            let Some((stat, watcher)) = within("a node is watched", PATIENCE, watch(&observer, node)).await else {
                break;
            };
            if stat.is_none() {
                lock(&sights)[i].unclear = Some("its node was gone before the fault");
                continue;
            }
            let sights = Arc::clone(&sights);
            tasks.spawn(async move {
                // No client changes the node, so the first event is its deletion.
                if watcher.changed().await.event_type == EventType::NodeDeleted {
                    note_gone(&sights, i, Moment::now());
                }
            });
        }
        tasks.spawn(look(observer.clone(), nodes, Arc::clone(&sights)));
        Witness { observer, sights, _tasks: tasks }
    }

    /// The sights so far, node by node.
    pub(crate) fn sights(&self) -> Vec<Sight> {
        lock(&self.sights).clone()
    }

    /// Whether a node is seen to exist now, behind a sync.
    pub(crate) async fn finds(&self, node: &str) -> bool {
        let found = within("a node is looked for", PATIENCE, watch(&self.observer, node)).await;
        found.is_some_and(|(stat, _)| stat.is_some())
    }
}

/// The node's stat and a watch on it, behind a sync, as the server may lag behind the one that created the node; tried
/// again while the connection is lost. None if the session is over.
async fn watch(observer: &Observer, node: &str) -> Option<(Option<Stat>, OneshotWatcher)> {
    let client = observer.client();
    loop {
        let watched = match client.sync("/").await {
            Ok(()) => client.check_and_watch_stat(node).await,
            Err(error) => Err(error),
        };
        match watched {
            Ok(watched) => return Some(watched),
            Err(_) if client.state().is_terminated() => return None,
            Err(Error::ConnectionLoss | Error::Custom(_) | Error::Timeout) => tokio::time::sleep(PAUSE).await,
            Err(error) => panic!("watch {node}: {error}"),
        }
    }
}

fn lock(sights: &Mutex<Vec<Sight>>) -> std::sync::MutexGuard<'_, Vec<Sight>> {
    sights.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note_gone(sights: &Mutex<Vec<Sight>>, i: usize, at: Moment) {
    let gone = &mut lock(sights)[i].gone;
    *gone = Some(gone.map_or(at, |known| known.min(at)));
}

/// Reads all nodes again and again, each time behind a sync, so that no read is older than the asking.
async fn look(observer: Observer, nodes: Vec<String>, sights: Arc<Mutex<Vec<Sight>>>) {
    loop {
        let left: Vec<usize> = {
            let sights = lock(&sights);
            (0..nodes.len()).filter(|&i| sights[i].is_open()).collect()
        };
        if left.is_empty() {
            return;
        }
        if observer.client().state().is_terminated() {
            left.iter().for_each(|&i| lock(&sights)[i].unclear = Some("the witness has lost its session"));
            return;
        }
        let asked = Moment::now();
        // The requests are queued, in this order, by these calls.
        let synced = observer.client().sync("/");
        let reads: Vec<_> = left.iter().map(|&i| observer.client().check_stat(&nodes[i])).collect();
        let synced = synced.await.is_ok();
        for (&i, read) in left.iter().zip(reads) {
            match read.await {
                Ok(Some(_)) if synced => lock(&sights)[i].there = Some(asked),
                Ok(None) => note_gone(&sights, i, Moment::now()),
                // Without a connection nothing is learnt.
                _ => {}
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

mod tests {
    use super::*;
    use crate::support::{Proxy, ZooKeeper, eventually, unique_path};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_the_witness_does_not_see_is_unclear_and_not_gone() {
        let running = ZooKeeper::shared().await;
        let server = running.connect_string();
        let nodes = ["there", "missing"].map(unique_path);
        Observer::connect(&server).await.create(&nodes[0], b"").await;
        let proxy = Proxy::start(running.addr()).await;
        let witness =
            Witness::of(&proxy.connect_string(), &nodes.map(|node| Place { election: String::new(), node })).await;
        eventually("the node is seen", PATIENCE, async || witness.sights()[0].there.is_some()).await;
        assert!(witness.sights()[0].is_open());
        assert_eq!(witness.sights()[1].unclear, Some("its node was gone before the fault"));
        proxy.kill_session().await;
        eventually("it is blind", PATIENCE, async || !witness.sights()[0].is_open()).await;
        let Sight { gone, unclear, .. } = witness.sights()[0];
        assert!(gone.is_none() && unclear == Some("the witness has lost its session"), "{gone:?}, {unclear:?}");
        assert!(!witness.finds("/").await);
    }
}
