//! The node to keep.

use std::sync::Arc;

use super::NodeMode;
use crate::client::core::Core;
use crate::layout::parts;
use crate::util::path::{join, split};

/// The node to keep.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) mode: NodeMode,
    /// The directory on the server.
    pub(super) dir: Arc<str>,
    /// The last element of the path, without protection.
    pub(super) name: String,
    /// The path on the server, unless the server numbers the node.
    pub(super) path: Option<Arc<str>>,
    /// No other client uses the path: it has a uuid in it.
    pub(super) is_unique: bool,
}

impl Spec {
    pub(super) fn new(core: &Core, path: &str, mode: NodeMode, protected: bool) -> Self {
        let full = core.full_path(path);
        let (dir, name) = split(&full);
        let path = match mode {
            NodeMode::EphemeralSequential => None,
            _ if protected => Some(join(dir, &format!("{}{name}", parts::protection(core.random.uuid()))).into()),
            _ => Some(full.as_str().into()),
        };
        Spec { mode, dir: dir.into(), name: name.to_owned(), path, is_unique: protected }
    }
}
