//! Nodes of this client that it may neither use nor delete.
//!
//! Where a client may create but neither list nor delete, each attempt to enter would leave a node that blocks all
//! contenders behind it until the session ends. So after a first refusal no further node is created until the janitor
//! has seen the last one gone: it retries with growing delays, as permissions can be restored.

use tokio::sync::oneshot;

use crate::client::owned_node::OwnedNode;
use crate::client::{Error, ErrorKind};
use crate::util::mutex::{Mutex, MutexGuard};

/// The nodes that the contenders of one line have left behind.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind(Mutex<Vec<Left>>);

#[derive(Debug)]
struct Left {
    node: String,
    /// The error of the refused request.
    why: String,
    gone: oneshot::Receiver<()>,
}

impl LeftBehind {
    /// Records a node that blocks another attempt. Returns the error that names all such nodes.
    pub(super) fn add(&self, node: OwnedNode, refused: &Error) -> Error {
        let (node, gone) = node.leave_behind();
        let mut all = self.lock();
        all.push(Left { node, why: refused.to_string(), gone });
        error_of(&all)
    }

    /// Returns the error of the next attempt while there are such nodes.
    pub(super) fn refusal(&self) -> Option<Error> {
        let mut all = self.lock();
        all.retain_mut(|left| left.gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        (!all.is_empty()).then(|| error_of(&all))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Left>> {
        self.0.lock()
    }
}

fn error_of(all: &[Left]) -> Error {
    let nodes: Vec<&str> = all.iter().map(|left| &*left.node).collect();
    let why = all.last().map_or("", |left| &*left.why);
    let message = format!(
        "{why}; no further node is made while this client's earlier ones may be there, which are deleted as soon as \
         that is permitted: {}",
        nodes.join(", ")
    );
    Error::new(ErrorKind::NoAuth, message)
}
