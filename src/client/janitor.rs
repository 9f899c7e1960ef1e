//! Deletes that must happen: nodes of released locks, dropped guards, cancelled calls (Curator's guaranteed deletes).
//!
//! A job is retried after every reconnect until the node is known to be gone. When its session ends, the next one continues
//! it: a node given up remains until the server expires it, and no waiter should queue behind a leftover node.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::core::{Core, Current};
use super::delays::Delays;
use super::error::Error;
use super::protection;
use super::session::{Condition, EndReason, Session};
use crate::backend::{self, Watch};
use crate::path::{join, split};

/// Delays after the server has refused a delete: each twice the one before, up to the second value.
const AFTER_REFUSAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A node to delete. Its name holds a uuid, so it can never belong to another client.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) session: Arc<Session>,
    pub(crate) target: Target,
    /// The first attempt, if it was handed over already.
    pub(crate) handed: Option<HandedOver>,
    /// A watch of the node. It ends with the node at no cost; dropped before, it costs a request.
    pub(crate) watch: Option<Watch>,
    /// The directory's counter is nearly exhausted: the directory is deleted with the node, if this transaction created it,
    /// so that the counter restarts.
    pub(crate) restart_counter: Option<i64>,
    /// Dropped when the node is gone, which notifies a waiter.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// A delete that was handed over already, so that no later request of its session overtakes it.
pub(crate) struct HandedOver {
    path: Arc<str>,
    connection: u64,
    reply: Pin<Box<dyn Future<Output = Result<(), backend::Error>> + Send>>,
}

impl HandedOver {
    /// Hands it over, unless there is no connection now. It neither blocks nor spawns, so a `drop` may call it.
    pub(crate) fn delete(session: &Arc<Session>, path: &Arc<str>) -> Option<Self> {
        let Condition::Connected(connection) = session.condition() else { return None };
        Some(HandedOver { path: Arc::clone(path), connection, reply: Box::pin(session.delete(path, None)) })
    }

    /// The path of the node that it deletes.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the connection on which it was sent, and its outcome.
    pub(crate) async fn outcome(self) -> (u64, Result<Option<Target>, backend::Error>) {
        (self.connection, gone(self.reply.await))
    }
}

impl fmt::Debug for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedOver").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Maps the answer to a delete: `None` if the node is gone, or an error.
fn gone(deleted: Result<(), backend::Error>) -> Result<Option<Target>, backend::Error> {
    match deleted {
        Ok(()) | Err(backend::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The node to delete.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The path of a node that was created.
    Path(Arc<str>),
    /// A create of unknown outcome: the directory, and the prefix of the name.
    Prefix { dir: Arc<str>, prefix: String },
}

/// Runs until the client is closed. Each job has its own task, as none waits for another.
pub(crate) async fn run(core: Arc<Core>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut current = core.current.subscribe();
    let closed = current.wait_for(|current| matches!(current, Current::Closed(_)));
    tokio::pin!(closed);
    loop {
        let job = tokio::select! {
            biased;
            _ = &mut closed => return,
            job = jobs.recv() => job,
        };
        let Some(job) = job else { return };
        core.runtime.spawn_system(clean(Arc::clone(&core), job));
    }
}

/// Returns when the node is gone, or the client is closed.
async fn clean(core: Arc<Core>, job: Job) {
    let Job { mut session, mut target, mut handed, watch: _watch, restart_counter, done: _done } = job;
    let mut refused = Delays::new(AFTER_REFUSAL);
    loop {
        let (connection, outcome) = if let Some(handed) = handed.take() {
            handed.outcome().await
        } else {
            match session.connected().await {
                Ok(connection) => (connection, target.clean(&session).await),
                Err(EndReason::Closed) => return,
                Err(_) => match core.connected_session().await {
                    Ok(next) => {
                        session = next;
                        continue;
                    }
                    Err(_) => return,
                },
            }
        };
        match outcome {
            Ok(None) => {
                if let Some(made) = restart_counter {
                    target.delete_directory(&session, made).await;
                }
                return;
            }
            Ok(Some(found)) => target = found,
            Err(backend::Error::NotConnected | backend::Error::ConnectionLoss | backend::Error::Throttled) => {
                tracing::debug!(session = session.label(), ?target, "delete is tried again after the next reconnect");
                // The next round checks the outcome.
                let _ = session.connected_after_loss(connection).await;
            }
            Err(backend::Error::SessionEnded) => ended_within(&session, session.timeout()).await,
            Err(error) => {
                core.report(Error::from_backend("delete", &target.to_string(), error));
                // Permissions can be restored; until then all waiters would queue behind the node.
                ended_within(&session, refused.next(&core, core.clock.now())).await;
            }
        }
    }
}

impl Target {
    /// Does one step: deletes the node, or finds its name. Returns `None` when it is gone.
    pub(crate) async fn clean(&self, session: &Arc<Session>) -> Result<Option<Target>, backend::Error> {
        match self {
            Target::Path(path) => gone(session.delete(path, None).await),
            Target::Prefix { dir, prefix } => {
                let found = protection::find(session, dir, prefix).await?;
                Ok(found.map(|name| Target::Path(join(dir, &name).into())))
            }
        }
    }

    /// Tries to delete the directory of the node, if the transaction `made` created it.
    pub(crate) async fn delete_directory(&self, session: &Arc<Session>, made: i64) {
        let dir = match self {
            Target::Path(path) => split(path).0,
            Target::Prefix { dir, .. } => dir,
        };
        // Another node is in it, another client deleted it first, or it has data by now: all are fine.
        if let Ok(Some(stat)) = session.exists(dir).await
            && stat.czxid == made
        {
            let _ = session.delete(dir, Some(0)).await;
        }
    }
}

/// Waits for `most`, or until the session ends. (A request can learn of the end a moment before the condition shows it.)
async fn ended_within(session: &Session, most: Duration) {
    let mut conditions = session.conditions();
    let ended = conditions.wait_for(|condition| matches!(condition, Condition::Ended(_)));
    let _: Result<Result<watch::Ref<'_, Condition>, _>, _> = tokio::time::timeout(most, ended).await;
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Path(path) => f.write_str(path),
            Target::Prefix { dir, prefix } => write!(f, "{dir}/{prefix}…"),
        }
    }
}
