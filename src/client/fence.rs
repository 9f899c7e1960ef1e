//! Fences: the ensemble checks, in the same transaction, that the author of a write still holds.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::core::Core;
use super::session::Session;
use crate::engine::Op;

/// Proves, inside a [`Transaction`](crate::Transaction), that its author still holds a lock, a leadership or a claim.
///
/// The ensemble carries out the transaction only while the node of the lock or leadership exists. For a claim of a
/// queue it does so until the claim is settled, and while item and claim are as the claim left them. The ensemble makes
/// the check, so neither a wrong clock nor a pause of the process can defeat it.
///
/// A fence guards writes to ZooKeeper. For any other store, send the fencing token along and let the store refuse
/// tokens smaller than the largest it has seen for the same lock, leadership or item.
///
/// ```no_run
/// # use zookeeper_recipes::Client;
/// # use zookeeper_recipes::leader_latch::Leadership;
/// # async fn example(client: Client, leadership: Leadership)
/// # -> Result<(), zookeeper_recipes::Error> {
/// let fence = leadership.fence();
/// client
///     .transaction()
///     .check(&fence)
///     .set_data("/my-service/report", "42", None)
///     .commit()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fence {
    pub(crate) core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    /// The node that represents the hold.
    pub(crate) path: Arc<str>,
    /// The nodes that must exist, with this data version if one is given. If the list is empty, the node at `path` must
    /// exist.
    pub(crate) nodes: Arc<[(Arc<str>, Option<i32>)]>,
    /// Becomes true when the hold is released. After that, another node may get the same path and version.
    pub(crate) released: Option<watch::Receiver<bool>>,
}

impl Fence {
    /// Returns the path of the node that represents the hold, as the server names it (within the connect string's own
    /// root).
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.as_ref().is_some_and(|released| *released.borrow())
    }

    /// Returns the step that the server refuses once the node is gone.
    pub(crate) fn check(&self) -> Op {
        Op::Check { path: self.path.to_string(), version: None }
    }

    /// Combines the fences of several holds, at least one. The ensemble refuses the result if it refuses any of them.
    pub(crate) fn of_all(fences: impl Iterator<Item = Fence>) -> Fence {
        let fences: Vec<Fence> = fences.collect();
        let nodes = fences.iter().map(|fence| (Arc::clone(&fence.path), None)).collect();
        let first = fences.into_iter().next().expect("a guard has at least one hold");
        Fence { nodes, ..first }
    }

    /// Returns all steps of a transaction that prove that its author still holds.
    pub(crate) fn checks(&self) -> Vec<Op> {
        if self.nodes.is_empty() {
            return vec![self.check()];
        }
        let check = |(path, version): &(Arc<str>, Option<i32>)| Op::Check { path: path.to_string(), version: *version };
        self.nodes.iter().map(check).collect()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("path", &self.path).finish_non_exhaustive()
    }
}
