//! Entering a line: one create and one list, handed over together; found again when the answer is lost.

use std::sync::Arc;

use tokio::sync::watch;

use super::{End, Line};
use crate::backend;
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::session::Session;
use crate::client::{Error, parents, protection};
use crate::path::join;
use crate::types::CreateMode;

/// A node of our own in the line.
pub(super) struct Entered {
    pub(super) node: OwnedNode,
    pub(super) path: Arc<str>,
    /// The transaction that created it.
    pub(super) czxid: i64,
    /// The children as of the create; none if the answer was lost.
    pub(super) children: Option<Vec<String>>,
    /// The connection on which all this was seen.
    pub(super) connection: u64,
}

/// What became of one attempt.
enum Attempt {
    Created {
        path: Arc<str>,
        czxid: i64,
        children: Option<Vec<String>>,
    },
    /// Nothing was created; worth another try at once.
    Again,
    /// Nothing was created; worth another try on the next connection.
    Later,
    /// It may have been created; to be looked for on the next connection.
    Unknown,
    /// Nothing was created, and trying again is no use.
    Refused(Error),
    /// It may have been created and cannot be looked for.
    Untraceable(Error),
}

/// Enters the line. Being asked to stop is heeded between attempts only: the outcome of a create that was handed over
/// decides what there is to clean up.
pub(super) async fn enter(
    core: &Arc<Core>,
    session: &Arc<Session>,
    line: &Line,
    stop: &mut watch::Receiver<bool>,
) -> Result<Entered, (End, Option<OwnedNode>)> {
    let entry = Entry::new(core, session, line);
    // There is one while a create is in doubt: from before it is handed over until it is known that nothing came of it.
    let mut doubt: Option<OwnedNode> = None;
    loop {
        let connection = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Err((End::Asked, doubt)),
            connected = session.connected() => match connected {
                Ok(connection) => connection,
                Err(_) => return Err((End::SessionOver, doubt)),
            },
        };
        let (mut node, attempt) = match doubt.take() {
            None => (entry.expected(), entry.create().await),
            Some(node) => (node, entry.recover().await),
        };
        match attempt {
            Attempt::Created { path, czxid, children } => {
                node.created(Arc::clone(&path));
                return Ok(Entered { node, path, czxid, children, connection });
            }
            Attempt::Again => node.gone(),
            Attempt::Later => {
                node.gone();
                wait_after_loss(session, connection, stop).await;
            }
            Attempt::Unknown => {
                doubt = Some(node);
                wait_after_loss(session, connection, stop).await;
            }
            Attempt::Refused(error) => {
                node.gone();
                return Err((End::Failed(error), None));
            }
            Attempt::Untraceable(error) => return Err((End::Failed(error), Some(node))),
        }
    }
}

async fn wait_after_loss(session: &Session, connection: u64, stop: &mut watch::Receiver<bool>) {
    // The loop looks at what came of it.
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => {}
        _ = session.connected_after_loss(connection) => {}
    }
}

/// One contender's entry: its name stays the same however often it is tried.
struct Entry<'a> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    line: &'a Line,
    prefix: String,
    requested: String,
}

impl<'a> Entry<'a> {
    fn new(core: &'a Arc<Core>, session: &'a Arc<Session>, line: &'a Line) -> Self {
        let prefix = protection::prefix(core.random.uuid());
        let requested = join(&line.dir, &format!("{prefix}{}", line.base));
        Entry { core, session, line, prefix, requested }
    }

    fn expected(&self) -> OwnedNode {
        OwnedNode::expected(self.session, &self.core.janitor, &self.line.dir, self.prefix.clone())
    }

    async fn create(&self) -> Attempt {
        let acls = &self.core.config.acls;
        // Both are queued before either is waited for, so they travel together.
        let create = self.session.create(&self.requested, &self.line.data, CreateMode::EphemeralSequential, acls);
        let list = self.session.list_children(&self.line.dir);
        match create.await {
            Ok((path, stat)) => {
                let children = list.await.ok().map(|(children, _)| children);
                Attempt::Created { path: path.into(), czxid: stat.czxid, children }
            }
            Err(backend::Error::NoNode) => self.create_parents().await,
            Err(backend::Error::ConnectionLoss | backend::Error::SessionEnded) => Attempt::Unknown,
            Err(error) if error.is_passing() => Attempt::Later,
            Err(error) => Attempt::Refused(self.error(error)),
        }
    }

    async fn create_parents(&self) -> Attempt {
        match parents::create(self.session, &self.line.dir, &self.core.config.acls).await {
            // A parent can be taken away between two steps.
            Ok(()) | Err(backend::Error::NoNode) => Attempt::Again,
            Err(error) if error.is_passing() => Attempt::Later,
            Err(error) => Attempt::Refused(self.error(error)),
        }
    }

    /// Looks for a node whose create was not answered. It counts only if our live session owns it.
    async fn recover(&self) -> Attempt {
        let found = async {
            let Some(name) = protection::find(self.session, &self.line.dir, &self.prefix).await? else {
                return Ok(None);
            };
            let path = join(&self.line.dir, &name);
            let stat = self.session.exists(&path).await?;
            Ok(stat.map(|stat| (path, stat)))
        };
        match found.await {
            Ok(Some((path, stat))) if stat.ephemeral_owner == self.session.id() => {
                Attempt::Created { path: path.into(), czxid: stat.czxid, children: None }
            }
            Ok(_) => Attempt::Again,
            Err(error) if backend::Error::is_passing(&error) => Attempt::Unknown,
            Err(error) => Attempt::Untraceable(self.error(error)),
        }
    }

    fn error(&self, error: backend::Error) -> Error {
        Error::from_backend("stand in line at", &self.line.dir, error)
    }
}
