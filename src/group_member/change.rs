//! The changes of a group, as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{Stream, StreamExt};

use super::error::Error;
use super::names::Format;
use super::{Members, members_of};
use crate::cache::{self, Node};

/// A change of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A member has joined.
    Joined {
        /// Its id.
        id: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// A member has other data.
    Changed {
        /// Its id.
        id: String,
        /// Its data before.
        old: Vec<u8>,
        /// Its data now.
        new: Vec<u8>,
    },
    /// A member has left, or its session has ended.
    Left {
        /// Its id.
        id: String,
        /// Its last data.
        data: Vec<u8>,
    },
    /// Everything was compared with the servers, after a reconnect, a new session or an error, and every ten minutes
    /// while something may not be read: the changes before this one were all that was missed.
    Synced,
    /// The subscriber was too slow, and the oldest changes were dropped. These are the members after them; the next
    /// changes follow.
    Lagged(Members),
    /// The group could not be read. It is tried again, with growing delays.
    Failed(Error),
}

/// The changes of a group; see [`GroupMember::changes`](super::GroupMember::changes). Ends when the member is dropped
/// or its client is closed.
pub struct Changes {
    path: Arc<str>,
    format: Format,
    of_nodes: cache::Changes<Vec<u8>>,
    ready: VecDeque<Change>,
}

impl Changes {
    pub(super) fn new(path: &Arc<str>, format: Format, of_nodes: cache::Changes<Vec<u8>>) -> Self {
        Changes { path: Arc::clone(path), format, of_nodes, ready: VecDeque::new() }
    }

    /// Returns the members that the first change follows.
    pub fn start(&self) -> Members {
        members_of(self.of_nodes.start(), self.format)
    }

    /// Waits for the next change. `None` when the member was dropped, or the client closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Change> {
        StreamExt::next(self).await
    }

    /// Translates a change of a node.
    fn translated(&self, change: cache::Change<Vec<u8>>) -> Vec<Change> {
        let member = |node: &Node<Vec<u8>>| self.format.member(node.name(), node.value().map(Vec::as_slice));
        let joined = |node| member(node).map(|(id, data)| Change::Joined { id, data });
        let left = |node| member(node).map(|(id, data)| Change::Left { id, data });
        match change {
            cache::Change::Added(node) => joined(&node).into_iter().collect(),
            cache::Change::Removed { old } => left(&old).into_iter().collect(),
            cache::Change::Changed { old, new } => match (member(&old), member(&new)) {
                (Some((before, old)), Some((id, new))) if before == id => vec![Change::Changed { id, old, new }],
                // In a `Party` the data is the id.
                _ => left(&old).into_iter().chain(joined(&new)).collect(),
            },
            cache::Change::Synced => vec![Change::Synced],
            cache::Change::Lagged(snapshot) => vec![Change::Lagged(members_of(&snapshot, self.format))],
            cache::Change::Failed(error) => vec![Change::Failed(Error::cache(&self.path, error))],
        }
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Poll::Ready(Some(change));
            }
            match self.of_nodes.poll_next_unpin(cx) {
                Poll::Ready(Some(change)) => self.ready = self.translated(change).into(),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("path", &self.path).finish_non_exhaustive()
    }
}
