//! What the task of a cache and its handles share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, watch};

use super::change::{Change, Changes};
use super::error::Error;
use super::snapshot::Snapshot;
use super::subscribers::Subscribers;
use crate::util::mutex::Mutex;

/// What a cache has published.
pub(super) struct Shared<T> {
    /// Read without a lock.
    latest: ArcSwap<Snapshot<T>>,
    /// The subscribers; `None` once the cache has ended. Under the lock, a snapshot and its changes are published as
    /// one step.
    batches: Mutex<Option<Subscribers<T>>>,
    progress: watch::Sender<Progress>,
    last_error: Mutex<Option<Error>>,
}

/// How far a cache has got.
#[derive(Debug, Clone)]
pub(super) enum Progress {
    /// There is no snapshot yet.
    Reading,
    /// There is no snapshot yet, and the last attempt failed.
    Failed(Error),
    /// There is a snapshot. Sent again with each new one.
    Published,
    /// There will be no more snapshots.
    Ended(Error),
}

impl<T> Shared<T> {
    /// Ends all streams. The first error counts.
    pub(super) fn end(&self, error: Error) {
        if !matches!(*self.progress.borrow(), Progress::Ended(_)) {
            *self.batches.lock() = None;
            self.progress.send_replace(Progress::Ended(error));
        }
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Begins with an empty snapshot, which is not published.
    pub(super) fn new(capacity: usize, empty: Snapshot<T>) -> Arc<Self> {
        Arc::new(Shared {
            latest: ArcSwap::from_pointee(empty),
            batches: Mutex::new(Some(Subscribers::new(capacity))),
            progress: watch::Sender::new(Progress::Reading),
            last_error: Mutex::new(None),
        })
    }

    pub(super) fn latest(&self) -> Snapshot<T> {
        Snapshot::clone(&self.latest.load())
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn last_error(&self) -> Option<Error> {
        self.last_error.lock().clone()
    }

    /// Publishes a snapshot, and how it differs from the one before.
    pub(super) fn publish(&self, snapshot: Snapshot<T>, changes: Vec<Change<T>>) {
        let mut batches = self.batches.lock();
        let before = self.latest.swap(Arc::new(snapshot.clone()));
        let taken = batches.as_mut().map(|subscribers| subscribers.send(changes, snapshot));
        drop(batches);
        self.recovered();
        self.progress.send_replace(Progress::Published);
        // This may take long, and run code of the user: not under the lock.
        drop((before, taken));
    }

    /// Reports an error that no caller waits for.
    pub(super) fn failed(&self, error: Error) {
        *self.last_error.lock() = Some(error.clone());
        if matches!(*self.progress.borrow(), Progress::Published) {
            let send = |subscribers: &mut Subscribers<T>| subscribers.send(vec![Change::Failed(error)], self.latest());
            let taken = self.batches.lock().as_mut().map(send);
            drop(taken);
        } else {
            self.progress.send_replace(Progress::Failed(error));
        }
    }

    /// Clears the last error.
    pub(super) fn recovered(&self) {
        *self.last_error.lock() = None;
    }

    /// Returns the changes from now on.
    pub(super) fn changes(&self) -> Changes<T> {
        let batches = self.batches.lock();
        let receiver = batches.as_ref().map_or_else(|| broadcast::channel(1).1, Subscribers::subscribe);
        Changes::new(self.latest(), receiver)
    }
}
