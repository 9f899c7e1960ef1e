//! A held lock, which one or several guards share.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::Error;
use crate::backend;
use crate::client::held_paths::HeldPath;
use crate::client::{self, Client};
use crate::contender::{Contender, Hold, Leaving};
use crate::util::mutex::{Mutex, MutexGuard};

/// The state that all guards of one hold share. With the last of them the node is deleted.
pub(super) struct Inner {
    client: Client,
    pub(super) path: Arc<str>,
    pub(super) hold: Hold,
    watcher: Mutex<NodeWatcher>,
    /// Kept until the node is gone, or its delete was handed over.
    _held: HeldPath,
}

/// The owner of the contender.
enum NodeWatcher {
    /// The guards. The clock and the session show them enough while no caller waits for a loss.
    Guard(Box<Contender>),
    /// A task, which leaves the line when asked to, or when the guards are dropped. The delete may have been handed
    /// over by then.
    Task { leave: oneshot::Sender<()>, leaving: Arc<Leaving>, left: oneshot::Receiver<Result<(), backend::Error>> },
    /// The contender is leaving.
    Leaving,
}

impl Inner {
    pub(super) fn new(client: &Client, path: &Arc<str>, contender: Contender, hold: Hold) -> Self {
        let watcher = Mutex::new(NodeWatcher::Guard(Box::new(contender)));
        let held = HeldPath::new(&client.core().held_paths, path, client.core().clock.now());
        Inner { client: client.clone(), path: Arc::clone(path), hold, watcher, _held: held }
    }

    pub(super) fn is_held(&self) -> bool {
        let used_up = match &mut *self.watcher() {
            NodeWatcher::Guard(contender) => contender.glance(),
            _ => false,
        };
        if used_up {
            self.watch();
        }
        self.hold.is_held()
    }

    /// Returns the path of the node as this client names it.
    pub(super) fn node_path(&self) -> &str {
        self.client.core().config.namespace.strip(self.hold.path())
    }

    /// Watches the node from now on, so that its holder can be notified.
    pub(super) fn watch(&self) {
        let mut watcher = self.watcher();
        if !matches!(*watcher, NodeWatcher::Guard(_)) {
            return;
        }
        let (leave, asked) = oneshot::channel();
        let (done, left) = oneshot::channel();
        let leaving = Arc::new(Leaving::default());
        let task = NodeWatcher::Task { leave, leaving: Arc::clone(&leaving), left };
        if let NodeWatcher::Guard(mut contender) = std::mem::replace(&mut *watcher, task) {
            contender.insist_on_watch();
            let (path, token) = (Arc::clone(&self.path), self.hold.token());
            self.client.core().runtime.spawn(async move {
                // No caller waits for this if the guards were dropped.
                let _ = done.send(look_after(&path, token, contender, asked, &leaving).await);
            });
        }
    }

    /// Ends the hold, then deletes the node.
    pub(super) async fn release(self) -> Result<(), Error> {
        let watcher = std::mem::replace(&mut *self.watcher(), NodeWatcher::Leaving);
        let left = match watcher {
            NodeWatcher::Guard(mut contender) => contender.leave().await,
            NodeWatcher::Task { leave, left, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let _ = leave.send(());
                left.await.unwrap_or(Err(backend::Error::SessionEnded))
            }
            NodeWatcher::Leaving => Ok(()),
        };
        left.map_err(|error| Error::client(&self.path, client::Error::from_backend("release", self.node_path(), error)))
    }

    fn watcher(&self) -> MutexGuard<'_, NodeWatcher> {
        self.watcher.lock()
    }
}

/// Ends the hold when the place is lost. Leaves the line only when asked to, as the guard's owner may not have checked
/// yet.
async fn look_after(
    path: &str,
    token: i64,
    mut contender: Box<Contender>,
    mut asked: oneshot::Receiver<()>,
    leaving: &Leaving,
) -> Result<(), backend::Error> {
    tokio::select! {
        biased;
        _ = &mut asked => return contender.leave_after(leaving.handed_over()).await,
        // Any other state after `Held` means that the lock is lost, also if it could be held again.
        news = contender.next() => {
            tracing::debug!(event = "lock_lost", path, token, state = news.name(), "lock lost");
        }
    }
    contender.relinquish();
    // The sender may also be dropped with the guards, which means the same.
    let _ = asked.await;
    contender.leave_after(leaving.handed_over()).await
}

/// Hands over the delete when the last guard is dropped, so that it is ahead of any later request of this client.
impl Drop for Inner {
    fn drop(&mut self) {
        let watcher = std::mem::replace(&mut *self.watcher(), NodeWatcher::Leaving);
        match watcher {
            // Dropping the place deletes its node.
            NodeWatcher::Guard(contender) => drop(contender),
            NodeWatcher::Task { leave, leaving, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let tell = || {
                    let _ = leave.send(());
                };
                leaving.release(tell, || Some(self.hold.clone()));
            }
            NodeWatcher::Leaving => {}
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("path", &self.path).field("hold", &self.hold).finish_non_exhaustive()
    }
}
