//! A lock that is held: the hold, and the contender that has it. A guard, or several, share it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::acquire::Acquire;
use super::measure::Holding;
use super::{Contender, Hold, Leaving};
use crate::client::{Client, Error};
use crate::engine;
use crate::util::mutex::{Mutex, MutexGuard};

/// A hold and the contender that has it. When it is dropped, the node is deleted.
pub(crate) struct Held {
    client: Client,
    pub(crate) path: Arc<str>,
    pub(crate) hold: Hold,
    watcher: Mutex<NodeWatcher>,
    holding: Holding,
}

/// The owner of the contender.
enum NodeWatcher {
    /// The guards. The clock and the session are enough while no caller waits for a loss.
    Guard(Box<Contender>),
    /// A task. It leaves the line when it is asked to, or when the guards are dropped; by then the delete may have been
    /// handed over.
    Task { ask: oneshot::Sender<Asked>, leaving: Arc<Leaving>, left: oneshot::Receiver<Result<(), engine::Error>> },
    /// The contender is leaving, or was handed on.
    Gone,
}

/// What the task is asked for.
enum Asked {
    /// To leave the line.
    Leave,
    /// To hand on the contender.
    HandOn(oneshot::Sender<Box<Contender>>),
}

impl Held {
    pub(crate) fn new(acquire: &Acquire, contender: Contender, hold: Hold) -> Self {
        let Acquire { client, recipe, path, .. } = acquire;
        let core = client.core();
        let watcher = Mutex::new(NodeWatcher::Guard(Box::new(contender)));
        let holding = Holding::begin(core, recipe, path);
        Held { client: client.clone(), path: Arc::clone(path), hold, watcher, holding }
    }

    pub(crate) fn is_held(&self) -> bool {
        let used_up = match &mut *self.watcher() {
            NodeWatcher::Guard(contender) => contender.poll_own_watch(),
            _ => false,
        };
        if used_up {
            self.watch();
        }
        self.hold.is_held()
    }

    /// Returns the path of the node as this client names it.
    pub(crate) fn node_path(&self) -> &str {
        self.client.core().config.namespace.strip(self.hold.path())
    }

    /// Waits until the lock is lost. It does not watch the node, so it costs no request and does not notice a deletion
    /// by another client.
    pub(crate) async fn until_lost(&mut self) {
        if let NodeWatcher::Guard(contender) = self.watcher.get_mut() {
            // Any other state after `Held` means that the lock is lost, even if it could be held again.
            contender.next().await;
            contender.relinquish();
        } else {
            self.hold.lost().await;
        }
    }

    /// Watches the node from now on, so that its holder can be notified.
    pub(crate) fn watch(&self) {
        let mut watcher = self.watcher();
        if !matches!(*watcher, NodeWatcher::Guard(_)) {
            return;
        }
        let (ask, asked) = oneshot::channel();
        let (done, left) = oneshot::channel();
        let leaving = Arc::new(Leaving::default());
        let task = NodeWatcher::Task { ask, leaving: Arc::clone(&leaving), left };
        if let NodeWatcher::Guard(mut contender) = std::mem::replace(&mut *watcher, task) {
            contender.watch_own_node();
            let (path, token) = (Arc::clone(&self.path), self.hold.token());
            self.client.core().runtime.spawn(async move {
                // No caller waits for this if the guards were dropped.
                let _ = done.send(look_after(&path, token, contender, asked, &leaving).await);
            });
        }
    }

    /// Ends the hold, then deletes the node.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.holding.end(&self.path, self.hold.is_held());
        let watcher = std::mem::replace(&mut *self.watcher(), NodeWatcher::Gone);
        let left = match watcher {
            NodeWatcher::Guard(mut contender) => contender.leave().await,
            NodeWatcher::Task { ask, left, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let _ = ask.send(Asked::Leave);
                left.await.unwrap_or(Err(engine::Error::SessionEnded))
            }
            NodeWatcher::Gone => Ok(()),
        };
        left.map_err(|error| Error::from_engine("release", self.node_path(), error))
    }

    /// Returns the contender, with the hold, or `None` if its runtime has ended. Its node is no longer watched.
    pub(crate) async fn into_contender(mut self) -> Option<Box<Contender>> {
        self.holding.end(&self.path, self.hold.is_held());
        let watcher = std::mem::replace(&mut *self.watcher(), NodeWatcher::Gone);
        match watcher {
            NodeWatcher::Guard(contender) => Some(contender),
            NodeWatcher::Task { ask, .. } => {
                let (to, handed_on) = oneshot::channel();
                let _ = ask.send(Asked::HandOn(to));
                handed_on.await.ok()
            }
            NodeWatcher::Gone => None,
        }
    }

    fn watcher(&self) -> MutexGuard<'_, NodeWatcher> {
        self.watcher.lock()
    }
}

/// Ends the hold when the place is lost. It leaves the line only when it is asked to, because the owner of the guard
/// may not have checked yet.
async fn look_after(
    path: &str,
    token: i64,
    mut contender: Box<Contender>,
    mut asked: oneshot::Receiver<Asked>,
    leaving: &Leaving,
) -> Result<(), engine::Error> {
    let asked = tokio::select! {
        biased;
        asked = &mut asked => asked,
        // Any other state after `Held` means that the lock is lost, even if it could be held again.
        news = contender.next() => {
            tracing::debug!(event = "lock_lost", path, token, state = news.name(), "lock lost");
            contender.relinquish();
            asked.await
        }
    };
    match asked {
        Ok(Asked::HandOn(to)) => {
            // If it is not taken, it leaves by being dropped.
            let _ = to.send(contender);
            Ok(())
        }
        // The sender may also be dropped with the guards, which means the same.
        Ok(Asked::Leave) | Err(_) => contender.leave_after(leaving.handed_over()).await,
    }
}

/// Hands over the delete when the last guard is dropped, ahead of any later request of this client.
impl Drop for Held {
    fn drop(&mut self) {
        self.holding.end(&self.path, self.hold.is_held());
        let watcher = std::mem::replace(&mut *self.watcher(), NodeWatcher::Gone);
        match watcher {
            // Dropping the place deletes its node.
            NodeWatcher::Guard(contender) => drop(contender),
            NodeWatcher::Task { ask, leaving, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let tell = || {
                    let _ = ask.send(Asked::Leave);
                };
                leaving.release(tell, || Some(self.hold.clone()));
            }
            NodeWatcher::Gone => {}
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("path", &self.path).field("hold", &self.hold).finish_non_exhaustive()
    }
}
