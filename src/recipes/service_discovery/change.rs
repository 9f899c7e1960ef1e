//! The changes of a service, as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::{Stream, StreamExt};

use super::ServiceInstance;
use super::error::Error;
use super::found::{Instance, Instances};
use crate::cache::{self, Node};

/// A change of the instances of a service.
#[non_exhaustive]
pub enum Change<P> {
    /// An instance has been registered, or can be read now.
    Added(Instance<P>),
    /// An instance has other data: it was updated, enabled or disabled.
    Updated {
        /// The instance before.
        old: Instance<P>,
        /// The instance now.
        new: Instance<P>,
    },
    /// An instance has been unregistered, or its session has ended, or it cannot be read any more.
    Removed {
        /// The instance before.
        old: Instance<P>,
    },
    /// A node cannot be read: [`Node::content`] says why. If it could be read before, [`Removed`](Self::Removed) comes
    /// first. Its deletion is not reported; [`Instances::unreadable`] has those that are left.
    Unreadable(Node<ServiceInstance<P>>),
    /// Everything was compared with the servers, after a reconnect, a new session or an error. All missed changes come
    /// before this one.
    Synced,
    /// The subscriber was too slow, and the oldest changes were dropped. These are the instances after the dropped
    /// changes; the next changes follow.
    Lagged(Instances<P>),
    /// The service could not be read. The read is retried with growing delays.
    Failed(Error),
}

impl<P> Clone for Change<P> {
    fn clone(&self) -> Self {
        match self {
            Change::Added(new) => Change::Added(new.clone()),
            Change::Updated { old, new } => Change::Updated { old: old.clone(), new: new.clone() },
            Change::Removed { old } => Change::Removed { old: old.clone() },
            Change::Unreadable(node) => Change::Unreadable(node.clone()),
            Change::Synced => Change::Synced,
            Change::Lagged(now) => Change::Lagged(now.clone()),
            Change::Failed(error) => Change::Failed(error.clone()),
        }
    }
}

impl<P: 'static> fmt::Debug for Change<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Added(new) => f.debug_tuple("Added").field(new).finish(),
            Change::Updated { old, new } => f.debug_struct("Updated").field("old", old).field("new", new).finish(),
            Change::Removed { old } => f.debug_struct("Removed").field("old", old).finish(),
            Change::Unreadable(node) => f.debug_tuple("Unreadable").field(&node.path()).finish(),
            Change::Synced => f.write_str("Synced"),
            Change::Lagged(now) => f.debug_tuple("Lagged").field(now).finish(),
            Change::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// The changes of a service; see [`Service::changes`](super::Service::changes). Ends when the last handle of the
/// service is dropped or its client is closed.
pub struct Changes<P> {
    path: Arc<str>,
    of_nodes: cache::Changes<ServiceInstance<P>>,
    ready: VecDeque<Change<P>>,
}

impl<P: Send + Sync + 'static> Changes<P> {
    pub(super) fn new(path: &Arc<str>, of_nodes: cache::Changes<ServiceInstance<P>>) -> Self {
        Changes { path: Arc::clone(path), of_nodes, ready: VecDeque::new() }
    }

    /// Returns the instances that the first change follows.
    pub fn start(&self) -> Instances<P> {
        Instances::new(self.of_nodes.start().clone())
    }

    /// Waits for the next change. Returns `None` once the last handle of the service is dropped or its client is
    /// closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Change<P>> {
        StreamExt::next(self).await
    }

    /// Translates a change of a node to changes of instances.
    fn translate(&mut self, change: cache::Change<ServiceInstance<P>>) {
        match change {
            cache::Change::Added(node) => self.appears(&node),
            cache::Change::Updated { old, new } => match (Instance::of(&old), Instance::of(&new)) {
                (Some(old), Some(new)) => self.ready.push_back(Change::Updated { old, new }),
                _ => {
                    self.disappears(&old);
                    self.appears(&new);
                }
            },
            cache::Change::Removed { old } => self.disappears(&old),
            cache::Change::Synced => self.ready.push_back(Change::Synced),
            cache::Change::Lagged(snapshot) => self.ready.push_back(Change::Lagged(Instances::new(snapshot))),
            cache::Change::Failed(error) => self.ready.push_back(Change::Failed(Error::cache(&self.path, error))),
        }
    }

    fn appears(&mut self, node: &Node<ServiceInstance<P>>) {
        let change = Instance::of(node).map_or_else(|| Change::Unreadable(node.clone()), Change::Added);
        self.ready.push_back(change);
    }

    fn disappears(&mut self, node: &Node<ServiceInstance<P>>) {
        self.ready.extend(Instance::of(node).map(|old| Change::Removed { old }));
    }
}

impl<P: Send + Sync + 'static> Stream for Changes<P> {
    type Item = Change<P>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change<P>>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Poll::Ready(Some(change));
            }
            match ready!(self.of_nodes.poll_next_unpin(cx)) {
                Some(change) => self.translate(change),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<P> Unpin for Changes<P> {}

impl<P> fmt::Debug for Changes<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("path", &self.path).finish_non_exhaustive()
    }
}
