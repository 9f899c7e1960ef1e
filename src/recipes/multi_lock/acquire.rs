//! Acquires all locks, one after the other, or none.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all, select_all};
use tokio::time::{Instant, timeout_at};

use super::guard::MultiLockGuard;
use super::{Error, LockKind};
use crate::client::{self, ErrorKind};
use crate::contender::acquire::CallTime;
use crate::contender::held::Held;
use crate::contender::lock::LockLine;
use crate::util::wait::forever;

/// Why not all locks are held.
enum Missed {
    /// A lock that was acquired before was lost. With an error if the lock that was waited for may have left a node.
    Lost(Option<Error>),
    /// Another participant is ahead at one lock.
    Another,
    Failed(Error),
}

/// How each lock is acquired.
enum How {
    Wait,
    WaitInTime(CallTime),
    IfFree(CallTime),
}

/// Waits without a limit.
pub(super) async fn without_limit(lines: &[LockLine]) -> Result<MultiLockGuard, Error> {
    loop {
        let mut held = Vec::with_capacity(lines.len());
        match each(lines, &mut held, &How::Wait).await {
            Ok(()) => return Ok(MultiLockGuard::new(held)),
            Err(missed) => {
                // The drop hands over the deletes.
                drop(MultiLockGuard::new(held));
                if let Missed::Failed(error) = missed {
                    return Err(error);
                }
            }
        }
    }
}

/// Waits for at most `timeout`, leaving included.
pub(super) async fn in_time(lines: &[LockLine], timeout: Duration) -> Result<Option<MultiLockGuard>, Error> {
    match CallTime::of(timeout) {
        Some(time) => all_or_none(lines, How::WaitInTime, time).await,
        None => without_limit(lines).await.map(Some),
    }
}

/// Acquires all if they are free.
pub(super) async fn if_free(lines: &[LockLine]) -> Result<Option<MultiLockGuard>, Error> {
    let timeout = lines.first().map_or(Duration::ZERO, LockLine::connection_timeout);
    match CallTime::of(timeout) {
        Some(time) => all_or_none(lines, How::IfFree, time).await,
        None => without_limit(lines).await.map(Some),
    }
}

async fn all_or_none(
    lines: &[LockLine],
    how: fn(CallTime) -> How,
    time: CallTime,
) -> Result<Option<MultiLockGuard>, Error> {
    // At the end, the call leaves one line and then releases the locks that it has. Each step gets the time that one
    // lock reserves.
    let reserved = time.leave_by - time.wait_until;
    let of_each = CallTime { wait_until: time.wait_until - reserved, leave_by: time.wait_until, ..time };
    // An earlier attempt may have left nodes.
    let mut unconfirmed = None;
    loop {
        let mut held = Vec::with_capacity(lines.len());
        let missed = match each(lines, &mut held, &how(of_each)).await {
            Ok(()) => return Ok(Some(MultiLockGuard::new(held))),
            Err(missed) => missed,
        };
        unconfirmed = unconfirmed.or(release_all(held, time.leave_by).await.err());
        match missed {
            // A timeout must not hide that nodes may be left. Any other error is the cause to report.
            Missed::Failed(error) if error.kind() == ErrorKind::TimedOut => return Err(unconfirmed.unwrap_or(error)),
            Missed::Failed(error) => return Err(error),
            Missed::Another => return unconfirmed.map_or(Ok(None), Err),
            Missed::Lost(error) => unconfirmed = unconfirmed.or(error),
        }
        if Instant::now() >= of_each.wait_until {
            return Err(unconfirmed.unwrap_or_else(|| too_late(lines, time.timeout)));
        }
    }
}

/// Returns the error of a call that has lost its locks, and has no time to start over.
fn too_late(lines: &[LockLine], timeout: Duration) -> Error {
    let path = lines.first().map_or("", |line| line.path());
    let why = format!("the locks acquired so far were lost, and the time of {timeout:?} is over");
    Error::client(LockKind::MultiLock, path, client::Error::at(ErrorKind::TimedOut, "acquire", path, why))
}

impl How {
    /// Acquires the lock, unless one that was acquired before is lost first. With a time limit, `None` means that no
    /// node is left in this line.
    async fn acquire(&self, line: &LockLine, lost: impl Future<Output = ()>) -> Result<Option<Held>, client::Error> {
        match self {
            How::Wait => {
                tokio::select! {
                    biased;
                    held = line.acquire() => held.map(Some),
                    // The node is deleted in the background.
                    () = lost => Ok(None),
                }
            }
            How::WaitInTime(time) => line.acquire_in(*time, lost).await,
            How::IfFree(time) => line.try_in(*time).await,
        }
    }
}

/// Acquires one lock after the other. Stops when one that it has acquired is lost.
async fn each(lines: &[LockLine], held: &mut Vec<Held>, how: &How) -> Result<(), Missed> {
    for line in lines {
        let next = how.acquire(line, one_is_lost(held)).await;
        let next = next.map_err(|error| Error::client(LockKind::MultiLock, line.path(), error));
        if held.iter().any(|one| !one.is_held()) {
            return match next {
                Ok(next) => {
                    held.extend(next);
                    Err(Missed::Lost(None))
                }
                Err(error) => Err(Missed::Lost(Some(error).filter(|error| error.kind() == ErrorKind::OutcomeUnknown))),
            };
        }
        match next {
            Ok(Some(next)) => held.push(next),
            Ok(None) => return Err(Missed::Another),
            Err(error) => return Err(Missed::Failed(error)),
        }
    }
    Ok(())
}

/// Resolves when one of the locks is lost; never if there are none.
async fn one_is_lost(held: &mut [Held]) {
    if held.is_empty() {
        return forever().await;
    }
    let losses: Vec<BoxFuture<'_, ()>> = held.iter_mut().map(|one| one.until_lost().boxed()).collect();
    select_all(losses).await;
}

/// Releases all locks in reverse order, and waits until their nodes are gone.
async fn release_all(held: Vec<Held>, deadline: Instant) -> Result<(), Error> {
    let paths: Vec<Arc<str>> = held.iter().map(|one| Arc::clone(&one.path)).collect();
    let releases: Vec<_> = held.into_iter().rev().map(Held::release).collect();
    let released = timeout_at(deadline, join_all(releases)).await;
    let failed = match released {
        Ok(all) => all.into_iter().zip(paths.iter().rev()).find_map(|(one, path)| Some((one.err()?, path))),
        Err(_) => {
            let path = paths.first().expect("a release that takes time");
            let error = client::Error::at(ErrorKind::OutcomeUnknown, "release", path, "no answer in time");
            Some((error, path))
        }
    };
    match failed {
        None => Ok(()),
        Some((error, path)) => {
            let note = "; nothing is held; the nodes, if there are any, are deleted in the background";
            Err(Error::client(LockKind::MultiLock, path, error.outcome_unknown(note)))
        }
    }
}
