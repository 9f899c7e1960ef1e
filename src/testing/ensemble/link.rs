//! The messages between a server and the leader.

use std::sync::Arc;

use super::identity::Identity;
use super::leader::Origin;
use super::txn::Txn;
use super::{ConnId, Millis};
use crate::engine::Op;
use crate::util::znode::Acl;

/// A request that a server passes to the leader for a client.
#[derive(Debug)]
pub(crate) enum Ask {
    Open { timeout: Millis },
    Validate { session: i64, timeout: Millis },
    Write(Op),
    Multi(Vec<Op>),
    SetAcl { path: String, acls: Vec<Acl>, version: Option<i32> },
    Sync,
    Close,
}

/// A request on its way to the leader.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) incarnation: u32,
    pub(crate) replica: usize,
    pub(crate) conn: ConnId,
    pub(crate) session: i64,
    pub(crate) identity: Arc<Identity>,
    pub(crate) ticket: u64,
    pub(crate) ask: Ask,
}

/// A message from the leader to a replica.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) txn: Option<Arc<Txn>>,
    pub(crate) origin: Option<Origin>,
}

/// The leader's answer about a session that is to be resumed.
#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) conn: ConnId,
    pub(crate) ticket: u64,
    pub(crate) session: i64,
    /// `None` if the session is no longer known.
    pub(crate) timeout: Option<Millis>,
}
