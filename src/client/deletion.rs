//! A delete that must happen, and one attempt at it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::protection;
use super::session::{Condition, Session};
use crate::engine::{self, Watch};
use crate::util::path::{join, split};
use crate::util::znode::Stat;

/// A node to delete.
#[derive(Debug)]
pub(crate) struct Deletion {
    pub(crate) session: Arc<Session>,
    pub(crate) target: DeletionTarget,
    /// The first attempt, if it was already handed over.
    pub(crate) handed: Option<HandedOver>,
    /// A watch of the node. Kept until the node is gone, because dropping it earlier costs a request.
    pub(crate) watch: Option<Watch>,
    /// Set if the directory's counter is nearly exhausted. The directory is then deleted after the node, if this
    /// transaction created it, so that the counter restarts.
    pub(crate) restart_counter: Option<i64>,
    /// Dropped when the node is gone, which notifies the caller that waits for it.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// The node to delete.
#[derive(Debug, Clone)]
pub(crate) enum DeletionTarget {
    /// The path of a node that was created. Its name contains a UUID, so it can never belong to another client.
    Path(Arc<str>),
    /// A create of unknown outcome, identified by the directory and the prefix of the name.
    Prefix { dir: Arc<str>, prefix: String },
    /// A node at a path that other clients use too.
    Shared(SharedPath),
}

/// A node whose path may belong to another client by the time it is deleted.
#[derive(Debug, Clone)]
pub(crate) struct SharedPath {
    pub(crate) path: Arc<str>,
    /// The session that owns the node; `None` if it outlasts sessions.
    pub(crate) owner: Option<i64>,
    /// The transaction that created the node; `None` while the outcome of the create is not known.
    pub(crate) czxid: Option<i64>,
}

impl SharedPath {
    /// Deletes the node if it is still the intended one. Reads after a sync, and deletes the version that it has read.
    async fn clean(&self, session: &Arc<Session>) -> Result<Option<DeletionTarget>, engine::Error> {
        if self.owner.is_some_and(|owner| owner != session.id()) {
            // The session of the node is over, and the servers delete the node. Another client may create its own at
            // that moment.
            return Ok(None);
        }
        let (sync, found) = session.together(|| (session.sync(&self.path), session.exists(&self.path)));
        let (sync, found) = futures::join!(sync, found);
        sync?;
        let Some(stat) = found?.filter(|stat| self.is_intended(stat)) else { return Ok(None) };
        match gone(session.delete(&self.path, Some(stat.version)).await) {
            // The node was written in between.
            Err(engine::Error::BadVersion) => Ok(Some(DeletionTarget::Shared(self.clone()))),
            outcome => outcome,
        }
    }

    fn is_intended(&self, stat: &Stat) -> bool {
        match self.czxid {
            Some(czxid) => stat.czxid == czxid,
            None => stat.ephemeral_owner == self.owner.unwrap_or(0),
        }
    }
}

impl DeletionTarget {
    /// Takes one step: deletes the node, or finds its name. Returns `None` once the node is gone.
    pub(crate) async fn clean(&self, session: &Arc<Session>) -> Result<Option<DeletionTarget>, engine::Error> {
        match self {
            DeletionTarget::Path(path) => gone(session.delete(path, None).await),
            DeletionTarget::Prefix { dir, prefix } => {
                let found = protection::find(session, dir, prefix).await?;
                Ok(found.map(|name| DeletionTarget::Path(join(dir, &name).into())))
            }
            DeletionTarget::Shared(node) => node.clean(session).await,
        }
    }

    /// Tries to delete the directory of the node, if the transaction `made` created it.
    pub(crate) async fn delete_directory(&self, session: &Arc<Session>, made: i64) {
        let dir = match self {
            DeletionTarget::Path(path) | DeletionTarget::Shared(SharedPath { path, .. }) => split(path).0,
            DeletionTarget::Prefix { dir, .. } => dir,
        };
        // This fails if another node is in it, another client deleted it first, or it has data by now. All are
        // acceptable.
        if let Ok(Some(stat)) = session.exists(dir).await
            && stat.czxid == made
        {
            let _ = session.delete(dir, Some(0)).await;
        }
    }
}

impl fmt::Display for DeletionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeletionTarget::Path(path) | DeletionTarget::Shared(SharedPath { path, .. }) => f.write_str(path),
            DeletionTarget::Prefix { dir, prefix } => write!(f, "{dir}/{prefix}…"),
        }
    }
}

/// A delete that was already handed over, so that no later request of its session overtakes it.
pub(crate) struct HandedOver {
    path: Arc<str>,
    connection: u64,
    reply: Pin<Box<dyn Future<Output = Result<(), engine::Error>> + Send>>,
}

impl HandedOver {
    /// Hands the delete over if there is a connection now. Neither blocks nor spawns, so a `drop` may call it.
    pub(crate) fn delete(session: &Arc<Session>, path: &Arc<str>) -> Option<Self> {
        let Condition::Connected(connection) = session.condition() else { return None };
        Some(HandedOver { path: Arc::clone(path), connection, reply: Box::pin(session.delete(path, None)) })
    }

    /// Returns the path of the node that it deletes.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the connection on which it was sent, and its outcome.
    pub(crate) async fn outcome(self) -> (u64, Result<Option<DeletionTarget>, engine::Error>) {
        (self.connection, gone(self.reply.await))
    }
}

impl fmt::Debug for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedOver").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Maps the answer to a delete: `None` if the node is gone, or an error.
fn gone(deleted: Result<(), engine::Error>) -> Result<Option<DeletionTarget>, engine::Error> {
    match deleted {
        Ok(()) | Err(engine::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
