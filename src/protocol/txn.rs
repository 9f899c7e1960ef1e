//! The records of a transaction log, as the servers write them to their disks.
//!
//! A log begins with a [`FileHeader`]. Then, for each transaction, there is its Adler-32 in eight bytes, its length in
//! four, a [`TxnHeader`] with the record of the transaction, and the byte [`END_OF_TXN`]. Servers allocate the file in
//! advance, so zeros follow the last one. Servers since 3.6 append a digest to each record, which is not read.
//!
//! The source of the format is Java's `FileTxnLog`, with `zookeeper.jute` and `SerializeUtils`, of 3.4 to 3.9.

use bytes::Bytes;

use super::jute::{Decode, Malformed, Problem, Reader, record};
use super::op::OpCode;
use crate::util::znode::Acl;

/// The first bytes of a log.
pub(crate) const LOG_MAGIC: [u8; 4] = *b"ZKLG";
/// The first bytes of a snapshot.
pub(crate) const SNAPSHOT_MAGIC: [u8; 4] = *b"ZKSN";
/// The version of both formats. It was the same in all servers since 3.0.
pub(crate) const FORMAT: i32 = 2;
/// The length of a [`FileHeader`].
pub(crate) const FILE_HEADER_BYTES: usize = 16;
/// Follows each transaction.
pub(crate) const END_OF_TXN: u8 = b'B';

/// The owner of a container, and the first byte of the owner of a node with a time to live.
const CONTAINER: i64 = i64::MIN;
const TTL: i64 = (0xff_u64 << 56).cast_signed();

record! {
    /// The first record of a log, and of a snapshot.
    FileHeader {
        magic: i32,
        version: i32,
        database: i64,
    }
}

record! {
    /// Comes before the record of each transaction.
    TxnHeader {
        /// The session that asked for it; 0 if a server did.
        session: i64,
        /// The number that the client gave to its request; 0 if a server asked, as for a session that has expired.
        cxid: i32,
        zxid: i64,
        /// In milliseconds since 1970, by the clock of the server that led.
        time: i64,
        op: OpCode,
    }
}

record! {
    CreateTxn<'a> {
        path: &'a str,
        data: Option<Bytes>,
        acls: Vec<Acl>,
        ephemeral: bool,
    }
}

record! {
    /// Of a container, and, with more fields that are not read, of a node with a time to live.
    CreateContainerTxn<'a> {
        path: &'a str,
        data: Option<Bytes>,
        acls: Vec<Acl>,
        parent_version: i32,
    }
}

record! {
    DeleteTxn<'a> {
        path: &'a str,
    }
}

record! {
    SetDataTxn<'a> {
        path: &'a str,
        data: Option<Bytes>,
        version: i32,
    }
}

record! {
    /// Since 3.6: the nodes that the end of a session deletes.
    CloseSessionTxn<'a> {
        paths: Vec<&'a str>,
    }
}

record! {
    /// A step of a transaction of several.
    TxnStep {
        op: OpCode,
        record: Option<Bytes>,
    }
}

/// What a transaction changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Create {
        path: String,
        data: Bytes,
        /// The owner that the servers report for the node.
        owner: i64,
    },
    Delete {
        path: String,
    },
    SetData {
        path: String,
        data: Bytes,
    },
    OpenSession {
        timeout_ms: i32,
    },
    /// Ends the session of the header. There are no paths in a log of servers before 3.6.
    CloseSession {
        paths: Vec<String>,
    },
}

/// A transaction of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Txn {
    pub(crate) header: TxnHeader,
    /// In order. Empty if it was refused, or changes neither nodes nor sessions.
    pub(crate) changes: Vec<Change>,
}

impl Txn {
    /// Reads a transaction from the bytes between its length and its end.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Txn, Malformed> {
        let from = &mut Reader::new(bytes);
        let header = TxnHeader::decode(from)?;
        let mut changes = Vec::new();
        read_record(header.op, &header, from, &mut changes)?;
        Ok(Txn { header, changes })
    }
}

/// Reads the record of an operation, and appends what it changes.
fn read_record(
    op: OpCode,
    header: &TxnHeader,
    from: &mut Reader<'_>,
    changes: &mut Vec<Change>,
) -> Result<(), Malformed> {
    match op {
        OpCode::Create | OpCode::Create2 => {
            let CreateTxn { path, data, ephemeral, .. } = CreateTxn::decode(from)?;
            changes.push(create(path, data, if ephemeral { header.session } else { 0 }));
        }
        OpCode::CreateContainer | OpCode::CreateTtl => {
            let CreateContainerTxn { path, data, .. } = CreateContainerTxn::decode(from)?;
            changes.push(create(path, data, if op == OpCode::CreateTtl { TTL } else { CONTAINER }));
        }
        OpCode::Delete | OpCode::DeleteContainer => {
            let DeleteTxn { path } = DeleteTxn::decode(from)?;
            changes.push(Change::Delete { path: path.to_owned() });
        }
        OpCode::SetData | OpCode::Reconfig => {
            let SetDataTxn { path, data, .. } = SetDataTxn::decode(from)?;
            changes.push(Change::SetData { path: path.to_owned(), data: data.unwrap_or_default() });
        }
        OpCode::CreateSession => changes.push(Change::OpenSession { timeout_ms: i32::decode(from)? }),
        OpCode::CloseSession => changes.push(Change::CloseSession { paths: closed_paths(from) }),
        OpCode::Multi => {
            let steps = Vec::<TxnStep>::decode(from)?;
            // Only the steps from the failed one on are errors, and the ones before them are not carried out either.
            if steps.iter().any(|step| step.op == OpCode::Error) {
                return Ok(());
            }
            for TxnStep { op, record } in steps {
                let record = record.unwrap_or_default();
                read_step(op, header, &mut Reader::new(&record), changes)?;
            }
        }
        OpCode::SetAcl | OpCode::Check | OpCode::Error => {}
        other => {
            from.field("TxnHeader.op");
            return Err(from.malformed(from.position(), Problem::Value(other.into())));
        }
    }
    Ok(())
}

/// Reads a step, which is none of several steps itself.
fn read_step(
    op: OpCode,
    header: &TxnHeader,
    from: &mut Reader<'_>,
    changes: &mut Vec<Change>,
) -> Result<(), Malformed> {
    if op == OpCode::Multi {
        from.field("TxnStep.op");
        return Err(from.malformed(0, Problem::Value(op.into())));
    }
    read_record(op, header, from, changes)
}

fn create(path: &str, data: Option<Bytes>, owner: i64) -> Change {
    Change::Create { path: path.to_owned(), data: data.unwrap_or_default(), owner }
}

/// Reads the paths that a closed session leaves. There are none before 3.6, nor with `closeSessionTxn.enabled=false`;
/// then a digest may be in their place, which is not a list of paths.
fn closed_paths(from: &mut Reader<'_>) -> Vec<String> {
    let is_path = |path: &&str| path.starts_with('/');
    let read = CloseSessionTxn::decode(from).ok().filter(|txn| txn.paths.iter().all(is_path));
    read.map(|txn| txn.paths.into_iter().map(str::to_owned).collect()).unwrap_or_default()
}
