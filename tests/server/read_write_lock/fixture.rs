//! Shared by the tests of the read-write lock: helpers for locks.

use zookeeper_recipes::Client;
use zookeeper_recipes::read_write_lock::{InterProcessReadWriteLock, ReadGuard, WriteGuard};

pub(crate) use crate::fixture::*;

pub(crate) fn lock(client: &Client, path: &str) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, path).expect("a good path")
}

/// The lock for reading, which is expected to be had in the end.
pub(crate) async fn reading(lock: &InterProcessReadWriteLock) -> ReadGuard {
    let read = lock.read();
    within("it reads", SOON, read.acquire()).await.unwrap_or_else(|error| panic!("it reads: {error}"))
}

/// The lock for writing, which is expected to be had in the end.
pub(crate) async fn writing(lock: &InterProcessReadWriteLock) -> WriteGuard {
    let write = lock.write();
    within("it writes", SOON, write.acquire()).await.unwrap_or_else(|error| panic!("it writes: {error}"))
}
