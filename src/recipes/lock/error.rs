//! The errors of all locks.

use std::fmt;
use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// The lock was lost before the work that was to run under it had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost")]
pub struct LockLost;

/// The kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// An `InterProcessMutex`.
    Mutex,
    /// One side of an `InterProcessReadWriteLock`.
    ReadWriteLock,
    /// An `InterProcessSemaphore`.
    Semaphore,
    /// One of the locks of an `InterProcessMultiLock`, or all of them.
    MultiLock,
}

/// An error of a lock: of a mutex, a read-write lock, a semaphore or a multi-lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains the cause's text, so `source` does not repeat it.
    #[error("{}: {}", at(.lock, .path), .error.below(.path))]
    Client {
        /// The kind of the lock.
        lock: LockKind,
        /// The path of the lock; of a multi-lock, of the lock that failed.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may say why.
    #[error("{}: its client has been closed, or the runtime behind it has ended", at(.lock, .path))]
    Closed {
        /// The kind of the lock.
        lock: LockKind,
        /// The path of the lock.
        path: Arc<str>,
    },
    /// The lock, or one of the permits or locks of a guard, had been lost before it was released, entered again or
    /// downgraded, so another participant may have held it since. Acquire it again. Its kind is
    /// [`ErrorKind::SessionLost`], even if the connection was only suspended.
    #[error(
        "{}: {} had been lost before this call was done, so another client may have held it since; acquire again",
        at(.lock, .path),
        held(.lock)
    )]
    Lost {
        /// The kind of the lock.
        lock: LockKind,
        /// The path of the lock that was lost.
        path: Arc<str>,
    },
    /// An option, or an argument of a call, is not allowed.
    #[error("{}: {why}", at(.lock, .path))]
    InvalidOption {
        /// The kind of the lock.
        lock: LockKind,
        /// The path of the lock; empty if a multi-lock cannot be made of the locks.
        path: Arc<str>,
        /// The value, and what is allowed.
        why: String,
    },
}

impl Error {
    /// Returns the kind of the error, for code that decides how to react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::Lost { .. } => ErrorKind::SessionLost,
            Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns whether the same call may succeed later without a change by the caller or an operator.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    /// Returns whether the lock or the client is lost permanently.
    pub fn is_lost(&self) -> bool {
        self.kind().is_lost()
    }

    /// Converts an error of the client.
    pub(crate) fn client(lock: LockKind, path: &str, error: client::Error) -> Self {
        match error.kind() {
            ErrorKind::Closed => Error::Closed { lock, path: path.into() },
            _ => Error::Client { lock, path: path.into(), error },
        }
    }
}

/// Names a lock for an error text.
fn at(lock: &LockKind, path: &str) -> impl fmt::Display {
    let name = match lock {
        LockKind::Mutex => "mutex",
        LockKind::ReadWriteLock => "read-write lock",
        LockKind::Semaphore => "semaphore",
        LockKind::MultiLock if path.is_empty() => return "multi-lock".to_owned(),
        LockKind::MultiLock => "multi-lock, its lock",
    };
    format!("{name} at {path}")
}

/// Names what a guard of the lock holds.
fn held(lock: &LockKind) -> &'static str {
    match lock {
        LockKind::Mutex | LockKind::ReadWriteLock => "the lock",
        LockKind::Semaphore => "a permit",
        LockKind::MultiLock => "one of the locks",
    }
}
