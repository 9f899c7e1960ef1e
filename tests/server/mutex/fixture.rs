//! Shared by the tests of the mutex: helpers for mutexes.

use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};

pub(crate) use crate::fixture::*;
use crate::support::within;

pub(crate) fn mutex(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).expect("a good path")
}

/// The lock, which is expected to be had in the end.
pub(crate) async fn acquired(mutex: &InterProcessMutex) -> MutexGuard {
    let guard = within("the lock is acquired", SOON, mutex.acquire()).await;
    guard.unwrap_or_else(|error| panic!("the lock is acquired: {error}"))
}

pub(crate) async fn released(guard: MutexGuard) {
    let released = within("the lock is released", SOON, guard.release()).await;
    released.unwrap_or_else(|error| panic!("the lock is released: {error}"));
}

/// A task that waits for the lock in the background.
pub(crate) struct Waiting(tokio::task::JoinHandle<MutexGuard>);

impl Waiting {
    /// Starts to wait; returns when there are `before` nodes before its own.
    pub(crate) async fn behind(fixture: &Fixture, mutex: &InterProcessMutex, before: usize) -> Waiting {
        let waiting = {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.acquire().await.expect("the lock is acquired in the end") })
        };
        fixture.observer.wait_for_children(mutex.path(), before + 1).await;
        Waiting(waiting)
    }

    /// It does not have the lock for a while.
    pub(crate) async fn still_pending(&mut self) {
        assert!(tokio::time::timeout(A_WHILE, &mut self.0).await.is_err(), "it has the lock");
    }

    /// Its turn has come.
    pub(crate) async fn turn(self) -> MutexGuard {
        within("its turn comes", SOON, self.0).await.expect("no panic")
    }
}
