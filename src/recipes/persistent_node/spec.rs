//! The node to keep.

use std::sync::Arc;

use super::NodeMode;
use crate::client::core::Core;
use crate::client::{Error, ErrorKind};
use crate::engine;
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

    /// Returns the error of a request for the node, whose path is known or not.
    pub(super) fn error(&self, path: Option<&str>, error: engine::Error) -> Error {
        let path = path.unwrap_or(&self.dir);
        match (error, self.mode) {
            (engine::Error::Unimplemented(_), NodeMode::Ttl(_)) => {
                let why = "the servers do not permit nodes with a time to live; set their option \
                           zookeeper.extendedTypesEnabled to true";
                Error::at(ErrorKind::Unimplemented, "keep a node at", path, why)
            }
            (error, _) => Error::from_engine("keep a node at", path, error),
        }
    }
}
