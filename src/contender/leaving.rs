//! How a caller ends a hold that a task keeps. The caller ends the hold and hands the delete over, and the task does
//! the rest.

use super::Hold;
use crate::client::owned_node::HandedOver;
use crate::util::mutex::{Mutex, MutexGuard};

/// The state that the caller and the task share. Both take the lock, so that the task neither leaves nor publishes a
/// hold while a caller is between the request to leave and the delete.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    delete: Mutex<Option<HandedOver>>,
}

impl Leaving {
    /// Asks the task to leave, ends the hold that `hold` returns, and hands over the delete of its node. The caller
    /// uses it. The order matters: otherwise the task would take the event of that delete for a deletion by another
    /// client.
    pub(crate) fn release(&self, ask: impl FnOnce(), hold: impl FnOnce() -> Option<Hold>) {
        let mut delete = self.lock();
        ask();
        if let Some(handed) = hold().and_then(|hold| hold.release()) {
            *delete = Some(handed);
        }
    }

    /// Returns the delete, if a caller has handed it over. The task uses it before it ends the hold by itself.
    pub(crate) fn handed_over(&self) -> Option<HandedOver> {
        self.lock().take()
    }

    /// Runs `publish` while no caller is releasing. The task uses it.
    pub(crate) fn in_order<T>(&self, publish: impl FnOnce() -> T) -> T {
        let _no_release = self.lock();
        publish()
    }

    fn lock(&self) -> MutexGuard<'_, Option<HandedOver>> {
        self.delete.lock()
    }
}
