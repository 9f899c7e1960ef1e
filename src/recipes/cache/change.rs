//! The changes of a cache, as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::error::Error;
use super::node::Node;
use super::snapshot::Snapshot;
use crate::util::mutex::Mutex;

/// A difference between two consecutive snapshots, or something else that a subscriber has to know.
#[non_exhaustive]
pub enum Change<T> {
    /// The node is new.
    #[doc(alias = "NODE_CREATED")]
    Added(Node<T>),
    /// The node was written, or can be read now, or cannot be read any more. After several writes in quick succession,
    /// only the last may be reported.
    #[doc(alias = "NODE_CHANGED")]
    Updated {
        /// The node in the snapshot before.
        old: Node<T>,
        /// The node now.
        new: Node<T>,
    },
    /// The node was deleted. If it was created again at once, an [`Added`](Change::Added) follows.
    #[doc(alias = "NODE_DELETED")]
    Removed {
        /// The node in the snapshot before.
        old: Node<T>,
    },
    /// Everything was compared with the servers, after a reconnect, a new session or an [error](Change::Failed): the
    /// changes before this one were all that was missed.
    #[doc(alias = "INITIALIZED")]
    Synced,
    /// The subscriber was too slow, and the oldest changes were dropped. This snapshot contains them; the next changes
    /// follow it.
    Lagged(Snapshot<T>),
    /// A request failed with an error that is not transient. The cache keeps retrying; the snapshot stays as it is.
    Failed(Error),
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Change::Added(node) => Change::Added(node.clone()),
            Change::Updated { old, new } => Change::Updated { old: old.clone(), new: new.clone() },
            Change::Removed { old } => Change::Removed { old: old.clone() },
            Change::Synced => Change::Synced,
            Change::Lagged(snapshot) => Change::Lagged(snapshot.clone()),
            Change::Failed(error) => Change::Failed(error.clone()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Change<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Added(node) => f.debug_tuple("Added").field(node).finish(),
            Change::Updated { old, new } => f.debug_struct("Updated").field("old", old).field("new", new).finish(),
            Change::Removed { old } => f.debug_struct("Removed").field("old", old).finish(),
            Change::Synced => f.write_str("Synced"),
            Change::Lagged(_) => f.debug_tuple("Lagged").finish_non_exhaustive(),
            Change::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

impl<T> Change<T> {
    /// Estimates how much memory it keeps, with the data as it was read, not as it was decoded.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Change::Added(node) | Change::Removed { old: node } => node.bytes(),
            Change::Updated { old, new } => old.bytes() + new.bytes(),
            Change::Synced | Change::Lagged(_) | Change::Failed(_) => 0,
        }
    }
}

/// The changes between two snapshots, and the second of them.
pub(super) type Changed<T> = (Vec<Change<T>>, Snapshot<T>);

/// What a subscriber receives; `None` once it was removed to free its memory.
pub(super) type Batch<T> = Mutex<Option<Arc<Changed<T>>>>;

/// The changes of a cache since a snapshot; see [`Cache::changes`](super::Cache::changes). Ends with the cache.
pub struct Changes<T> {
    start: Snapshot<T>,
    changes: BoxStream<'static, Change<T>>,
}

impl<T: Send + Sync + 'static> Changes<T> {
    pub(super) fn new(start: Snapshot<T>, batches: broadcast::Receiver<Arc<Batch<T>>>) -> Self {
        // Fused: it may be polled after its end.
        let changes = stream::unfold((batches, VecDeque::new()), next_change).fuse().boxed();
        Changes { start, changes }
    }

    /// Returns the snapshot that the first change follows.
    pub fn start(&self) -> &Snapshot<T> {
        &self.start
    }

    /// Waits for the next change. `None` when the cache has ended: its last handle was dropped, or the client closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Change<T>> {
        self.changes.next().await
    }
}

type Cursor<T> = (broadcast::Receiver<Arc<Batch<T>>>, VecDeque<Change<T>>);

async fn next_change<T>((mut batches, mut ready): Cursor<T>) -> Option<(Change<T>, Cursor<T>)> {
    let mut lagged = false;
    loop {
        if let Some(change) = ready.pop_front() {
            return Some((change, (batches, ready)));
        }
        let batch = match batches.recv().await {
            Ok(batch) => batch.lock().clone(),
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return None,
        };
        match batch.as_deref() {
            // What the subscriber has missed is in the snapshot after the oldest batch that is left.
            Some((_, snapshot)) if lagged => return Some((Change::Lagged(snapshot.clone()), (batches, ready))),
            Some((changes, _)) => ready.extend(changes.iter().cloned()),
            None => lagged = true,
        }
    }
}

impl<T> Stream for Changes<T> {
    type Item = Change<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change<T>>> {
        self.changes.poll_next_unpin(cx)
    }
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
