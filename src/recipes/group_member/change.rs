//! The changes of a group, as a stream.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{Stream, StreamExt};

use super::error::Error;
use super::{Members, members_of};
use crate::cache::{self, Node, Snapshot};
use crate::layout::group_member::Format;

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
    /// The data of a member has changed.
    Updated {
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
    /// while permission to read something is missing. All missed changes come before this one.
    Synced,
    /// The subscriber was too slow, and the oldest changes were dropped. These are the members after the dropped
    /// changes; the next changes follow.
    Lagged(Members),
    /// The group could not be read. The read is retried with growing delays.
    Failed(Error),
}

/// The changes of a group; see [`GroupMember::changes`](super::GroupMember::changes). Ends when the member is dropped
/// or its client is closed.
pub struct Changes {
    path: Arc<str>,
    format: Format,
    of_nodes: cache::Changes<Vec<u8>>,
    /// How many nodes each id has. In a party, a restarted process has two for a while.
    nodes: HashMap<String, usize>,
    ready: VecDeque<Change>,
}

impl Changes {
    pub(super) fn new(path: &Arc<str>, format: Format, of_nodes: cache::Changes<Vec<u8>>) -> Self {
        let nodes = count(of_nodes.start(), format);
        Changes { path: Arc::clone(path), format, of_nodes, nodes, ready: VecDeque::new() }
    }

    /// Returns the members that the first change follows.
    pub fn start(&self) -> Members {
        members_of(self.of_nodes.start(), self.format)
    }

    /// Waits for the next change. Returns `None` once the member is dropped or its client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Change> {
        StreamExt::next(self).await
    }

    /// Translates a change of a node to changes of members.
    fn translated(&mut self, change: cache::Change<Vec<u8>>) -> Vec<Change> {
        match change {
            cache::Change::Added(node) => self.joined(&node).into_iter().collect(),
            cache::Change::Removed { old } => self.left(&old).into_iter().collect(),
            cache::Change::Updated { old, new } => match (self.member(&old), self.member(&new)) {
                (Some((before, old)), Some((id, new))) if before == id => vec![Change::Updated { id, old, new }],
                // In a `Party` the data is the id.
                _ => self.left(&old).into_iter().chain(self.joined(&new)).collect(),
            },
            cache::Change::Synced => vec![Change::Synced],
            cache::Change::Lagged(snapshot) => {
                self.nodes = count(&snapshot, self.format);
                vec![Change::Lagged(members_of(&snapshot, self.format))]
            }
            cache::Change::Failed(error) => vec![Change::Failed(Error::cache(&self.path, error))],
        }
    }

    fn member(&self, node: &Node<Vec<u8>>) -> Option<(String, Vec<u8>)> {
        self.format.member(node.name(), node.value().map(Vec::as_slice))
    }

    /// Handles a new node. A member has joined if the node is the first of its id.
    fn joined(&mut self, node: &Node<Vec<u8>>) -> Option<Change> {
        let (id, data) = self.member(node)?;
        let nodes = self.nodes.entry(id.clone()).or_default();
        *nodes += 1;
        (*nodes == 1).then_some(Change::Joined { id, data })
    }

    /// Handles a node that is gone. A member has left if the node was the last of its id.
    fn left(&mut self, node: &Node<Vec<u8>>) -> Option<Change> {
        let (id, data) = self.member(node)?;
        let nodes = self.nodes.get_mut(&id)?;
        *nodes -= 1;
        if *nodes > 0 {
            return None;
        }
        self.nodes.remove(&id);
        Some(Change::Left { id, data })
    }
}

/// Counts the nodes of each id.
fn count(snapshot: &Snapshot<Vec<u8>>, format: Format) -> HashMap<String, usize> {
    let mut nodes = HashMap::new();
    for node in snapshot.iter() {
        if let Some((id, _)) = format.member(node.name(), node.value().map(Vec::as_slice)) {
            *nodes.entry(id).or_default() += 1;
        }
    }
    nodes
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Poll::Ready(Some(change));
            }
            match self.of_nodes.poll_next_unpin(cx) {
                Poll::Ready(Some(change)) => {
                    let ready = self.translated(change);
                    self.ready.extend(ready);
                }
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
