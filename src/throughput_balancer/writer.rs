//! Writes records, in transactions that are refused unless their author still leads and its maximum still stands.

use std::sync::Arc;

use super::paths::Paths;
use super::record::Record;
use crate::backend::{self, Multi, Op, OpResult};
use crate::client::session::Session;

/// How many records go into one transaction at most.
pub(super) const CHUNK: usize = 1_000;

/// A record to be written, if its node is still at this version.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) name: String,
    pub(super) record: Record,
    pub(super) version: i32,
}

/// What every transaction depends on.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    /// The leader's own node in the line.
    pub(super) fence: Op,
    /// The data version of the node that each take-over writes.
    pub(super) epoch: i32,
    /// The data version of the maximum.
    pub(super) maximum: i32,
}

/// What became of the writes so far.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) done: Vec<(Write, i32)>,
    /// Their nodes are gone, or were changed by somebody.
    pub(super) stale: Vec<Write>,
}

/// Why the rest was not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Another one leads.
    Fenced,
    /// Somebody has taken over, or touched the epoch.
    Epoch,
    /// The maximum has changed.
    Maximum,
    /// No answer, or a refusal.
    Failed(backend::Error),
}

/// Writes in the order given, chunk by chunk. What has become stale is left out; the others are written.
pub(super) async fn write(
    session: &Arc<Session>,
    paths: &Paths,
    conditions: &Conditions,
    writes: Vec<Write>,
    max_bytes: usize,
) -> (Written, Result<(), Stopped>) {
    let mut written = Written::default();
    let mut rest: std::collections::VecDeque<Write> = writes.into();
    while !rest.is_empty() {
        let mut chunk = take_chunk(&mut rest, paths, max_bytes);
        while !chunk.is_empty() {
            match commit(session, paths, conditions, &chunk).await {
                Ok(versions) => {
                    written.done.extend(chunk.drain(..).zip(versions));
                }
                Err((Some(stale), _)) if stale < chunk.len() => written.stale.push(chunk.remove(stale)),
                Err((_, stopped)) => return (written, Err(stopped)),
            }
        }
    }
    (written, Ok(()))
}

/// So many that a server takes them in one request, at least one.
fn take_chunk(rest: &mut std::collections::VecDeque<Write>, paths: &Paths, max_bytes: usize) -> Vec<Write> {
    let mut bytes = 0;
    let mut chunk = Vec::new();
    while chunk.len() < CHUNK {
        let Some(next) = rest.front() else { break };
        // The header of an operation, and what the server adds to it.
        bytes += next.record.bytes().len() + paths.members.len() + next.name.len() + 64;
        if bytes > max_bytes / 2 && !chunk.is_empty() {
            break;
        }
        chunk.extend(rest.pop_front());
    }
    chunk
}

/// The new versions; or the index of a write that has become stale; or why nothing can be written.
async fn commit(
    session: &Arc<Session>,
    paths: &Paths,
    conditions: &Conditions,
    chunk: &[Write],
) -> Result<Vec<i32>, (Option<usize>, Stopped)> {
    let guards = [
        conditions.fence.clone(),
        Op::Check { path: paths.epoch.clone(), version: Some(conditions.epoch) },
        Op::Check { path: paths.maximum.clone(), version: Some(conditions.maximum) },
    ];
    let guarded = guards.len();
    let sets = chunk.iter().map(|write| Op::SetData {
        path: paths.member(&write.name),
        data: write.record.bytes(),
        version: Some(write.version),
    });
    let ops: Vec<Op> = guards.into_iter().chain(sets).collect();
    match session.multi(ops).await {
        Ok(Multi::Committed(results)) => Ok(results
            .into_iter()
            .filter_map(|result| match result {
                OpResult::SetData { stat } => Some(stat.version),
                _ => None,
            })
            .collect()),
        Ok(Multi::Refused { index: 0, .. }) => Err((None, Stopped::Fenced)),
        Ok(Multi::Refused { index: 1, .. }) => Err((None, Stopped::Epoch)),
        Ok(Multi::Refused { index: 2, .. }) => Err((None, Stopped::Maximum)),
        Ok(Multi::Refused { index, error: error @ (backend::Error::NoNode | backend::Error::BadVersion) }) => {
            Err((Some(index - guarded), Stopped::Failed(error)))
        }
        Ok(Multi::Refused { error, .. }) | Err(error) => Err((None, Stopped::Failed(error))),
    }
}
