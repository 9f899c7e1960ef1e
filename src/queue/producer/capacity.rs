//! How many more items may be put: back-pressure by the number of items that the servers count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::in_flight::InFlight;
use super::task::MOST_ITEMS;
use crate::backend;
use crate::client;
use crate::client::core::Core;
use crate::client::delays::Delays;
use crate::client::session::Session;
use crate::queue::error::Error;
use crate::queue::znodes::{Paths, listable};

/// Between two counts of a queue that is full: the first delay, and the longest.
const DELAYS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// Without a maximum the number is asked once in so many puts, for the warning alone.
const UNBOUNDED: usize = 1_024;

/// What is known of the room in a queue, to one producer.
///
/// A count is taken while nothing of this producer is in flight, and is good for one batch at most: so one producer never goes
/// over the maximum, and several together by no more than one batch each.
#[derive(Debug)]
pub(super) struct Capacity {
    max_items: Option<usize>,
    /// So many items fit without another count.
    left: usize,
    /// Whether there was no room at the last count.
    full: Arc<AtomicBool>,
    /// Whether the last count was more than Java clients can list.
    unlistable: bool,
}

impl Capacity {
    pub(super) fn new(max_items: Option<usize>, full: &Arc<AtomicBool>) -> Self {
        Capacity { max_items, left: 0, full: Arc::clone(full), unlistable: false }
    }

    /// Takes the place of one item; waits for it if there is a maximum.
    pub(super) async fn take(&mut self, core: &Core, paths: &Paths, in_flight: &InFlight) -> Result<(), Error> {
        let mut delays = Delays::new(DELAYS);
        while self.left == 0 {
            if self.max_items.is_some() {
                // What is in flight may be counted by the servers already, or not yet.
                in_flight.none().await;
            }
            let items = count(core, paths).await?;
            self.warn_of_listings(items, listable(core.config.max_request_bytes), paths);
            self.left = self.max_items.map_or(UNBOUNDED, |most| most.saturating_sub(items).min(MOST_ITEMS));
            self.full.store(self.left == 0, Ordering::Release);
            if self.left == 0 {
                tokio::time::sleep(delays.next(core, core.clock.now())).await;
            }
        }
        self.left -= 1;
        Ok(())
    }

    /// Once each time when the queue becomes longer than that.
    fn warn_of_listings(&mut self, items: usize, limit: usize, paths: &Paths) {
        let unlistable = items > limit;
        if unlistable && !self.unlistable {
            let queue = &*paths.path;
            tracing::warn!(event = "too_long_for_java", queue, items, limit, "Java consumers cannot list the queue");
        }
        self.unlistable = unlistable;
    }
}

/// How many items there are. Waits for a connection.
async fn count(core: &Core, paths: &Paths) -> Result<usize, Error> {
    loop {
        let session = core.connected_session().await.map_err(|error| Error::client(&paths.path, error))?;
        match count_in(&session, paths).await {
            Ok(Some(items)) => return Ok(items),
            Ok(None) => {}
            Err(error) => {
                let error = client::Error::from_backend("count the items of", &paths.path, error);
                return Err(Error::client(&paths.path, error));
            }
        }
    }
}

/// As `count`; `None` if the connection was lost, when there is another one or the session is over.
async fn count_in(session: &Arc<Session>, paths: &Paths) -> Result<Option<usize>, backend::Error> {
    let Ok(connection) = session.connected().await else { return Ok(None) };
    match session.exists(&paths.items).await {
        Ok(stat) => Ok(Some(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))),
        Err(error) if error.is_passing() => {
            let _ = session.connected_after_loss(connection).await;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
