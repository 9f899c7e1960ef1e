//! Enters a line by one create and one list, handed over together. (Under [`Rule::Counted`] there is no list.) Finds
//! the node again when the answer is lost.

use std::fmt;
use std::sync::Arc;

use futures::future::{Join, OptionFuture, join};
use tracing::Span;

use super::{End, Rule, Spec};
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::session::{Contending, Session};
use crate::client::{Error, parents, protection};
use crate::engine::{self, Reply};
use crate::layout::parts;
use crate::util::path::join as join_path;
use crate::util::znode::{CreateMode, Stat};

/// A node of our own in the line.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) node: OwnedNode,
    pub(super) path: Arc<str>,
    /// The transaction that created it.
    pub(super) czxid: i64,
    /// The children as of the create; `None` if the answer was lost.
    pub(super) children: Option<Vec<String>>,
    /// The connection on which all this was seen.
    pub(super) connection: u64,
    /// The span of the call that waits.
    pub(super) span: Span,
}

/// The outcome of one attempt.
enum Attempt {
    Created {
        path: Arc<str>,
        czxid: i64,
        children: Option<Vec<String>>,
    },
    /// Nothing was created, as the directory is missing.
    NoDirectory,
    /// Nothing was created; to be retried at once.
    Again,
    /// Nothing was created; to be retried on the next connection.
    Later,
    /// It may have been created; to be looked for on the next connection.
    Unknown,
    /// Nothing was created, and a retry would fail too.
    Refused(Error),
    /// It may have been created and cannot be looked for.
    Untraceable(Error),
}

type Created = Reply<(String, Stat)>;
type Listed = Reply<(Vec<String>, Stat)>;

/// A create, and the list that was handed over together with it, if the place in the order matters.
struct Flight {
    connection: u64,
    answers: Join<Created, OptionFuture<Listed>>,
}

/// One contender's entry to the line in one session. All its attempts use the same name.
pub(super) struct Entry {
    core: Arc<Core>,
    pub(super) session: Arc<Session>,
    spec: Arc<Spec>,
    _contending: Contending,
    prefix: String,
    requested: String,
    flight: Option<Flight>,
    /// Present while a create may take effect: from before it is handed over until it is known to have created nothing.
    node: Option<OwnedNode>,
}

impl Entry {
    pub(super) fn new(core: &Arc<Core>, session: Arc<Session>, spec: &Arc<Spec>, label: &str) -> Self {
        let prefix = parts::protection(core.random.uuid());
        let requested = join_path(&spec.dir, &format!("{prefix}{label}{}", spec.base));
        let (core, spec, _contending) = (Arc::clone(core), Arc::clone(spec), session.contender());
        Entry { core, session, spec, _contending, prefix, requested, flight: None, node: None }
    }

    /// Enters the line. If the future is dropped at an await, the next call resumes it: no answer gets lost.
    pub(super) async fn enter(&mut self) -> Result<Entered, End> {
        loop {
            let (connection, attempt) = match &mut self.flight {
                Some(flight) => {
                    let (created, listed) = (&mut flight.answers).await;
                    let connection = flight.connection;
                    self.flight = None;
                    (connection, self.classify_create(created, children(listed)))
                }
                None => {
                    let Ok(connection) = self.session.connected().await else { return Err(End::SessionOver) };
                    if self.node.is_none() {
                        self.hand_over(connection);
                        continue;
                    }
                    (connection, self.recover().await)
                }
            };
            match attempt {
                Attempt::Created { path, czxid, children } => {
                    let mut node = self.node.take().unwrap_or_else(|| self.expected());
                    node.created(Arc::clone(&path));
                    return Ok(Entered { node, path, czxid, children, connection, span: Span::none() });
                }
                Attempt::NoDirectory => {
                    self.not_created();
                    self.create_parents(connection).await?;
                }
                Attempt::Again => self.not_created(),
                Attempt::Later => {
                    self.not_created();
                    self.session.wait_for_disconnect(connection).await;
                }
                Attempt::Unknown => self.session.wait_for_disconnect(connection).await,
                Attempt::Refused(error) => {
                    self.not_created();
                    return Err(End::Failed(error));
                }
                Attempt::Untraceable(error) => return Err(End::Failed(error)),
            }
        }
    }

    /// Gives up the entry. Returns the node to delete, as soon as that is known.
    pub(super) async fn give_up(mut self) -> Option<OwnedNode> {
        if let Some(flight) = self.flight.take() {
            let (created, listed) = flight.answers.await;
            match self.classify_create(created, children(listed)) {
                Attempt::Created { path, .. } => {
                    if let Some(node) = &mut self.node {
                        node.created(path);
                    }
                }
                Attempt::Unknown | Attempt::Untraceable(_) => {}
                _ => self.not_created(),
            }
        }
        self.node.take()
    }

    /// Returns the node that may exist after an [`enter`](Self::enter) that failed.
    pub(super) fn into_node(mut self) -> Option<OwnedNode> {
        self.node.take()
    }

    fn expected(&self) -> OwnedNode {
        OwnedNode::expected(&self.session, &self.core.janitor, &self.spec.dir, self.prefix.clone())
    }

    fn not_created(&mut self) {
        if let Some(node) = self.node.take() {
            node.gone();
        }
    }

    /// Hands over the create, and the list if the place in line matters. Both are queued before either is awaited, so
    /// they travel together.
    fn hand_over(&mut self, connection: u64) {
        self.node = Some(self.expected());
        let acls = &self.core.config.acls;
        let (create, list) = self.session.together(|| {
            let create = self.session.create(&self.requested, &self.spec.data, CreateMode::EphemeralSequential, acls);
            let is_ordered = !matches!(self.spec.rule, Rule::Counted);
            (create, is_ordered.then(|| self.session.list_children(&self.spec.dir)))
        });
        self.flight = Some(Flight { connection, answers: join(create, list.into()) });
    }

    fn classify_create(
        &self,
        created: Result<(String, Stat), engine::Error>,
        children: Option<Vec<String>>,
    ) -> Attempt {
        match created {
            Ok((path, stat)) => Attempt::Created { path: path.into(), czxid: stat.czxid, children },
            Err(engine::Error::NoNode) => Attempt::NoDirectory,
            Err(engine::Error::ConnectionLoss | engine::Error::SessionEnded) => Attempt::Unknown,
            Err(error) if error.is_transient() => Attempt::Later,
            Err(error) if error.leaves_outcome_unknown() => Attempt::Untraceable(self.error(error)),
            Err(error) => Attempt::Refused(self.error(error)),
        }
    }

    /// Creates the directory, or waits for the next connection. The next attempt shows whether it exists.
    async fn create_parents(&mut self, connection: u64) -> Result<(), End> {
        match parents::try_create(&self.session, &self.spec.dir, &self.core.config.acls).await {
            Ok(Some(czxid)) => self.core.made.note(&self.spec.dir, czxid),
            Ok(None) => {}
            Err(error) => {
                let retryable = self.session.wait_if_transient(error, connection).await;
                retryable.map_err(|error| End::Failed(self.error(error)))?;
            }
        }
        Ok(())
    }

    /// Looks for a node whose create was not answered. It counts only if our live session owns it.
    async fn recover(&mut self) -> Attempt {
        let (session, dir) = (&self.session, &self.spec.dir);
        let found = async {
            let Some(name) = protection::find(session, dir, &self.prefix).await? else {
                return Ok(None);
            };
            let path = join_path(dir, &name);
            let stat = session.exists(&path).await?;
            Ok(stat.map(|stat| (path, stat)))
        };
        match found.await {
            Ok(Some((path, stat))) if stat.ephemeral_owner == self.session.id() => {
                Attempt::Created { path: path.into(), czxid: stat.czxid, children: None }
            }
            Ok(_) => Attempt::Again,
            Err(error) if engine::Error::is_transient(&error) => Attempt::Unknown,
            Err(error) => Attempt::Untraceable(self.error(error)),
        }
    }

    fn error(&self, error: engine::Error) -> Error {
        Error::from_engine("contend at", &self.spec.dir, error)
    }
}

fn children(listed: Option<Result<(Vec<String>, Stat), engine::Error>>) -> Option<Vec<String>> {
    Some(listed?.ok()?.0)
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("requested", &self.requested).finish_non_exhaustive()
    }
}
