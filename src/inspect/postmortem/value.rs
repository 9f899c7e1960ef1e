//! What the logs tell, as values.

use std::path::PathBuf;
use std::time::SystemTime;

use super::super::line::time_of;
use super::super::role::Role;
use crate::util::path::split;

/// A transaction, and when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Moment {
    /// The id of the transaction. It decides what comes first.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session"))]
    pub zxid: i64,
    /// In milliseconds since 1970, by the clock of the server that led then.
    pub ms: i64,
}

/// What is told, in the order of the transactions: each hold and item when it ends, those that remain at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Event {
    /// A node that held, or waited to hold.
    Hold(Hold),
    /// An item of a queue.
    Item(Item),
    /// Two that exclude each other and may have held at the same time.
    Overlap(Overlap),
    /// Transactions that no file contains.
    Gap(Gap),
    /// A file, or a part of it, that cannot be read.
    Damage(Damage),
    /// How much was read so far. Comes every few megabytes.
    Progress(Progress),
    /// The last transaction was replayed, which is this one. What remains comes after it.
    Replayed(Moment),
}

/// What a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum What {
    /// A place in the line of an election or a lock, with this role.
    Place(Role),
    /// A place in the line of a semaphore. The first one takes permits; it holds nothing else.
    Turn,
    /// A permit of a semaphore. A permit is held when the place of the same session that took it has left the line.
    Permit,
    /// An ephemeral node of any other kind: it is held by its session as long as it exists.
    Node,
}

/// A node that held something or waited for it, and how that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Hold {
    /// The path of the node.
    pub path: String,
    /// What it holds.
    pub what: What,
    /// The session that owns the node; `None` if it is not ephemeral.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub session_id: Option<i64>,
    /// The timeout of that session, if the files tell it.
    pub session_timeout_ms: Option<i32>,
    /// The session that created the node, if the files tell it. It is the owner, unless there is none.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub created_by: Option<i64>,
    /// The data of the node when it was created: the id of a participant, or what the application wrote. Serialized as
    /// text.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::lossy"))]
    pub data: Vec<u8>,
    /// When the node was created.
    pub joined: Moment,
    /// When it held, by the rule of the line; `None` if it did not, or has not yet.
    pub granted: Option<Moment>,
    /// Whether it already held at [`granted`](Self::granted), and since when is not known: the files begin later, or
    /// transactions are missing.
    pub granted_before: bool,
    /// When it was asked to release, and by which session, by the mark of Curator's `Revoker`.
    pub revoked: Option<By>,
    /// When the node was deleted; `None` if it remains.
    pub ended: Option<Moment>,
    /// How it ended.
    pub end: End,
    /// The session that deleted the node, if a session did.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub ended_by: Option<i64>,
}

/// How a hold or a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum End {
    /// The owner deleted its node, or, if the node is not ephemeral, the session that created it, as far as that is
    /// known.
    Released,
    /// The owner closed its session.
    SessionClosed,
    /// The servers ended the session: it has expired, or an operator has closed it at a server.
    SessionExpired,
    /// Another session deleted the node.
    Deleted,
    /// The servers deleted the node: its time to live is over.
    Removed,
    /// The node is gone, and the transaction that deleted it is in no file.
    Unknown,
    /// The node remains at the end.
    Remains,
}

/// A session that did something, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct By {
    /// The session.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session"))]
    pub session_id: i64,
    /// When it did so.
    pub at: Moment,
}

/// Two places in a line that exclude each other, of which both may have held at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Overlap {
    /// The path of the node that held first.
    pub first: String,
    /// Its session.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub first_session_id: Option<i64>,
    /// The path of the node that held meanwhile.
    pub second: String,
    /// Its session.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub second_session_id: Option<i64>,
    /// How many more held after the second one, until then.
    pub others: usize,
    /// Why the second one held.
    pub cause: Cause,
    /// When the second one began to hold.
    pub from: Moment,
    /// When it ended: one of the nodes is gone; or, if the node of the first was deleted by another session, its own
    /// session has ended, or was seen at this line again; or transactions are missing. `None` if that is after the end.
    /// The first one may have noticed sooner.
    pub until: Option<Moment>,
}

/// Why two held at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Cause {
    /// Another session deleted the node of the first, whose session went on.
    Deleted(By),
    /// The second one was created before the first in the order of the line, although later in time.
    Overtaken,
}

/// An item of a queue, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Item {
    /// The path of the node.
    pub path: String,
    /// When it was put.
    pub put: Moment,
    /// The session that put it, if the files tell it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub put_by: Option<i64>,
    /// The number of bytes of its data when it was put.
    pub data_length: usize,
    /// The deliveries, in order; of very many the last thousand.
    pub deliveries: Vec<Delivery>,
    /// When it left the queue; `None` if it remains.
    pub ended: Option<Moment>,
    /// How it left the queue.
    pub end: ItemEnd,
    /// The session that deleted it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub ended_by: Option<i64>,
    /// The path of its dead letter.
    pub letter: Option<String>,
}

/// How an item left its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ItemEnd {
    /// The session that had claimed it deleted it.
    Done,
    /// A session deleted it while no session had a claim on it, as consumers of Curator without a lock path do.
    Taken,
    /// It became a dead letter.
    DeadLettered,
    /// A session deleted it while another one had a claim on it.
    Deleted,
    /// It is gone, and the transaction that deleted it is in no file.
    Unknown,
    /// It remains in the queue.
    Remains,
}

/// A claim on an item.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Delivery {
    /// The session that claimed the item; `None` if the claim is not ephemeral.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub session_id: Option<i64>,
    /// When it did so.
    pub claimed: Moment,
    /// When the claim ended.
    pub ended: Option<Moment>,
    /// How the claim ended. [`Released`](End::Released) is a return to the queue, unless the item left it as well.
    pub end: End,
}

/// Transactions that no file contains. What happened in them is not known: see the [module](super). If the numbers do
/// not tell where they are, they are somewhere between these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Gap {
    /// The last transaction before them.
    pub after: Moment,
    /// The first transaction after them.
    pub before: Moment,
}

/// A file that cannot be read from some byte on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The first byte that was not understood.
    pub offset: u64,
    /// The last transaction before it in this file, if there is one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub after_zxid: Option<i64>,
    /// What is wrong.
    pub reason: String,
}

/// How much was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Progress {
    /// The bytes of logs that were read.
    pub bytes: u64,
    /// The bytes of all logs, of which a part may be empty.
    pub of: u64,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Summary {
    /// The number of logs.
    pub logs: usize,
    /// The number of snapshots that were found. One is read only if transactions before it are missing.
    pub snapshots: usize,
    /// The number of transactions. One that several servers have logged counts once.
    pub transactions: u64,
    /// The number of transactions that were left out, because they seem never to have been committed: one server has
    /// logged them, and the others went on without them under the next leader, unless a file of theirs is missing.
    pub uncommitted: u64,
    /// The first one of those.
    pub uncommitted_first: Option<Moment>,
    /// The last one of those.
    pub uncommitted_last: Option<Moment>,
    /// The first transaction.
    pub first: Option<Moment>,
    /// The last transaction that was read.
    pub last: Option<Moment>,
    /// Whether all is known that happened before the last transaction and is still there: the files begin with the
    /// first transaction, or with a snapshot, and nothing after it is known to be missing, unreadable, or left out as
    /// not committed. The end of an epoch cannot be checked from the logs of one server alone: see the [module](super).
    pub is_complete: bool,
}

impl Moment {
    /// Returns the time, by the clock of the server that led then.
    pub fn time(self) -> SystemTime {
        time_of(self.ms)
    }
}

impl Hold {
    /// Returns the last element of its path.
    pub fn name(&self) -> &str {
        split(&self.path).1
    }

    /// Returns the directory of the node: the path of the lock or election, if it is a place.
    pub fn directory(&self) -> &str {
        split(&self.path).0
    }

    /// Returns for how long it held, in milliseconds, if that is over and known. It is negative if the clock was set
    /// back, or if the server that led then was another one.
    pub fn held_ms(&self) -> Option<i64> {
        Some(self.ended?.ms.saturating_sub(self.granted.filter(|_| !self.granted_before)?.ms))
    }
}
