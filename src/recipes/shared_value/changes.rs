//! The changes of a shared value, as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{Stream, StreamExt};

use super::error::Error;
use super::versioned::Versioned;
use crate::cache::{self, Change};

/// A stream of new values; see [`SharedValue::changes`](super::SharedValue::changes). Ends when the last handle is
/// dropped or the client is closed.
///
/// An error is a state of the node as well: deleted, not decodable, not readable. The stream continues after it.
pub struct Changes<T> {
    path: Arc<str>,
    of_node: cache::Changes<T>,
}

impl<T: Send + Sync + 'static> Changes<T> {
    pub(super) fn new(path: &Arc<str>, of_node: cache::Changes<T>) -> Self {
        Changes { path: Arc::clone(path), of_node }
    }

    /// Returns the value that the first change follows.
    ///
    /// # Errors
    /// As [`SharedValue::get`](super::SharedValue::get).
    pub fn start(&self) -> Result<Versioned<T>, Error> {
        Versioned::of(&self.path, self.of_node.start().root())
    }

    /// Waits for the next value. `None` when the last handle was dropped, or the client closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a value that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Result<Versioned<T>, Error>> {
        StreamExt::next(self).await
    }

    /// Translates a change of the node. `None` if it does not change the value.
    fn translated(&self, change: Change<T>) -> Option<Result<Versioned<T>, Error>> {
        match change {
            Change::Added(node) | Change::Updated { new: node, .. } => Some(Versioned::of(&self.path, Some(&node))),
            Change::Removed { .. } => Some(Versioned::of(&self.path, None)),
            Change::Lagged(snapshot) => Some(Versioned::of(&self.path, snapshot.root())),
            Change::Failed(error) => Some(Err(Error::cache(&self.path, error))),
            Change::Synced => None,
        }
    }
}

impl<T: Send + Sync + 'static> Stream for Changes<T> {
    type Item = Result<Versioned<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.of_node.poll_next_unpin(cx) {
                Poll::Ready(Some(change)) => {
                    if let Some(value) = self.translated(change) {
                        return Poll::Ready(Some(value));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("path", &self.path).finish_non_exhaustive()
    }
}
