//! How many more items may be put: back-pressure by the number of items on the servers, and by the bytes in flight.

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

/// How many bytes of one producer may be in flight: a put beyond that waits. Each node counts for slightly more than
/// its bytes.
const WINDOW_BYTES: u32 = 4 << 20;
const NODE_BYTES: usize = 256;
/// Replaces a time that does not come.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// Without a maximum the items are counted once in this many puts, only for the warning.
const UNBOUNDED: usize = 1_024;

/// The room in a queue, as far as one producer knows.
///
/// A count is taken while nothing of this producer is in flight, and is valid for one batch at most. So one producer
/// never exceeds the maximum, and several together exceed it by no more than one batch each.
#[derive(Debug)]
pub(super) struct Capacity {
    max_items: Option<usize>,
    /// Until when the queue is known to have been full; a time to come while a put waits for room.
    full_until: watch::Sender<Option<Instant>>,
    /// All permits are available when nothing is in flight.
    window: Arc<Semaphore>,
    turn: Mutex<Turn>,
}

/// The result of the last count. The put that holds it is the next to be enqueued.
#[derive(Debug, Default)]
pub(super) struct Turn {
    items: usize,
    /// How many items fit without another count.
    left: usize,
    /// Whether servers report no items, so that they have to be counted regularly while the queue is full.
    polls: bool,
}

/// Ends the time in which the queue is known to be full.
struct Full<'a>(&'a watch::Sender<Option<Instant>>);

impl Drop for Full<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Some(Instant::now()));
    }
}

impl Capacity {
    pub(super) fn new(max_items: Option<usize>) -> Self {
        let window = Arc::new(Semaphore::new(WINDOW_BYTES as usize));
        Capacity { max_items, full_until: watch::Sender::default(), window, turn: Mutex::default() }
    }

    /// Returns the maximum, if the queue was known to be full after `since`.
    pub(super) fn limit_reached(&self, since: Instant) -> Option<usize> {
        self.max_items.filter(|_| *self.full_until.borrow() >= Some(since))
    }

    /// Waits until one item of this many bytes may be put. The caller keeps the turn until the item is sent to the
    /// task, and the permit while the item is in flight.
    pub(super) async fn take(
        &self,
        core: &Core,
        paths: &Paths,
        bytes: usize,
    ) -> Result<(MutexGuard<'_, Turn>, OwnedSemaphorePermit), Error> {
        // The first put polled is the first in order, even if its task has used up its budget and must yield.
        let mut turn = tokio::task::unconstrained(self.turn.lock()).await;
        // A caller that loops over puts that never wait must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        let mut room = Room::default();
        while turn.left == 0 {
            if self.max_items.is_some() {
                // The servers may or may not count the items in flight yet, so none may be in flight.
                drop(self.window.acquire_many(WINDOW_BYTES).await);
            }
            turn.counted(count(core, paths).await?, listable(core.config.max_request_bytes), paths);
            turn.left = self.max_items.map_or(UNBOUNDED, |most| most.saturating_sub(turn.items).min(MOST_ITEMS));
            if turn.left == 0 {
                let _full = Full(&self.full_until);
                self.full_until.send_replace(Some(Instant::now() + FOREVER));
                let surplus = turn.items.saturating_sub(self.max_items.unwrap_or(0));
                room.wait(core, paths, surplus, &mut turn.polls).await?;
            }
        }
        turn.polls |= room.was_unreported();
        let bytes = u32::try_from(bytes + NODE_BYTES).map_or(WINDOW_BYTES, |bytes| bytes.min(WINDOW_BYTES));
        let window = Arc::clone(&self.window).acquire_many_owned(bytes).await;
        let window = window.map_err(|_| Error::closed(&paths.path))?;
        turn.left -= 1;
        Ok((turn, window))
    }
}

impl Turn {
    /// Takes over a count, and warns each time the queue becomes longer than Java clients can list.
    fn counted(&mut self, items: usize, limit: usize, paths: &Paths) {
        if items > limit && self.items <= limit {
            let path = &*paths.path;
            tracing::warn!(event = "too_long_for_java", path, items, limit, "Java consumers cannot list the queue");
        }
        self.items = items;
    }
}

/// Counts the items. Waits for a connection.
async fn count(core: &Core, paths: &Paths) -> Result<usize, Error> {
    loop {
        let session = core.connected_session().await.map_err(|error| Error::client(&paths.path, error))?;
        match session.retry_while_passing(|| session.exists(&paths.items)).await {
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
