//! Tests on logs that are made up, so that each case is there. `tests/memory` has those on logs of real servers.

mod damage;
mod epochs;
mod gaps;
mod history;

use std::ops::ControlFlow;
use std::path::PathBuf;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Event, Hold, Postmortem, Summary};
use crate::protocol::{Encode, OpCode, Writer};

/// A directory that is removed on drop.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Directory {
        let path = std::env::temp_dir().join(format!("postmortem-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).expect("it is created");
        Directory(path)
    }

    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("it is written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It is in the directory of temporary files, should this fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes records as a server does.
pub(super) fn written(write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut Writer::new(&mut out));
    out.freeze()
}

/// A log. Each transaction is a second after the one before it.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) bytes: BytesMut,
    /// The id of the next transaction.
    pub(super) zxid: i64,
}

impl Log {
    /// A log whose first transaction will be this one.
    pub(super) fn from(zxid: i64) -> Log {
        let mut bytes = BytesMut::new();
        bytes.put_slice(b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0");
        Log { bytes, zxid }
    }

    /// Appends a transaction of a session.
    pub(super) fn txn(&mut self, session: i64, cxid: i32, op: OpCode, record: &[u8]) -> &mut Log {
        let body = written(|to| {
            to.long(session);
            to.int(cxid);
            to.long(self.zxid);
            to.long((self.zxid & 0xffff_ffff) * 1000);
            op.encode(to);
            to.raw(record);
        });
        self.bytes.put_u64(adler2::adler32_slice(&body).into());
        self.bytes.put_i32(body.len().try_into().expect("it is short"));
        self.bytes.put_slice(&body);
        self.bytes.put_u8(b'B');
        self.zxid += 1;
        self
    }

    pub(super) fn open(&mut self, session: i64) -> &mut Log {
        self.txn(session, 0, OpCode::CreateSession, &4000_i32.to_be_bytes())
    }

    /// Ends a session: its client does, or the servers.
    pub(super) fn close(&mut self, session: i64, is_expired: bool) -> &mut Log {
        self.txn(session, i32::from(!is_expired), OpCode::CloseSession, &[])
    }

    pub(super) fn create(&mut self, session: i64, path: &str) -> &mut Log {
        self.txn(session, 1, OpCode::Create, &created(path, true))
    }

    pub(super) fn create_persistent(&mut self, session: i64, path: &str) -> &mut Log {
        self.txn(session, 1, OpCode::Create2, &created(path, false))
    }

    pub(super) fn delete(&mut self, session: i64, path: &str) -> &mut Log {
        self.txn(session, 1, OpCode::Delete, &written(|to| to.ustring(path)))
    }

    pub(super) fn set(&mut self, session: i64, path: &str, data: &[u8]) -> &mut Log {
        let record = written(|to| {
            to.ustring(path);
            to.buffer(Some(data));
            to.int(1);
        });
        self.txn(session, 1, OpCode::SetData, &record)
    }

    /// Appends a transaction of several steps.
    pub(super) fn multi(&mut self, session: i64, steps: &[(OpCode, Bytes)]) -> &mut Log {
        let record = written(|to| {
            to.int(steps.len().try_into().expect("few"));
            for (op, record) in steps {
                op.encode(to);
                to.buffer(Some(record));
            }
        });
        self.txn(session, 1, OpCode::Multi, &record)
    }
}

/// The record of a create.
pub(super) fn created(path: &str, is_ephemeral: bool) -> Bytes {
    written(|to| {
        to.ustring(path);
        to.buffer(Some(b"host"));
        to.int(1);
        to.int(31);
        to.ustring("world");
        to.ustring("anyone");
        to.bool(is_ephemeral);
        to.int(1);
    })
}

/// The record of a delete.
pub(super) fn deleted(path: &str) -> Bytes {
    written(|to| to.ustring(path))
}

/// A snapshot with these sessions and nodes: a path, an owner, and the transaction that created it.
pub(super) fn snapshot(sessions: &[i64], nodes: &[(&str, i64, i64)]) -> Vec<u8> {
    let mut bytes = written(|to| {
        to.raw(b"ZKSN\0\0\0\x02\0\0\0\0\0\0\0\0");
        to.int(sessions.len().try_into().expect("few"));
        for session in sessions {
            to.long(*session);
            to.int(4000);
        }
        to.int(0);
        for (path, owner, czxid) in [("", 0, 0)].iter().chain(nodes) {
            to.ustring(path);
            to.buffer(Some(b"host"));
            to.long(0);
            [*czxid, *czxid, czxid * 1000, czxid * 1000].into_iter().for_each(|long| to.long(long));
            (0..3).for_each(|_| to.int(0));
            to.long(*owner);
            to.long(*czxid);
        }
        to.ustring("/");
    })
    .to_vec();
    let sum = adler2::adler32_slice(&bytes);
    bytes.put_i64(sum.into());
    bytes.put_slice(&written(|to| to.ustring("/")));
    bytes
}

/// What is told of these files, as short texts, and the summary.
pub(super) fn told(files: &[PathBuf], path: &str) -> (Vec<String>, Summary) {
    told_until(files, path, None)
}

pub(super) fn told_until(files: &[PathBuf], path: &str, until: Option<i64>) -> (Vec<String>, Summary) {
    let mut told = Vec::new();
    let logs = Postmortem::open(files, path).expect("they are logs");
    let summary = logs.replay(until, |event| {
        if !matches!(event, Event::Replayed(_)) {
            told.push(short(&event));
        }
        ControlFlow::Continue(())
    });
    (told, summary.expect("they are read"))
}

/// Shows a moment by the number of its transaction.
fn short(event: &Event) -> String {
    let low = |zxid: i64| zxid & 0xffff_ffff;
    match event {
        Event::Hold(hold) => short_hold(hold),
        Event::Item(item) => {
            let deliveries =
                item.deliveries.iter().map(|one| format!(" {}:{:?}", one.session_id.unwrap_or(0), one.end));
            let letter = item.letter.as_deref().map(|letter| format!(" as {letter}")).unwrap_or_default();
            format!("{} {:?}{letter}{}", item.path, item.end, deliveries.collect::<String>())
        }
        Event::Overlap(overlap) => {
            let until = overlap.until.map_or(0, |until| low(until.zxid));
            let from = low(overlap.from.zxid);
            format!("{} and {} from {from} to {until}, {} others", overlap.first, overlap.second, overlap.others)
        }
        Event::Gap(gap) => format!("gap {:#x} {:#x}", gap.after.zxid, gap.before.zxid),
        Event::Damage(damage) => format!("damage at {}: {}", damage.offset, damage.reason),
        Event::Progress(_) | Event::Replayed(_) => String::new(),
    }
}

fn short_hold(hold: &Hold) -> String {
    let low = |zxid: i64| zxid & 0xffff_ffff;
    let granted = match hold.granted {
        Some(at) if hold.granted_before => format!("held before {}", low(at.zxid)),
        Some(at) => format!("held from {}", low(at.zxid)),
        None => format!("waited from {}", low(hold.joined.zxid)),
    };
    let ended = hold.ended.map(|at| format!(" to {}", low(at.zxid))).unwrap_or_default();
    let by = hold.ended_by.filter(|by| Some(*by) != hold.session_id).map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{} {granted}{ended}, {:?}{by}", hold.path, hold.end)
}
