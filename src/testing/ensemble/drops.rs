//! Reports to the world which connections were dropped at the client's end.

use tokio::sync::Notify;

use super::ConnId;
use crate::util::mutex::Mutex;

/// The dropped connections. They have a separate lock because a drop can happen anywhere.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    queue: Mutex<Vec<ConnId>>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
}

impl Drops {
    pub(crate) fn add(&self, conn: ConnId) {
        self.queue.lock().push(conn);
        self.wake.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<ConnId> {
        std::mem::take(&mut *self.queue.lock())
    }
}
