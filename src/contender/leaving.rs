//! How a caller ends what the task of a place keeps: the caller ends the hold and hands the delete over, the task does the rest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Hold;
use crate::client::owned_node::HandedOver;

/// What the caller and the task share. Both take the lock, so that the task neither leaves nor publishes a hold while a caller
/// is between the word to leave and the delete.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    delete: Mutex<Option<HandedOver>>,
}

impl Leaving {
    /// For the caller: tells the task to leave, then ends the hold that `hold` returns, and hands over the delete of its node.
    /// In this order, as the task would take the event of that delete for a deletion by another client.
    pub(crate) fn release(&self, tell: impl FnOnce(), hold: impl FnOnce() -> Option<Hold>) {
        let mut delete = self.lock();
        tell();
        if let Some(handed) = hold().and_then(|hold| hold.release()) {
            *delete = Some(handed);
        }
    }

    /// For the task, before it ends the hold by itself. Returns the delete, if a caller has handed it over.
    pub(crate) fn handed_over(&self) -> Option<HandedOver> {
        self.lock().take()
    }

    /// For the task: runs `publish` at a moment at which no caller is releasing.
    #[cfg(feature = "leader-latch")]
    pub(crate) fn in_order<T>(&self, publish: impl FnOnce() -> T) -> T {
        let _no_release = self.lock();
        publish()
    }

    fn lock(&self) -> MutexGuard<'_, Option<HandedOver>> {
        self.delete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
