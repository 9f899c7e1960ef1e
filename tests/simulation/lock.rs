//! The locks that workers use and their guards, as one type each.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::lock;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::read_write_lock::{ReadGuard, ReadLock, WriteGuard, WriteLock};

use crate::watcher::Holder;

/// What a worker acquires.
#[derive(Clone)]
pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Read(ReadLock),
    Write(WriteLock),
}

/// What a worker holds.
#[derive(Debug)]
pub(crate) enum Guard {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
}

/// Why a call on a lock or a guard failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    /// The lock had been lost before the call.
    pub(crate) had_lost: bool,
    pub(crate) text: String,
}

impl From<lock::Error> for Failure {
    fn from(error: lock::Error) -> Self {
        let had_lost = matches!(error, lock::Error::Lost { .. });
        Failure { kind: error.kind(), had_lost, text: error.to_string() }
    }
}

/// Makes the same call on each kind of guard.
macro_rules! each {
    ($self:expr, $guard:ident => $call:expr) => {
        match $self {
            Guard::Mutex($guard) => $call,
            Guard::Read($guard) => $call,
            Guard::Write($guard) => $call,
        }
    };
}

impl Lock {
    pub(crate) async fn acquire(&self) -> Result<Guard, Failure> {
        Ok(match self {
            Lock::Mutex(lock) => Guard::Mutex(lock.acquire().await?),
            Lock::Read(lock) => Guard::Read(lock.acquire().await?),
            Lock::Write(lock) => Guard::Write(lock.acquire().await?),
        })
    }

    pub(crate) async fn acquire_timeout(&self, within: Duration) -> Result<Option<Guard>, Failure> {
        Ok(match self {
            Lock::Mutex(lock) => lock.acquire_timeout(within).await?.map(Guard::Mutex),
            Lock::Read(lock) => lock.acquire_timeout(within).await?.map(Guard::Read),
            Lock::Write(lock) => lock.acquire_timeout(within).await?.map(Guard::Write),
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, Failure> {
        Ok(match self {
            Lock::Mutex(lock) => lock.try_acquire().await?.map(Guard::Mutex),
            Lock::Read(lock) => lock.try_acquire().await?.map(Guard::Read),
            Lock::Write(lock) => lock.try_acquire().await?.map(Guard::Write),
        })
    }
}

impl Guard {
    pub(crate) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    pub(crate) fn fencing_token(&self) -> i64 {
        each!(self, guard => guard.fencing_token())
    }

    pub(crate) fn node_path(&self) -> &str {
        each!(self, guard => guard.node_path())
    }

    pub(crate) async fn lost(&self) {
        each!(self, guard => guard.lost().await);
    }

    /// Waits for a request to release. Returns false if the lock was lost first.
    pub(crate) async fn on_revoke(&self) -> bool {
        each!(self, guard => guard.on_revoke().await.is_ok())
    }

    pub(crate) async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        each!(self, guard => guard.run(work).await.ok())
    }

    pub(crate) async fn release(self) -> Result<(), Failure> {
        each!(self, guard => Ok(guard.release().await?))
    }
}

/// A guard, and the transaction that created its node.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) guard: Guard,
    pub(crate) czxid: i64,
}

impl Holder for Held {
    fn token(&self) -> Option<i64> {
        self.guard.is_held().then(|| self.guard.fencing_token())
    }

    fn czxid(&self, _token: i64) -> i64 {
        self.czxid
    }

    fn is_reader(&self) -> bool {
        matches!(self.guard, Guard::Read(_))
    }
}
