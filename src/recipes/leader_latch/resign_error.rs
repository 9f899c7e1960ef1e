//! The errors of requests to resign and of transfers.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use crate::client::ErrorKind;
use crate::contender::participants::Participant;

/// An error of [`ask_to_resign`](super::ask_to_resign) and [`transfer`](super::transfer).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResignError {
    /// A request to ZooKeeper failed, an argument is out of its range, or the client was closed. If the
    /// [kind](Self::kind) is [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) or
    /// [`ErrorKind::ConnectionLoss`](crate::ErrorKind::ConnectionLoss), participants may have been asked.
    #[error(transparent)]
    Latch(#[from] Error),
    /// Participants that would have to give up their places cannot be asked: those of Curator, and those whose latch is
    /// not [`revocable`](super::LeaderLatchBuilder::revocable), and for a moment those that have just entered. Nothing
    /// was written.
    #[error(
        "leader latch at {path}: nothing was asked, as these are not revocable, or have only just entered: {}",
        list(.participants)
    )]
    NotRevocable {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The nodes of these participants.
        participants: Vec<String>,
    },
    /// No participant has this id, or this node. Nothing was written.
    #[error("leader latch at {path}: nothing was asked, as there is no participant {to:?}")]
    NotFound {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The id, or the path of the node.
        to: String,
    },
    /// Several participants have this id. Nothing was written. The path of a node names one of them.
    #[error("leader latch at {path}: nothing was asked, as {to:?} is the id of several: {}", list(.participants))]
    Ambiguous {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The id.
        to: String,
        /// The nodes of these participants.
        participants: Vec<String>,
    },
    /// The participant that was to lead has left its place: it was closed, has lost its session, or has stepped back
    /// for one with a lower number as priority. If the leader was not asked before, it leads on.
    #[error(
        "leader latch at {path}: {to:?} has left its place: it was closed, has lost its session, or has stepped back \
         for one with a lower number; {}",
        leads(.leader)
    )]
    Left {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The id, or the path of the node.
        to: String,
        /// Who leads instead.
        leader: Option<Box<Participant>>,
    },
    /// Not all that were asked have given up their places in time. Their requests are withdrawn. One that has read its
    /// request before may still follow it, a leader at the end of its grace period.
    #[error(
        "leader latch at {path}: {to:?} does not lead within {within:?}: {}; {}; one that has read its request follows \
         it, a leader when its grace period is over",
        still(.participants),
        leads(.leader)
    )]
    Unanswered {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The id, or the path of the node.
        to: String,
        /// How long the participants had.
        within: Duration,
        /// The nodes of those that were asked and are still there. If there are none, the line has changed all the
        /// time.
        participants: Vec<String>,
        /// Who leads instead.
        leader: Option<Box<Participant>>,
    },
    /// When others had been asked already, participants that would have to give up their places could not be asked.
    /// Requests that were not followed are withdrawn.
    #[error(
        "leader latch at {path}: {to:?} does not lead, as these are not revocable, or have only just entered: {}; {}; \
         others may have been asked before",
        list(.participants),
        leads(.leader)
    )]
    Blocked {
        /// The path of the election, as the client names it.
        path: Arc<str>,
        /// The id, or the path of the node.
        to: String,
        /// The nodes of those that could not be asked.
        participants: Vec<String>,
        /// Who leads instead.
        leader: Option<Box<Participant>>,
    },
}

impl ResignError {
    /// Returns the kind of the error, for code that decides how to react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ResignError::Latch(error) => error.kind(),
            ResignError::NotRevocable { .. } | ResignError::Blocked { .. } => ErrorKind::Unimplemented,
            ResignError::NotFound { .. } | ResignError::Left { .. } => ErrorKind::NoNode,
            ResignError::Ambiguous { .. } => ErrorKind::InvalidArgument,
            ResignError::Unanswered { .. } => ErrorKind::TimedOut,
        }
    }
}

fn list(nodes: &[String]) -> String {
    nodes.join(", ")
}

fn still(nodes: &[String]) -> String {
    if nodes.is_empty() {
        return "the line has changed all the time".to_owned();
    }
    format!("still in their places: {}", list(nodes))
}

fn leads(leader: &Option<Box<Participant>>) -> String {
    match leader {
        Some(leader) => format!("{:?} leads ({})", leader.id, leader.path),
        None => "there is no leader".to_owned(),
    }
}
