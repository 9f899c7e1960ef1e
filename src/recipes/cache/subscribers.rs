//! The batches of changes that subscribers have not taken yet: bounded in number by the channel, and in bytes here.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::sync::broadcast;

use super::change::{Batch, Change, Changed};
use super::snapshot::Snapshot;
use crate::util::mutex::Mutex;

/// Subscribers with more untaken bytes than this lag. The latest batch is kept whatever its size.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// See the module.
pub(super) struct Subscribers<T> {
    channel: broadcast::Sender<Arc<Batch<T>>>,
    /// The batches that some subscriber has not taken, with their bytes; the oldest first.
    waiting: VecDeque<(Weak<Batch<T>>, usize)>,
    bytes: usize,
}

impl<T> Subscribers<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Subscribers { channel: broadcast::Sender::new(capacity), waiting: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Batch<T>>> {
        self.channel.subscribe()
    }

    /// Returns what the caller has to drop without holding a lock, as that may run user code.
    pub(super) fn send(&mut self, changes: Vec<Change<T>>, snapshot: Snapshot<T>) -> Vec<Arc<Changed<T>>> {
        if changes.is_empty() || self.channel.receiver_count() == 0 {
            return Vec::new();
        }
        let bytes = changes.iter().map(Change::bytes).sum();
        let batch = Arc::new(Mutex::new(Some(Arc::new((changes, snapshot)))));
        self.waiting.push_back((Arc::downgrade(&batch), bytes));
        self.bytes += bytes;
        // Fails if the last subscriber has just gone.
        let _ = self.channel.send(batch);
        self.take_oldest()
    }

    /// Forgets the batches that all subscribers have taken, and removes the oldest of the others while they are too
    /// large together.
    fn take_oldest(&mut self) -> Vec<Arc<Changed<T>>> {
        let mut taken = Vec::new();
        while let Some((batch, bytes)) = self.waiting.front() {
            match batch.upgrade() {
                Some(batch) if self.bytes > MOST_BYTES && self.waiting.len() > 1 => taken.extend(batch.lock().take()),
                Some(_) => break,
                None => {}
            }
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
        taken
    }
}
