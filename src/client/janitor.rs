//! Deletes that must happen: nodes of released locks, dropped guards, cancelled calls (Curator's guaranteed deletes).
//!
//! A job is tried after every reconnect until the node is known to be gone. When its session is over it goes on with the
//! next one: what we gave up stands until the server expires it, and nobody should queue behind a ghost of ours; and an
//! expiry that the client crate reports is now and then its own guess.

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, watch};

use super::core::{Core, Current};
use super::error::Error;
use super::protection;
use super::session::{Condition, EndReason, Session};
use crate::backend;
use crate::path::join;

/// A node to be rid of. Its name holds a uuid, so it can never be anybody else's.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) session: Arc<Session>,
    pub(crate) target: Target,
}

/// Which node.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The path of a node that was created.
    Path(Arc<str>),
    /// A create of unknown outcome: the directory, and how the name begins.
    Prefix { dir: Arc<str>, prefix: String },
}

/// Works until the client is closed.
pub(crate) async fn run(core: Arc<Core>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut current = core.current.subscribe();
    let closed = current.wait_for(|current| matches!(current, Current::Closed));
    tokio::pin!(closed);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut closed => return,
            Some(job) = jobs.recv() => running.push(clean(&core, job)),
            Some(()) = running.next() => {}
            else => return,
        }
    }
}

async fn clean(core: &Arc<Core>, job: Job) {
    let mut session = job.session;
    let mut target = job.target;
    loop {
        let connection = match session.connected().await {
            Ok(connection) => connection,
            Err(EndReason::Closed) => return,
            Err(_) => match core.connected_session().await {
                Ok(next) => {
                    session = next;
                    continue;
                }
                Err(_) => return,
            },
        };
        match target.clean(&session).await {
            Ok(None) => return,
            Ok(Some(found)) => target = found,
            Err(backend::Error::NotConnected | backend::Error::ConnectionLoss | backend::Error::Throttled) => {
                tracing::debug!(session = session.label(), ?target, "delete is tried again after the next reconnect");
                // Whatever comes of it is looked at in the next round.
                let _ = session.connected_after_loss(connection).await;
            }
            Err(backend::Error::SessionEnded) => wait_for_end(&session).await,
            Err(error) => {
                core.report(Error::from_backend("delete", &target.to_string(), error));
                return;
            }
        }
    }
}

impl Target {
    /// One step: deletes the node, or finds out which it is. `None` when it is gone.
    pub(crate) async fn clean(&self, session: &Arc<Session>) -> Result<Option<Target>, backend::Error> {
        match self {
            Target::Path(path) => match session.delete(path, None).await {
                Ok(()) | Err(backend::Error::NoNode) => Ok(None),
                Err(error) => Err(error),
            },
            Target::Prefix { dir, prefix } => {
                let found = protection::find(session, dir, prefix).await?;
                Ok(found.map(|name| Target::Path(join(dir, &name).into())))
            }
        }
    }
}

/// A request can learn of the end a moment before the condition tells of it.
async fn wait_for_end(session: &Session) {
    let mut conditions = session.conditions();
    let ended = conditions.wait_for(|condition| matches!(condition, Condition::Ended(_)));
    let _: Result<Result<watch::Ref<'_, Condition>, _>, _> = tokio::time::timeout(session.timeout(), ended).await;
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Path(path) => f.write_str(path),
            Target::Prefix { dir, prefix } => write!(f, "{dir}/{prefix}…"),
        }
    }
}
