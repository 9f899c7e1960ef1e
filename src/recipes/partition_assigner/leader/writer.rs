//! Writes records, in transactions that servers refuse unless the writer still leads.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::plan::{Change, Write, plan};
use super::term::{MOST_WRITES, Term};
use crate::engine::{self, Multi, Op, OpResult};
use crate::layout::partition_assigner::Assignment;
use crate::recipes::elected::End;
use crate::util::znode::CreateMode;

/// What a request contains for each record, besides its path and its data: the header of the operation, and an ACL.
const BYTES_OF_OP: usize = 128;

impl Term<'_> {
    /// Writes what may be written now. Returns whether there was anything to write.
    pub(super) async fn write_changes(&mut self, now: Instant) -> Result<bool, End> {
        if !self.is_decided {
            return Ok(false);
        }
        let mut rest: VecDeque<Write> = plan(&self.view).into();
        if rest.is_empty() {
            return Ok(false);
        }
        let registrar = &self.leader.registrar;
        tracing::debug!(
            event = "assigning",
            path = registrar.paths.base,
            epoch = self.epoch.number,
            changed = rest.len(),
            "writing new assignments"
        );
        let mut most_bytes = registrar.core.config.max_request_bytes / 2;
        while !rest.is_empty() {
            let (mut chunk, ops) = self.take_chunk(&mut rest, most_bytes);
            match self.commit(ops).await? {
                Committed::Versions(versions) => {
                    self.most_writes = (self.most_writes * 2).min(MOST_WRITES);
                    for (write, version) in chunk.into_iter().zip(versions) {
                        self.measured.count(&self.view, &write);
                        self.view.written(write, version, now);
                    }
                }
                // The others do not depend on it: a record lists no more than was known. They are written in smaller
                // transactions. Otherwise members that write all the time would have all of them refused.
                Committed::Stale { index, is_address } => {
                    self.most_writes = (chunk.len() / 2).max(1);
                    let stale = chunk.remove(index);
                    self.mark_stale(&stale, is_address);
                    chunk.into_iter().rev().for_each(|write| rest.push_front(write));
                }
                Committed::HasChildren { index } => {
                    self.view.keep(&chunk.remove(index).id);
                    return Ok(true);
                }
                Committed::TooLarge(_) if chunk.len() > 1 => {
                    most_bytes /= 2;
                    chunk.into_iter().rev().for_each(|write| rest.push_front(write));
                }
                Committed::TooLarge(error) => return Err(End::Failed(error)),
            }
        }
        Ok(true)
    }

    /// Notes that a write was refused, so that what it depends on is read again.
    fn mark_stale(&mut self, write: &Write, is_address: bool) {
        if let (true, Change::Create(next) | Change::Set(next, _)) = (is_address, &write.change) {
            self.view.addressed(&write.id, &next.member);
            // The member may have left.
            self.watches.members = None;
        }
        self.view.unread.insert(write.id.clone());
    }

    /// Returns the operations of a write. The last one changes the record.
    fn ops(&self, write: &Write) -> Vec<Op> {
        let (core, path) = (&self.leader.registrar.core, self.leader.registrar.paths.assignment(&write.id));
        let create = |record: &Assignment, path: String| Op::Create {
            path,
            data: record.bytes(),
            mode: CreateMode::Persistent,
            acls: core.config.acls.clone(),
        };
        let change = match &write.change {
            Change::Create(record) => create(record, path),
            Change::Set(record, version) => Op::SetData { path, data: record.bytes(), version: Some(*version) },
            // Its versions begin again, long before one of them means any version.
            Change::Renew(record, version) => {
                return vec![Op::Delete { path: path.clone(), version: Some(*version) }, create(record, path)];
            }
            Change::Delete(version) => Op::Delete { path, version: Some(*version) },
        };
        self.address(write).into_iter().chain([change]).collect()
    }

    /// Returns the operation that writes the node of a registration that gets its record. The server refuses it if the
    /// registration is gone, or ever had a record.
    fn address(&self, write: &Write) -> Option<Op> {
        let (Change::Create(next) | Change::Set(next, _)) = &write.change else { return None };
        let before = self.view.records.get(&write.id).map(|record| &record.assignment.member);
        if before == Some(&next.member) {
            return None;
        }
        let presence = self.view.present.get(&write.id)?.get(&next.member)?.presence.as_ref().ok()?;
        let path = self.leader.registrar.paths.member(&write.id, &next.member);
        Some(Op::SetData { path, data: presence.bytes(), version: Some(0) })
    }

    /// Takes as many writes as a server accepts in one request, at least one. Returns the operations of each, too.
    fn take_chunk(&self, rest: &mut VecDeque<Write>, most_bytes: usize) -> (Vec<Write>, Vec<Vec<Op>>) {
        let bytes = |op: &Op| match op {
            Op::Create { path, data, .. } | Op::SetData { path, data, .. } => path.len() + data.len() + BYTES_OF_OP,
            Op::Check { path, .. } | Op::Delete { path, .. } => path.len() + BYTES_OF_OP,
        };
        let mut total = 0;
        let (mut chunk, mut all_ops) = (Vec::new(), Vec::new());
        while chunk.len() < self.most_writes {
            let Some(next) = rest.front() else { break };
            let ops = self.ops(next);
            total += ops.iter().map(bytes).sum::<usize>();
            if total > most_bytes && !chunk.is_empty() {
                break;
            }
            all_ops.push(ops);
            chunk.extend(rest.pop_front());
        }
        (chunk, all_ops)
    }

    /// Carries out the operations of several writes together.
    async fn commit(&self, writes: Vec<Vec<Op>>) -> Result<Committed, End> {
        let epoch = Op::Check { path: self.leader.registrar.paths.epoch.clone(), version: Some(self.epoch.version) };
        let guards = [self.fence.clone(), epoch];
        let mut ops = Vec::from(guards);
        // Where the operations of each write end.
        let mut ends = Vec::new();
        for write in writes {
            ops.extend(write);
            ends.push(ops.len());
        }
        let creates: Vec<bool> = ops.iter().map(|op| matches!(op, Op::Create { .. })).collect();
        match self.session.multi(ops).await {
            Ok(Multi::Committed(results)) => {
                let version = |result: OpResult| match result {
                    OpResult::SetData { stat } => stat.version,
                    OpResult::Check | OpResult::Create { .. } | OpResult::Delete => 0,
                };
                let changes =
                    results.into_iter().enumerate().filter(|(index, _)| ends.binary_search(&(index + 1)).is_ok());
                Ok(Committed::Versions(changes.map(|(_, result)| version(result)).collect()))
            }
            // The directory was deleted by hand.
            Ok(Multi::Refused { index, error: engine::Error::NoNode }) if creates.get(index) == Some(&true) => {
                self.leader.registrar.directories(&self.session).await.map_err(End::Failed)?;
                Err(End::Superseded)
            }
            Ok(Multi::Refused { index, error: engine::Error::NotEmpty }) => {
                Ok(Committed::HasChildren { index: ends.partition_point(|end| *end <= index) })
            }
            Ok(Multi::Refused {
                index,
                error: engine::Error::NoNode | engine::Error::BadVersion | engine::Error::NodeExists,
            }) => match index {
                0 => Err(End::Fenced),
                1 => Err(End::Superseded),
                _ => {
                    let at = ends.partition_point(|end| *end <= index);
                    Ok(Committed::Stale { index: at, is_address: ends.get(at).is_some_and(|end| *end > index + 1) })
                }
            },
            Ok(Multi::Refused { error: error @ engine::Error::TooLarge(_), .. })
            | Err(error @ engine::Error::TooLarge(_)) => Ok(Committed::TooLarge(error)),
            Ok(Multi::Refused { error, .. }) | Err(error) => Err(End::Failed(error)),
        }
    }
}

/// The outcome of a transaction.
enum Committed {
    /// The versions of the nodes since.
    Versions(Vec<i32>),
    /// The write at this index was refused. Its record was written by its member, or by hand; or its registration is
    /// gone, or had a record before.
    Stale { index: usize, is_address: bool },
    /// The record of the write at this index cannot be deleted: there are nodes below it.
    HasChildren { index: usize },
    /// The servers refuse a request of this size.
    TooLarge(engine::Error),
}
