//! Entering a line: one create and one list, handed over together; found again when the answer is lost.

use std::sync::Arc;

use tokio::sync::watch;

use super::{End, Line};
use crate::backend;
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::path::join;
use crate::client::session::{Answer, Session};
use crate::client::{Error, parents, protection};
use crate::types::{CreateMode, Stat};

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
    /// Nothing was created, for the time being.
    NotYet,
    /// It may have been created.
    Unknown,
}

/// Enters the line. Being asked to stop is heeded between attempts only: the outcome of a create that was handed over
/// decides what there is to clean up.
pub(super) async fn enter(
    core: &Arc<Core>,
    session: &Arc<Session>,
    line: &Line,
    stop: &mut watch::Receiver<bool>,
) -> Result<Entered, (End, Option<OwnedNode>)> {
    let prefix = protection::prefix(core.random.uuid());
    let mut entry = Entry {
        core,
        session,
        line,
        requested: join(&line.dir, &format!("{prefix}{}", line.base)),
        prefix,
    };
    let mut node: Option<OwnedNode> = None;
    loop {
        let connection = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Err((End::Asked, node)),
            connected = session.connected() => match connected {
                Ok(connection) => connection,
                Err(_) => return Err((End::SessionOver, node)),
            },
        };
        let attempt = match &node {
            None => entry.create().await,
            Some(_) => entry.recover().await,
        };
        match attempt {
            Ok(Attempt::Created { path, czxid, children }) => {
                let mut node = node.unwrap_or_else(|| entry.expected());
                node.created(Arc::clone(&path));
                return Ok(Entered {
                    node,
                    path,
                    czxid,
                    children,
                    connection,
                });
            }
            Ok(Attempt::NotYet) => {
                // A search that found nothing settles that there is nothing to clean up.
                if let Some(node) = node.take() {
                    node.gone();
                }
            }
            Ok(Attempt::Unknown) => {
                node.get_or_insert_with(|| entry.expected());
                wait_after_loss(session, connection, stop).await;
            }
            Err(Refused::Passing) => wait_after_loss(session, connection, stop).await,
            Err(Refused::For(error)) => return Err((End::Failed(error), node)),
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

enum Refused {
    /// It passes by itself.
    Passing,
    For(Error),
}

struct Entry<'a> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    line: &'a Line,
    prefix: String,
    requested: String,
}

impl Entry<'_> {
    fn expected(&self) -> OwnedNode {
        OwnedNode::expected(self.session, &self.core.janitor, &self.line.dir, self.prefix.clone())
    }

    async fn create(&mut self) -> Result<Attempt, Refused> {
        // From here on a task that is dropped leaves its node to the janitor.
        let expected = self.expected();
        let (create, list) = self.hand_over();
        match create.await {
            Ok((path, stat)) => {
                expected.gone();
                let children = list.await.ok().map(|(children, _)| children);
                Ok(Attempt::Created {
                    path: path.into(),
                    czxid: stat.czxid,
                    children,
                })
            }
            Err(backend::Error::ConnectionLoss | backend::Error::SessionEnded) => {
                expected.gone();
                Ok(Attempt::Unknown)
            }
            Err(backend::Error::NoNode) => {
                expected.gone();
                self.create_parents().await
            }
            Err(error) => {
                expected.gone();
                Err(self.refused(error))
            }
        }
    }

    /// Both requests are queued before either is waited for, so they travel together.
    #[allow(clippy::type_complexity, reason = "two answers")]
    fn hand_over(&self) -> (Answer<(String, Stat)>, Answer<(Vec<String>, Stat)>) {
        let mode = CreateMode::EphemeralSequential;
        let create = self
            .session
            .create(&self.requested, &self.line.data, mode, &self.core.config.acls);
        (create, self.session.list_children(&self.line.dir))
    }

    async fn create_parents(&self) -> Result<Attempt, Refused> {
        match parents::create(self.session, &self.line.dir, &self.core.config.acls).await {
            Ok(()) => Ok(Attempt::NotYet),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Looks for a node whose create was not answered. It counts only if our live session owns it.
    async fn recover(&self) -> Result<Attempt, Refused> {
        let name = match protection::find(self.session, &self.line.dir, &self.prefix).await {
            Ok(Some(name)) => name,
            Ok(None) => return Ok(Attempt::NotYet),
            Err(error) => return self.still_unknown(error),
        };
        let path: Arc<str> = join(&self.line.dir, &name).into();
        match self.session.exists(&path).await {
            Ok(Some(stat)) if stat.ephemeral_owner == self.session.id() => Ok(Attempt::Created {
                path,
                czxid: stat.czxid,
                children: None,
            }),
            Ok(_) => Ok(Attempt::NotYet),
            Err(error) => self.still_unknown(error),
        }
    }

    fn still_unknown(&self, error: backend::Error) -> Result<Attempt, Refused> {
        match self.refused(error) {
            Refused::Passing => Ok(Attempt::Unknown),
            refused => Err(refused),
        }
    }

    fn refused(&self, error: backend::Error) -> Refused {
        if error.is_passing() {
            return Refused::Passing;
        }
        Refused::For(Error::from_backend("stand in line at", &self.line.dir, error))
    }
}
