//! What the task of a cache and its handles share.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{broadcast, watch};

use super::change::{Batch, Change, Changes};
use super::error::Error;
use super::snapshot::Snapshot;
use crate::util::mutex::Mutex;

/// What a cache has published.
pub(super) struct Shared<T> {
    /// Read without a lock.
    latest: ArcSwapOption<Snapshot<T>>,
    /// The subscribers; `None` once the cache has ended. The lock makes one step of a snapshot and its changes.
    batches: Mutex<Option<broadcast::Sender<Arc<Batch<T>>>>>,
    progress: watch::Sender<Progress>,
    last_error: Mutex<Option<Error>>,
}

/// How far a cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is no snapshot yet.
    Reading,
    /// There is no snapshot yet, and the last attempt failed.
    Failed(Error),
    /// So many snapshots were published.
    Published(u64),
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
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Shared {
            latest: ArcSwapOption::empty(),
            batches: Mutex::new(Some(broadcast::Sender::new(capacity))),
            progress: watch::Sender::new(Progress::Reading),
            last_error: Mutex::new(None),
        })
    }

    pub(super) fn latest(&self) -> Option<Snapshot<T>> {
        self.latest.load().as_ref().map(|snapshot| Snapshot::clone(snapshot))
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn last_error(&self) -> Option<Error> {
        self.last_error.lock().clone()
    }

    /// Publishes a snapshot, and how it differs from the one before.
    pub(super) fn publish(&self, snapshot: Snapshot<T>, changes: Vec<Change<T>>) {
        let batches = self.batches.lock();
        self.latest.store(Some(Arc::new(snapshot.clone())));
        send(&batches, changes, snapshot);
        drop(batches);
        self.recovered();
        self.progress.send_modify(|progress| {
            *progress = match progress {
                Progress::Published(before) => Progress::Published(*before + 1),
                _ => Progress::Published(1),
            }
        });
    }

    /// Tells of an error that no caller awaits.
    pub(super) fn failed(&self, error: Error) {
        *self.last_error.lock() = Some(error.clone());
        let batches = self.batches.lock();
        match self.latest() {
            Some(snapshot) => send(&batches, vec![Change::Failed(error)], snapshot),
            None => drop(self.progress.send_replace(Progress::Failed(error))),
        }
    }

    /// Takes the error back.
    pub(super) fn recovered(&self) {
        *self.last_error.lock() = None;
    }

    /// Returns the changes from now on; `None` before the first snapshot.
    pub(super) fn changes(&self) -> Option<Changes<T>> {
        let batches = self.batches.lock();
        let snapshot = self.latest()?;
        let receiver = batches.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe);
        Some(Changes::new(snapshot, receiver))
    }
}

fn send<T>(batches: &Option<broadcast::Sender<Arc<Batch<T>>>>, changes: Vec<Change<T>>, snapshot: Snapshot<T>) {
    if let Some(batches) = batches
        && !changes.is_empty()
    {
        // Fails if there is no subscriber.
        let _ = batches.send(Arc::new(Batch { changes, snapshot }));
    }
}
