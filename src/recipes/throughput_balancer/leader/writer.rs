//! Writes records, in transactions that servers refuse unless the writer still leads and the maximum is unchanged.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::client::session::Session;
use crate::engine::{self, Multi, Op, OpResult};
use crate::layout::throughput_balancer::Paths;
use crate::recipes::elected::End;
use crate::throughput_balancer::record::Record;

/// How many records one transaction contains at most.
const CHUNK: usize = 1_000;

/// A record to be written, if its node is still at this version.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) name: String,
    pub(super) record: Record,
    pub(super) version: i32,
}

/// What every transaction depends on.
#[derive(Debug, Clone)]
pub(super) struct Preconditions {
    /// The check of the leader's own node in the election.
    pub(super) fence: Op,
    /// The data version of the node that each take-over writes.
    pub(super) epoch: i32,
    /// The data version of the maximum.
    pub(super) maximum: i32,
}

/// The outcome of the writes so far.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// What was written, with the new versions.
    pub(super) done: Vec<(Write, i32)>,
    /// The name of a member whose node is gone or was changed by another program. The writes after it were not sent:
    /// other nodes may be gone too, which one listing shows.
    pub(super) stale: Option<String>,
    /// The maximum has changed. The writes from then on were refused.
    pub(super) is_maximum_stale: bool,
    /// The names of the nodes that cannot be written, and why.
    pub(super) refused: Vec<(String, String)>,
}

/// Writes in the given order, chunk by chunk, up to the first stale node. Leaves out what cannot be written.
pub(super) async fn write(
    session: &Arc<Session>,
    paths: &Paths,
    preconditions: &Preconditions,
    writes: Vec<Write>,
    mut max_bytes: usize,
) -> (Written, Result<(), End>) {
    let mut written = Written::default();
    let (mut rest, too_large): (VecDeque<_>, VecDeque<_>) =
        writes.into_iter().partition(|write| bytes(write, paths) + 3 * bytes_of_guard(paths) <= max_bytes);
    for write in too_large {
        let why = format!("its record of {} bytes is too large to be written", write.record.bytes().len());
        written.refused.push((write.name, why));
    }
    while !rest.is_empty() {
        let mut chunk = take_chunk(&mut rest, paths, max_bytes);
        while !chunk.is_empty() {
            match commit(session, paths, preconditions, &chunk).await {
                Ok(versions) => written.done.extend(chunk.drain(..).zip(versions)),
                Err(Refusal::Write(index, engine::Error::NoNode | engine::Error::BadVersion)) => {
                    written.stale = Some(chunk.remove(index).name);
                    return (written, Ok(()));
                }
                Err(Refusal::Write(index, error)) => {
                    written.refused.push((chunk.remove(index).name, format!("it cannot be written: {error:?}")));
                }
                Err(Refusal::Maximum) => {
                    written.is_maximum_stale = true;
                    return (written, Ok(()));
                }
                // The servers' limit is lower than the client assumes.
                Err(Refusal::Term(End::Failed(error @ engine::Error::TooLarge(_)))) => {
                    if let [write] = &*chunk {
                        written.refused.push((write.name.clone(), format!("it cannot be written: {error:?}")));
                        break;
                    }
                    max_bytes /= 2;
                    chunk.drain(..).rev().for_each(|write| rest.push_front(write));
                }
                Err(Refusal::Term(end)) => return (written, Err(end)),
            }
        }
    }
    (written, Ok(()))
}

/// Returns how many bytes a record takes in a request, with the header of an operation and what the server adds to it.
fn bytes(write: &Write, paths: &Paths) -> usize {
    write.record.bytes().len() + paths.members.len() + write.name.len() + 64
}

/// Returns how many bytes a check of a path takes at most.
fn bytes_of_guard(paths: &Paths) -> usize {
    paths.latch.len() + 256
}

/// Takes as many writes as a server accepts in one request, at least one.
fn take_chunk(rest: &mut VecDeque<Write>, paths: &Paths, max_bytes: usize) -> Vec<Write> {
    let mut total = 0;
    let mut chunk = Vec::new();
    while chunk.len() < CHUNK {
        let Some(next) = rest.front() else { break };
        total += bytes(next, paths);
        if total > max_bytes / 2 && !chunk.is_empty() {
            break;
        }
        chunk.extend(rest.pop_front());
    }
    chunk
}

/// Why a transaction was not carried out.
enum Refusal {
    /// One write was refused: its index and the error.
    Write(usize, engine::Error),
    /// The maximum has changed.
    Maximum,
    /// This leader can write nothing more in its term.
    Term(End),
}

/// Commits the chunk. Returns the new versions.
async fn commit(
    session: &Arc<Session>,
    paths: &Paths,
    preconditions: &Preconditions,
    chunk: &[Write],
) -> Result<Vec<i32>, Refusal> {
    let guards = [
        preconditions.fence.clone(),
        Op::Check { path: paths.epoch.clone(), version: Some(preconditions.epoch) },
        Op::Check { path: paths.maximum.clone(), version: Some(preconditions.maximum) },
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
        Ok(Multi::Refused { index, error }) if index >= guarded => Err(Refusal::Write(index - guarded, error)),
        Ok(Multi::Refused { index, error: engine::Error::NoNode | engine::Error::BadVersion }) => Err(match index {
            0 => Refusal::Term(End::Fenced),
            // Another member has taken over, or the maximum was created, or the epoch was changed by hand.
            1 => Refusal::Term(End::Superseded),
            _ => Refusal::Maximum,
        }),
        Ok(Multi::Refused { error, .. }) | Err(error) => Err(Refusal::Term(End::Failed(error))),
    }
}
