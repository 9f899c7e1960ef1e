//! How many more items may be put: back-pressure by the number of items in the queue, and by the bytes in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::room::Room;
use super::task::MOST_ITEMS;
use crate::client;
use crate::client::core::Core;
use crate::engine;
use crate::layout::queue::{Paths, listable};
use crate::queue::error::Error;

/// How many bytes of one producer may be in flight. Puts beyond that wait. Each node counts for slightly more than its
/// bytes.
const WINDOW_BYTES: u32 = 4 << 20;
const NODE_BYTES: usize = 256;
/// Replaces a time that never comes.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// Without a maximum, the items are counted once in this many puts, only for the warning.
const UNBOUNDED: usize = 1_024;

/// The room in a queue, as known to one producer.
///
/// A count is taken while nothing of this producer is in flight, and is valid for one batch at most. So one producer
/// never exceeds the maximum, and several together exceed it by no more than one batch each.
#[derive(Debug)]
pub(super) struct Capacity {
    max_items: Option<usize>,
    /// Until when the queue is known to have been full. In the future while a put waits for room.
    full_until: watch::Sender<Option<Instant>>,
    /// All permits are available when nothing is in flight.
    window: Arc<Semaphore>,
    count: Mutex<LastCount>,
}

/// The result of the last count. The put that has locked it is the next to be enqueued.
#[derive(Debug, Default)]
pub(super) struct LastCount {
    items: usize,
    /// How many items fit without another count.
    left: usize,
    /// Whether the servers do not report items, so that they have to be counted regularly while the queue is full.
    polls: bool,
}

/// Records when it is dropped that the queue is no longer known to be full.
struct FullUntilDropped<'a>(&'a watch::Sender<Option<Instant>>);

impl Drop for FullUntilDropped<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Some(Instant::now()));
    }
}

impl Capacity {
    pub(super) fn new(max_items: Option<usize>) -> Self {
        let window = Arc::new(Semaphore::new(WINDOW_BYTES as usize));
        Capacity { max_items, full_until: watch::Sender::default(), window, count: Mutex::default() }
    }

    /// Returns the maximum, if the queue was known to be full after `since`.
    pub(super) fn limit_reached(&self, since: Instant) -> Option<usize> {
        self.max_items.filter(|_| *self.full_until.borrow() >= Some(since))
    }

    /// Waits until one item of this many bytes may be put. The caller keeps the lock until the item is sent to the
    /// task, and the permit while the item is in flight.
    pub(super) async fn take(
        &self,
        core: &Core,
        paths: &Paths,
        bytes: usize,
    ) -> Result<(MutexGuard<'_, LastCount>, OwnedSemaphorePermit), Error> {
        // The first put polled is the first in order, even if its task has used up its budget and must yield.
        let mut count = tokio::task::unconstrained(self.count.lock()).await;
        // A caller that loops over puts that never wait must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        let mut room = Room::default();
        while count.left == 0 {
            if self.max_items.is_some() {
                // The servers may or may not count items in flight yet, so there must be none.
                drop(self.window.acquire_many(WINDOW_BYTES).await);
            }
            count.update(count_items(core, paths).await?, listable(core.config.max_request_bytes), paths);
            count.left = self.max_items.map_or(UNBOUNDED, |most| most.saturating_sub(count.items).min(MOST_ITEMS));
            if count.left == 0 {
                let _full = FullUntilDropped(&self.full_until);
                self.full_until.send_replace(Some(Instant::now() + FOREVER));
                let surplus = count.items.saturating_sub(self.max_items.unwrap_or(0));
                room.wait(core, paths, surplus, &mut count.polls).await?;
            }
        }
        count.polls |= room.was_unreported();
        let bytes = u32::try_from(bytes + NODE_BYTES).map_or(WINDOW_BYTES, |bytes| bytes.min(WINDOW_BYTES));
        let window = Arc::clone(&self.window).acquire_many_owned(bytes).await;
        let window = window.map_err(|_| Error::closed(&paths.path))?;
        count.left -= 1;
        Ok((count, window))
    }
}

impl LastCount {
    /// Records a count, and logs a warning each time the queue becomes longer than Java clients can list.
    fn update(&mut self, items: usize, limit: usize, paths: &Paths) {
        if items > limit && self.items <= limit {
            let path = &*paths.path;
            tracing::warn!(event = "too_long_for_java", path, items, limit, "Java consumers cannot list the queue");
        }
        self.items = items;
    }
}

/// Counts the items. Waits for a connection.
async fn count_items(core: &Core, paths: &Paths) -> Result<usize, Error> {
    loop {
        let session = core.connected_session().await.map_err(|error| Error::client(&paths.path, error))?;
        match session.retry_while_transient(|| session.exists(&paths.items)).await {
            Ok(stat) => return Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0))),
            // The next session can count them.
            Err(engine::Error::SessionEnded) => {}
            Err(error) => {
                let error = client::Error::from_engine("count the items of", &paths.path, error);
                return Err(Error::client(&paths.path, error));
            }
        }
    }
}
