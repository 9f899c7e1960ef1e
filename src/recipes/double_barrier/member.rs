//! One member, from its arrival until no trace of it is left. It runs in its own task, so a caller may be dropped at
//! any time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::Error;
use super::znodes::{Generation, Znodes};
use crate::client;
use crate::client::owned_node::OwnedNode;
use crate::client::session::{EndReason, Session};
use crate::engine;
use crate::util::path::join;
use crate::util::wait::sleep_until_opt;

/// A member that waits for longer than this watches its own node, to learn when another client deletes it.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// Sends the answer to the caller; closed when no caller waits for it any more.
pub(super) type ReplySender = oneshot::Sender<Result<bool, Error>>;

/// Asks the task to leave. `patience` is when it stops waiting for the others.
#[derive(Debug)]
pub(super) struct LeaveCommand {
    pub(super) patience: Option<Instant>,
    pub(super) reply: ReplySender,
}

/// A node of a session that is over, which may still exist.
pub(super) type Leftover = Option<Arc<str>>;

/// Why an attempt ended without a result.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// A request failed. Its error shows whether a retry can help.
    Request(engine::Error),
    /// Another client deleted our node while we were inside.
    NodeDeleted,
}

impl From<engine::Error> for AttemptError {
    fn from(error: engine::Error) -> Self {
        AttemptError::Request(error)
    }
}

/// A member, and what it knows of its node.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) znodes: Arc<Znodes>,
    pub(super) session: Arc<Session>,
    pub(super) name: String,
    pub(super) path: Arc<str>,
    /// Set from before the create is sent until the node is known to be gone.
    pub(super) node: Option<OwnedNode>,
    /// The transaction that created the node, once that is known.
    pub(super) czxid: Option<i64>,
    /// The node's data version, as far as we know.
    pub(super) version: i32,
    /// The member joined a round, or may have: the answer was lost.
    pub(super) joining: bool,
    /// The generation of the round we are in, as last seen while our node existed.
    pub(super) round: Option<Generation>,
    /// A delete of the node was sent.
    pub(super) stepped_out: bool,
    /// Whether this member may have left a `ready` that no member needs.
    pub(super) ready_needs_cleanup: bool,
    pub(super) leftover: Leftover,
}

/// Runs one member: enters, waits for the command to leave, and leaves. Withdraws if its caller is gone.
pub(super) async fn run(
    znodes: Arc<Znodes>,
    leftover: Leftover,
    patience: Option<Instant>,
    mut reply: ReplySender,
    command: oneshot::Receiver<LeaveCommand>,
    settled: oneshot::Sender<Leftover>,
) {
    let arrival = async {
        tokio::select! {
            biased;
            () = reply.closed() => None,
            session = znodes.core.connected_session() => Some(session),
            () = sleep_until_opt(patience) => None,
        }
    };
    let session = match arrival.await {
        Some(Ok(session)) => session,
        nothing => {
            // Nothing was sent.
            let answer = match nothing {
                Some(Err(error)) => Err(Error::client(&znodes.path, error)),
                _ if leftover.is_some() => Err(Error::left_behind(&znodes.path)),
                _ => Err(Error::no_server_asked(&znodes.path)),
            };
            // The receiver of either may be gone.
            let _ = settled.send(leftover);
            let _ = reply.send(answer);
            return;
        }
    };
    let mut member = Member::new(znodes, session, leftover);
    let entered = tokio::select! {
        biased;
        () = reply.closed() => None,
        entered = member.enter(patience) => Some(entered),
    };
    let inside = matches!(entered, Some(Ok(true)));
    let mut settled = Some(settled);
    if member.send_reply(reply, entered, &mut settled)
        && inside
        && let Ok(LeaveCommand { patience, mut reply }) = command.await
    {
        let left = tokio::select! {
            biased;
            () = reply.closed() => None,
            left = member.leave(patience) => Some(left),
        };
        member.send_reply(reply, left, &mut settled);
    }
    let leftover = member.withdraw().await;
    if let Some(settled) = settled {
        let _ = settled.send(leftover);
    }
}

impl Member {
    fn new(znodes: Arc<Znodes>, session: Arc<Session>, leftover: Leftover) -> Self {
        let mut member = Member {
            znodes,
            session,
            name: String::new(),
            path: "".into(),
            node: None,
            czxid: None,
            version: 0,
            joining: false,
            round: None,
            stepped_out: false,
            ready_needs_cleanup: false,
            leftover,
        };
        member.take_name();
        member
    }

    /// Takes a name that was never used before, so that no answer about another node can be taken for one about ours.
    pub(super) fn take_name(&mut self) {
        self.name = self.znodes.core.random.uuid().to_string();
        self.path = join(&self.znodes.dir, &self.name).into();
        self.czxid = None;
        self.version = 0;
        self.joining = false;
    }

    /// Records that the node is known not to exist.
    pub(super) fn gone(&mut self) {
        if let Some(node) = self.node.take() {
            node.gone();
        }
        self.czxid = None;
    }

    /// Sends the answer to the caller, if there is one, and returns whether the caller received it. If nothing is left
    /// to clean up, `settled` is sent first, so that the caller need not wait for it.
    fn send_reply(
        &self,
        reply: ReplySender,
        answer: Option<Result<bool, Error>>,
        settled: &mut Option<oneshot::Sender<Leftover>>,
    ) -> bool {
        let Some(answer) = answer else { return false };
        if self.node.is_none()
            && !self.ready_needs_cleanup
            && let Some(settled) = settled.take()
        {
            let _ = settled.send(self.leftover.clone());
        }
        reply.send(answer).is_ok()
    }

    /// Returns the error for the end of the session, which ends this member too.
    pub(super) fn ended(&self, doing: &str, reason: EndReason) -> Error {
        match reason {
            EndReason::Closed => Error::Closed { path: Arc::clone(&self.znodes.path) },
            _ => Error::client(&self.znodes.path, client::Error::session_lost(doing, &self.znodes.path)),
        }
    }

    /// Returns the error to report, if a retry cannot help. Otherwise waits for the loss of the connection to show.
    pub(super) async fn retry_or_fail(&self, doing: &str, connection: u64, cause: AttemptError) -> Result<(), Error> {
        let error = match cause {
            AttemptError::Request(error) if error.is_transient() => {
                self.session.wait_for_disconnect(connection).await;
                return Ok(());
            }
            AttemptError::Request(error) => error,
            AttemptError::NodeDeleted => {
                let (path, node) = (Arc::clone(&self.znodes.path), Arc::clone(&self.path));
                return Err(Error::NodeDeleted { path, node });
            }
        };
        let unknown = error.leaves_outcome_unknown();
        let mut error = client::Error::from_engine(doing, &self.znodes.path, error);
        if unknown && self.node.is_some() {
            error = error.outcome_unknown("; the node, if there is one, is deleted in the background");
        }
        Err(Error::client(&self.znodes.path, error))
    }

    /// Removes what is left of this member, however long it takes. If the session ends first, returns the node that may
    /// still exist; the janitor deletes that node too.
    async fn withdraw(&mut self) -> Leftover {
        if let Some(mut node) = self.node.take()
            && let Err(error) = node.delete(None).await
        {
            tracing::debug!(
                event = "node_left_to_janitor",
                path = &*self.znodes.path,
                node = &*self.path,
                ?error,
                "the node of a member is left to the janitor"
            );
            return Some(Arc::clone(&self.path));
        }
        while std::mem::take(&mut self.ready_needs_cleanup) {
            let Ok(connection) = self.session.connected().await else { break };
            match self.remove_stale_ready().await {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.ready_needs_cleanup = true;
                    self.session.wait_for_disconnect(connection).await;
                }
                // A `ready` without members is harmless: the next member to arrive removes it.
                Err(error) => {
                    tracing::debug!(
                        event = "stale_ready_unknown",
                        path = &*self.znodes.path,
                        ?error,
                        "could not look for a leftover `ready`"
                    );
                }
            }
        }
        self.leftover.take()
    }

    /// Removes `ready` if there are no members.
    async fn remove_stale_ready(&self) -> Result<(), engine::Error> {
        match self.znodes.view(&self.session, &self.name).await {
            Ok(view) if view.ready && view.others.is_empty() => {
                // If refused, another member has acted on it.
                self.znodes.remove_ready(&self.session, &view.stat, None).await.map(drop)
            }
            Ok(_) | Err(engine::Error::NoNode) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
