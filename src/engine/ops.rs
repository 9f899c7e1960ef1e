//! The steps of a multi, and its outcome.

use super::error::Error;
use crate::util::znode::{Acl, CreateMode, Stat};

/// One step of a multi. Either all steps are carried out or none.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// The node exists, and has this data version if one is given.
    Check {
        path: String,
        version: Option<i32>,
    },
    Create {
        path: String,
        data: Vec<u8>,
        mode: CreateMode,
        acls: Vec<Acl>,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
}

/// What one step of a committed multi did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpResult {
    Check,
    /// The path as the server named it.
    Create {
        path: String,
    },
    SetData {
        stat: Stat,
    },
    Delete,
}

/// The outcome of a multi that the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Multi {
    Committed(Vec<OpResult>),
    /// Nothing was changed; the step at `index` is the first that failed.
    Refused {
        index: usize,
        error: Error,
    },
}
