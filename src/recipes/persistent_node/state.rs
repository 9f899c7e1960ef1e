//! The state of a persistent node, and what its handle and its task share.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::Error;
use crate::client;

/// The state of a persistent node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node does not exist, or is not known to exist: before it is created, and after a lost session.
    Creating,
    /// The node exists, as of the last answer or event.
    Present,
    /// A node of another kind existed and was adopted: a persistent one where an ephemeral one is wanted, which does
    /// not end with the session; or an ephemeral one of this client's own session where a lasting one is wanted.
    OtherKind,
    /// Another session owns the node at the path. It is left alone, and ours is created when it is gone.
    Waiting,
    /// The connection may be lost. An ephemeral node that existed lives as long as the session; any other remains.
    Suspended,
    /// The node could not be created, read or written, for this reason. The attempt is retried with growing delays.
    Failed(Error),
    /// The persistent node or its client was closed. No other state follows.
    Closed,
}

impl NodeState {
    /// Returns whether the node exists, as of the last answer or event.
    pub fn is_present(&self) -> bool {
        matches!(self, NodeState::Present | NodeState::OtherKind)
    }

    /// Returns the reason of the state `Failed`.
    pub fn error(&self) -> Option<&Error> {
        match self {
            NodeState::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::Creating => "creating",
            NodeState::Present => "present",
            NodeState::OtherKind => "other-kind",
            NodeState::Waiting => "waiting",
            NodeState::Suspended => "suspended",
            NodeState::Failed(_) => "failed",
            NodeState::Closed => "closed",
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for NodeState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The data that the node is to have.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) data: Arc<[u8]>,
    /// Grows with each change, from 1.
    pub(super) number: u64,
}

/// Another session's node at the path.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) session: i64,
    pub(crate) data: Vec<u8>,
}

/// What the task has achieved so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The path of the node without the namespace, once the node was created or adopted.
    pub(super) node: Option<Arc<str>>,
    /// The number of the latest data that is known to be in the node.
    pub(super) written: u64,
    /// The number of failures, and the last one until something succeeds.
    pub(super) failures: u64,
    pub(super) error: Option<Error>,
    /// The number of the latest data that was wanted when the failed step began: the failure does not concern newer
    /// data.
    pub(super) failed: u64,
    pub(super) closed: bool,
    /// The latest node of another session that was seen, which is not a former session of this one.
    pub(super) foreign: Option<Foreign>,
}

/// The state that the handle and the task share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: Arc<str>,
    pub(super) state: watch::Sender<NodeState>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) wanted: watch::Sender<Wanted>,
    closing: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, data: Vec<u8>) -> Self {
        Shared {
            path,
            state: watch::Sender::new(NodeState::Creating),
            progress: watch::Sender::new(Progress::default()),
            wanted: watch::Sender::new(Wanted { data: data.into(), number: 1 }),
            closing: watch::Sender::new(false),
        }
    }

    /// Returns the error for calls after the end.
    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// Asks the task to delete the node and end.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves when the task must end.
    pub(super) async fn closing(&self) {
        // The sender is here.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Replaces the data. Returns its number.
    pub(super) fn want(&self, data: Vec<u8>) -> u64 {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            number = wanted.number + 1;
            *wanted = Wanted { data: data.into(), number };
        });
        number
    }

    /// Publishes the state, if it is new. Returns whether it is.
    pub(super) fn publish(&self, state: NodeState) -> bool {
        if state.is_present() {
            self.progress.send_if_modified(|progress| {
                progress.error = None;
                false
            });
        }
        let is_new = self.state.send_if_modified(|now| {
            let changed = *now != state;
            if changed {
                *now = state.clone();
            }
            changed
        });
        if is_new {
            tracing::debug!(event = "state_changed", path = &*self.path, %state, "the state of the node has changed");
        }
        is_new
    }

    /// Publishes the path of the node, which data it has, and the state, so that none is seen without the others.
    pub(super) fn publish_progress(&self, node: &str, written: u64, state: Option<NodeState>) {
        let mut changed = false;
        self.progress.send_if_modified(|progress| {
            changed = progress.node.as_deref() != Some(node) || progress.written < written;
            if changed {
                progress.node = Some(node.into());
                progress.written = progress.written.max(written);
            }
            false
        });
        state.map(|state| self.publish(state));
        if changed {
            self.progress.send_modify(|_| ());
        }
    }

    /// Publishes another session's node.
    pub(super) fn set_foreign(&self, session: i64, data: Vec<u8>) {
        self.progress.send_modify(|progress| progress.foreign = Some(Foreign { session, data }));
    }

    /// Publishes a failure, and the number of the latest data that it concerns.
    pub(super) fn failed(&self, error: client::Error, number: u64) {
        tracing::warn!(
            event = "cannot_keep_node",
            path = &*self.path,
            %error,
            kind = ?error.kind(),
            "cannot maintain the node"
        );
        let error = Error::client(&self.path, error);
        self.state.send_replace(NodeState::Failed(error.clone()));
        self.progress.send_modify(|progress| {
            progress.failures += 1;
            progress.error = Some(error);
            progress.failed = number;
        });
    }

    /// Publishes the end.
    pub(super) fn ended(&self) {
        self.publish(NodeState::Closed);
        self.progress.send_modify(|progress| progress.closed = true);
    }
}
