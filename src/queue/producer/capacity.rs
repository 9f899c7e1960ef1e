//! How many more items may be put: back-pressure by the number of items that the servers count, and by the bytes in
//! flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::task::MOST_ITEMS;
use crate::backend;
use crate::client;
use crate::client::core::Core;
use crate::client::delays::Delays;
use crate::queue::error::Error;
use crate::queue::znodes::{Paths, listable};

/// So much may be in flight, for one producer: a put beyond it waits. Each node counts for a little more than its
/// bytes.
const WINDOW_BYTES: u32 = 4 << 20;
const NODE_BYTES: usize = 256;
/// Between two counts of a queue that is full: the first delay, and the longest.
const DELAYS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// Without a maximum the number is asked once in so many puts, for the warning alone.
const UNBOUNDED: usize = 1_024;

/// The room in a queue, as far as one producer knows.
///
/// A count is taken while nothing of this producer is in flight, and is good for one batch at most: so one producer
/// never goes over the maximum, and several together by no more than one batch each.
#[derive(Debug)]
pub(super) struct Capacity {
    max_items: Option<usize>,
    /// When the last count was taken, if it showed no room.
    full_at: watch::Sender<Option<Instant>>,
    /// All of it is there when nothing is in flight.
    window: Arc<Semaphore>,
    turn: Mutex<Turn>,
}

/// The put that has it is the next to be enqueued. What the last count has shown.
#[derive(Debug, Default)]
pub(super) struct Turn {
    items: usize,
    /// So many items fit without another count.
    left: usize,
}

impl Capacity {
    pub(super) fn new(max_items: Option<usize>) -> Self {
        let window = Arc::new(Semaphore::new(WINDOW_BYTES as usize));
        Capacity { max_items, full_at: watch::Sender::default(), window, turn: Mutex::default() }
    }

    /// The maximum, if there was no room at the last count, taken since then.
    pub(super) fn limit_reached(&self, since: Instant) -> Option<usize> {
        self.max_items.filter(|_| *self.full_at.borrow() >= Some(since))
    }

    /// Waits until one item of so many bytes may be put. The caller keeps the turn until the item is handed over, and
    /// the permit for as long as it is in flight.
    pub(super) async fn take(
        &self,
        core: &Core,
        paths: &Paths,
        bytes: usize,
    ) -> Result<(MutexGuard<'_, Turn>, OwnedSemaphorePermit), Error> {
        // The first one polled is first, also if its task has used up its turn and must let others run.
        let mut turn = tokio::task::unconstrained(self.turn.lock()).await;
        // A loop over puts that never wait must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut delays = Delays::new(DELAYS);
        while turn.left == 0 {
            if self.max_items.is_some() {
                // What is in flight may be counted by the servers already, or not yet.
                drop(self.window.acquire_many(WINDOW_BYTES).await);
            }
            turn.counted(count(core, paths).await?, listable(core.config.max_request_bytes), paths);
            turn.left = self.max_items.map_or(UNBOUNDED, |most| most.saturating_sub(turn.items).min(MOST_ITEMS));
            self.full_at.send_replace((turn.left == 0).then(Instant::now));
            if turn.left == 0 {
                tokio::time::sleep(delays.next(core, core.clock.now())).await;
            }
        }
        let bytes = u32::try_from(bytes + NODE_BYTES).map_or(WINDOW_BYTES, |bytes| bytes.min(WINDOW_BYTES));
        let window = Arc::clone(&self.window).acquire_many_owned(bytes).await;
        let window = window.map_err(|_| Error::closed(&paths.path))?;
        turn.left -= 1;
        Ok((turn, window))
    }
}

impl Turn {
    /// Warns each time when the queue becomes longer than Java clients can list.
    fn counted(&mut self, items: usize, limit: usize, paths: &Paths) {
        if items > limit && self.items <= limit {
            let queue = &*paths.path;
            tracing::warn!(event = "too_long_for_java", queue, items, limit, "Java consumers cannot list the queue");
        }
        self.items = items;
    }
}

/// How many items there are. Waits for a connection.
async fn count(core: &Core, paths: &Paths) -> Result<usize, Error> {
    loop {
        let session = core.connected_session().await.map_err(|error| Error::client(&paths.path, error))?;
        match session.retry_while_passing(|| session.exists(&paths.items)).await {
            Ok(stat) => return Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0))),
            // The next session can tell.
            Err(backend::Error::SessionEnded) => {}
            Err(error) => {
                let error = client::Error::from_backend("count the items of", &paths.path, error);
                return Err(Error::client(&paths.path, error));
            }
        }
    }
}
