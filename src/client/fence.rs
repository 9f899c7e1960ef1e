//! What makes a write safe: proof, checked by the ensemble in the same transaction, that its author still holds.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::core::Core;
use super::session::Session;
use crate::backend::Op;

/// Proof of holding, for a [`Transaction`](crate::Transaction): the transaction is carried out only while the node that
/// stands for the lock or the leadership exists; for a claim of a queue, until it is settled, and while item and claim
/// are as the claim made them. The check is made by the ensemble itself, so no clock and no pause of the process can
/// deceive it.
///
/// A fence guards writes to ZooKeeper. For any other store send the fencing token along and let the store refuse
/// smaller ones than it has seen of the same lock, leadership or item.
#[derive(Clone)]
pub struct Fence {
    pub(crate) core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    /// The node that stands for what is held.
    pub(crate) path: Arc<str>,
    /// The nodes that must have a certain data version; without any, the node above must exist.
    pub(crate) versions: Arc<[(Arc<str>, i32)]>,
    /// Whether it was given back: after that another node may come to have the same path and version.
    pub(crate) given_back: Option<watch::Receiver<bool>>,
}

impl Fence {
    /// The node that stands for what is held, as the server names it (within the connect string's own root).
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.given_back.as_ref().is_some_and(|given_back| *given_back.borrow())
    }

    /// The step that is refused once the node is gone.
    pub(crate) fn check(&self) -> Op {
        Op::Check { path: self.path.to_string(), version: None }
    }

    /// All steps of a transaction that prove that its author still holds.
    pub(crate) fn checks(&self) -> Vec<Op> {
        if self.versions.is_empty() {
            return vec![self.check()];
        }
        let check = |(path, version): &(Arc<str>, i32)| Op::Check { path: path.to_string(), version: Some(*version) };
        self.versions.iter().map(check).collect()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("path", &self.path).finish_non_exhaustive()
    }
}
