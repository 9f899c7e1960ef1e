//! A lock that is held, by one guard or several.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::error::Error;
use crate::backend;
use crate::client::{self, Client};
use crate::contender::{Hold, Leaving, Standing};

/// What all guards of one hold share. With the last of them the node is deleted.
pub(super) struct Held {
    client: Client,
    pub(super) path: Arc<str>,
    pub(super) hold: Hold,
    keeper: Mutex<Keeper>,
}

/// What keeps the place in line.
enum Keeper {
    /// The guards: the clock and the session tell them enough, as long as no caller waits to be told of a loss.
    Guard(Box<Standing>),
    /// A task, which leaves the line when asked to, or when the guards are gone. A delete may have been handed over by then.
    Task { leave: oneshot::Sender<()>, leaving: Arc<Leaving>, left: oneshot::Receiver<Result<(), backend::Error>> },
    /// It is being left.
    Leaving,
}

impl Held {
    pub(super) fn new(client: &Client, path: &Arc<str>, standing: Standing, hold: Hold) -> Self {
        let keeper = Mutex::new(Keeper::Guard(Box::new(standing)));
        Held { client: client.clone(), path: Arc::clone(path), hold, keeper }
    }

    pub(super) fn is_held(&self) -> bool {
        let used_up = match &mut *self.keeper() {
            Keeper::Guard(standing) => standing.glance(),
            _ => false,
        };
        if used_up {
            self.watch();
        }
        self.hold.is_held()
    }

    /// The path of the node, as this client names it.
    pub(super) fn node_path(&self) -> &str {
        self.client.core().config.namespace.strip(self.hold.path())
    }

    /// Has the own node watched from now on, so that its holder can be told.
    pub(super) fn watch(&self) {
        let mut keeper = self.keeper();
        if !matches!(*keeper, Keeper::Guard(_)) {
            return;
        }
        let (leave, asked) = oneshot::channel();
        let (done, left) = oneshot::channel();
        let leaving = Arc::new(Leaving::default());
        let task = Keeper::Task { leave, leaving: Arc::clone(&leaving), left };
        if let Keeper::Guard(mut standing) = std::mem::replace(&mut *keeper, task) {
            standing.insist_on_watch();
            self.client.core().runtime.spawn(async move {
                // No caller waits for it if the guards were dropped.
                let _ = done.send(look_after(standing, asked, &leaving).await);
            });
        }
    }

    /// Lets go: the hold ends, then the node is deleted.
    pub(super) async fn release(self) -> Result<(), Error> {
        let keeper = std::mem::replace(&mut *self.keeper(), Keeper::Leaving);
        let left = match keeper {
            Keeper::Guard(mut standing) => standing.leave().await,
            Keeper::Task { leave, left, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let _ = leave.send(());
                left.await.unwrap_or(Err(backend::Error::SessionEnded))
            }
            Keeper::Leaving => Ok(()),
        };
        left.map_err(|error| Error::client(&self.path, client::Error::from_backend("release", self.node_path(), error)))
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that the hold ends when the place is lost, and leaves the line when asked to: no sooner, as the guard's
/// owner may not have looked yet.
async fn look_after(
    mut standing: Box<Standing>,
    mut asked: oneshot::Receiver<()>,
    leaving: &Leaving,
) -> Result<(), backend::Error> {
    tokio::select! {
        biased;
        _ = &mut asked => return standing.leave_after(leaving.handed_over()).await,
        // Whatever there is to tell after the lock was held, it is held no more; also if it could be held again.
        news = standing.next() => tracing::debug!(?news, "lock lost"),
    }
    standing.relinquish();
    // Guards that are dropped without asking mean the same.
    let _ = asked.await;
    standing.leave_after(leaving.handed_over()).await
}

/// The last guard was dropped: the delete leaves now, so that it is ahead of whatever this client sends next.
impl Drop for Held {
    fn drop(&mut self) {
        let keeper = std::mem::replace(&mut *self.keeper(), Keeper::Leaving);
        match keeper {
            // Dropping the place deletes its node.
            Keeper::Guard(standing) => drop(standing),
            Keeper::Task { leave, leaving, .. } => {
                // A task that has ended with its runtime has dropped the place, which deletes the node.
                let tell = || {
                    let _ = leave.send(());
                };
                leaving.release(tell, || Some(self.hold.clone()));
            }
            Keeper::Leaving => {}
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("path", &self.path).field("hold", &self.hold).finish_non_exhaustive()
    }
}
