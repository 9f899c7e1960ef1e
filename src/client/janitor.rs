//! Deletes that must happen: nodes of released locks, dropped guards, cancelled calls (Curator's guaranteed deletes).
//!
//! A job is tried after every reconnect until the node is known to be gone. When its session is over it goes on with the
//! next one: what we gave up stands until the server expires it, and no waiter should queue behind a node left over.

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

/// Delays after the server has refused a delete, each twice the one before, up to the second figure.
const AFTER_REFUSAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A node to be rid of. Its name holds a uuid, so it can never be anybody else's.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) session: Arc<Session>,
    pub(crate) target: Target,
    /// The first attempt, if it was handed over already.
    pub(crate) handed: Option<HandedOver>,
    /// A watch of the node: it ends with the node, at no cost; dropped before, it costs a request.
    pub(crate) watch: Option<Watch>,
    /// The directory's counter is nearly used up: with the node the directory is to go, if it is still the one that was made
    /// by this transaction, so that the counter starts anew.
    pub(crate) restart_counter: Option<i64>,
    /// Dropped when the node is gone, for who waits for that.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// A delete that has left already, so that nothing that its session sends later overtakes it.
pub(crate) struct HandedOver {
    connection: u64,
    reply: Pin<Box<dyn Future<Output = Result<(), backend::Error>> + Send>>,
}

impl HandedOver {
    /// Hands it over, unless there is no connection now. Neither blocks nor spawns, so it may be called by a `drop`.
    pub(crate) fn delete(session: &Arc<Session>, path: &str) -> Option<Self> {
        let Condition::Connected(connection) = session.condition() else { return None };
        Some(HandedOver { connection, reply: Box::pin(session.delete(path, None)) })
    }

    /// On which connection it went, and what came of it.
    pub(crate) async fn outcome(self) -> (u64, Result<Option<Target>, backend::Error>) {
        (self.connection, gone(self.reply.await))
    }
}

impl fmt::Debug for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedOver").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// What the answer to a delete says of the node: that it is gone, or an error.
fn gone(deleted: Result<(), backend::Error>) -> Result<Option<Target>, backend::Error> {
    match deleted {
        Ok(()) | Err(backend::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which node.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The path of a node that was created.
    Path(Arc<str>),
    /// A create of unknown outcome: the directory, and how the name begins.
    Prefix { dir: Arc<str>, prefix: String },
}

/// Works until the client is closed. Each job is a task of its own, as none waits for another.
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
                // Whatever comes of it is looked at in the next round.
                let _ = session.connected_after_loss(connection).await;
            }
            Err(backend::Error::SessionEnded) => ended_within(&session, session.timeout()).await,
            Err(error) => {
                core.report(Error::from_backend("delete", &target.to_string(), error));
                // Permissions are given back; until then everybody would queue behind the node.
                ended_within(&session, refused.next(&core, core.clock.now())).await;
            }
        }
    }
}

impl Target {
    /// One step: deletes the node, or finds out which it is. `None` when it is gone.
    pub(crate) async fn clean(&self, session: &Arc<Session>) -> Result<Option<Target>, backend::Error> {
        match self {
            Target::Path(path) => gone(session.delete(path, None).await),
            Target::Prefix { dir, prefix } => {
                let found = protection::find(session, dir, prefix).await?;
                Ok(found.map(|name| Target::Path(join(dir, &name).into())))
            }
        }
    }

    /// Tries to delete the directory of the node, if it is the one that the transaction `made` has made.
    pub(crate) async fn delete_directory(&self, session: &Arc<Session>, made: i64) {
        let dir = match self {
            Target::Path(path) => split(path).0,
            Target::Prefix { dir, .. } => dir,
        };
        // Somebody else stands there, was faster, or has put data there since: all are fine.
        if let Ok(Some(stat)) = session.exists(dir).await
            && stat.czxid == made
        {
            let _ = session.delete(dir, Some(0)).await;
        }
    }
}

/// Waits so long, or until the session is over. (A request can learn of the end a moment before the condition tells of it.)
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
