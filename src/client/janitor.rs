//! Deletes that must happen: nodes of released locks, dropped guards, cancelled calls (Curator's guaranteed deletes).
//!
//! A job is tried after every reconnect until the node is known to be gone. When its session is over it goes on with the
//! next one: what we gave up stands until the server expires it, and nobody should queue behind a ghost of ours; and an
//! expiry that the client crate reports is now and then its own guess.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

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
    /// A watch of the node: it ends with the node, at no cost; dropped before, it costs a request.
    pub(crate) watch: Option<Watch>,
    /// The directory's counter is nearly used up: with the node the directory is to go, so that it starts anew.
    pub(crate) restart_counter: bool,
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
    let Job { mut session, mut target, watch: _watch, restart_counter } = job;
    let mut refused = Delays::new(AFTER_REFUSAL);
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
            Ok(None) => {
                if restart_counter {
                    target.delete_directory(&session).await;
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

    /// Tries to delete the directory of the node.
    pub(crate) async fn delete_directory(&self, session: &Arc<Session>) {
        let dir = match self {
            Target::Path(path) => split(path).0,
            Target::Prefix { dir, .. } => dir,
        };
        // Somebody else stands there, or was faster: both are fine.
        let _ = session.delete(dir, None).await;
    }
}

/// Waits so long, or until the session is over. (A request can learn of the end a moment before the condition tells of it.)
async fn ended_within(session: &Session, most: Duration) {
    let mut conditions = session.conditions();
    let ended = conditions.wait_for(|condition| matches!(condition, Condition::Ended(_)));
    let _: Result<Result<watch::Ref<'_, Condition>, _>, _> = tokio::time::timeout(most, ended).await;
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Path(path) => f.write_str(path),
            Target::Prefix { dir, prefix } => write!(f, "{dir}/{prefix}…"),
        }
    }
}
