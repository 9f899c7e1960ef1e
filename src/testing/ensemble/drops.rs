//! What holders have dropped, on its way to the ensemble.

use tokio::sync::Notify;

use super::ClientId;
use crate::util::mutex::Mutex;

/// What was dropped and has to be told to the ensemble. Its own lock, as a drop can happen anywhere.
#[derive(Debug)]
pub(crate) enum Dropped {
    Watch(ClientId, u64),
    Session(ClientId),
}

#[derive(Debug, Default)]
pub(crate) struct Drops {
    queue: Mutex<Vec<Dropped>>,
    pub(crate) wake: Notify,
}

impl Drops {
    pub(crate) fn add(&self, dropped: Dropped) {
        self.queue.lock().push(dropped);
        self.wake.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Dropped> {
        std::mem::take(&mut *self.queue.lock())
    }
}
