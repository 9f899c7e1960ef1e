//! What the leader decides: the changes of one transaction, already checked.

use std::sync::Arc;

use super::Zxid;
use crate::util::znode::Acl;

/// One change that can no longer fail.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A check in a transaction; it changes nothing.
    Check,
    Create {
        path: Arc<str>,
        data: Arc<[u8]>,
        acls: Arc<[Acl]>,
        owner: i64,
        /// The new value of the parent's counter, unless the counter is already higher.
        parent_creations: i32,
    },
    Delete {
        path: Arc<str>,
    },
    SetData {
        path: Arc<str>,
        data: Arc<[u8]>,
        version: i32,
    },
    SetAcl {
        path: Arc<str>,
        acls: Arc<[Acl]>,
        version: i32,
    },
    /// By hand: the next sequential child of the node gets this number.
    SetSequence {
        path: Arc<str>,
        next: i32,
    },
}

impl Change {
    pub(crate) fn path(&self) -> Option<&Arc<str>> {
        match self {
            Change::Check => None,
            Change::Create { path, .. }
            | Change::Delete { path }
            | Change::SetData { path, .. }
            | Change::SetAcl { path, .. }
            | Change::SetSequence { path, .. } => Some(path),
        }
    }
}

/// One transaction, whose changes happen together. A refused request is a transaction without changes.
#[derive(Debug)]
pub(crate) struct Txn {
    pub(crate) zxid: Zxid,
    /// The time of day, in milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) changes: Vec<Change>,
    /// The session that it ends.
    pub(crate) closes: Option<i64>,
}
