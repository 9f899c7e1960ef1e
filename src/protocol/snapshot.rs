//! The records of a snapshot, as the servers write them to their disks.
//!
//! ```text
//! FileHeader
//! the number of sessions, and a SnapshotSession for each
//! the number of ACLs, and a SnapshotAcl for each
//! a path and a SnapshotNode for each node, each before those below it; the path of the root is empty
//! the path "/"
//! the Adler-32 of all these bytes, and "/"
//! ```
//!
//! What servers since 3.6 append (digests, the last transaction) is not read. The source of the format is Java's
//! `FileSnap`, with `DataTree`, `DataNode` and `SnapStream`, of 3.4 to 3.9.

use bytes::Bytes;

use super::jute::record;
use crate::util::znode::Acl;

/// The path that ends the nodes.
pub(crate) const END_OF_NODES: &str = "/";

record! {
    SnapshotSession {
        id: i64,
        timeout_ms: i32,
    }
}

record! {
    SnapshotAcl {
        id: i64,
        acls: Vec<Acl>,
    }
}

record! {
    /// Follows the path of each node.
    SnapshotNode {
        data: Option<Bytes>,
        acl: i64,
        czxid: i64,
        mzxid: i64,
        ctime: i64,
        mtime: i64,
        version: i32,
        cversion: i32,
        aversion: i32,
        owner: i64,
        pzxid: i64,
    }
}
