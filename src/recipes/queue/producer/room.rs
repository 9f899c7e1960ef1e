//! Waiting for room in a full queue.
//!
//! A recursive watch reports each item that is created or deleted, so a producer sends nothing while nothing changes.
//! The deletion of an item is reported to all producers that wait. So each of them waits for a random time before it
//! counts the items: the more producers the queue has, the longer. If it learns meanwhile that another producer has
//! filled the place, it does not count.

use std::time::Duration;

use futures::FutureExt;
use futures::stream::StreamExt;
use tokio::time::Instant;

use crate::client;
use crate::client::core::Core;
use crate::engine::{self, Event, PersistentEvent, PersistentWatch, WatchMode};
use crate::layout::queue::Paths;
use crate::queue::error::Error;
use crate::util::wait::sleep_until_opt;

/// The random time is at most this for each other producer: about as long as one needs to count the items, put one, and
/// have that reported.
const SLOT: Duration = Duration::from_millis(4);
/// The longest random time, however many producers there are.
const LONGEST: Duration = Duration::from_secs(1);
/// Servers report nothing about items that this client may not read. So after this time the items are counted anyway.
/// If that shows room, this producer polls from then on.
const UNREPORTED: Duration = Duration::from_secs(60);
/// The delay between two counts of a producer that polls.
const POLLING: Duration = Duration::from_millis(100);

/// How a put learns that there is room.
#[derive(Default)]
enum Source {
    /// Not at all yet: changes before there is a watch are unknown.
    #[default]
    None,
    /// By events of the servers. So many other producers may use the same room.
    Watched { events: PersistentWatch, others: u32 },
    /// As `Watched`, but no event came for a long time.
    Silent { events: PersistentWatch, others: u32 },
}

/// The wait of one put for room. The watch lasts as long.
#[derive(Default)]
pub(super) struct Room(Source);

impl Room {
    /// Waits until it is worthwhile to count the items. At the last count there were `surplus` more than the maximum.
    /// Sets
    /// `polls` if the servers report nothing because they are older than 3.6.
    pub(super) async fn wait(
        &mut self,
        core: &Core,
        paths: &Paths,
        surplus: usize,
        polls: &mut bool,
    ) -> Result<(), Error> {
        if *polls {
            tokio::time::sleep(POLLING.mul_f64(0.5 + core.random.unit() / 2.0)).await;
            return Ok(());
        }
        self.0 = match std::mem::take(&mut self.0) {
            Source::None => watch(core, paths, polls).await?,
            Source::Silent { events, others } => next_place(events, others, surplus, core, paths).await,
            Source::Watched { events, others } => next_place(events, others, surplus, core, paths).await,
        };
        Ok(())
    }

    /// Returns whether the servers did not report the room that there is now. They send an event before each answer
    /// that contains the change.
    pub(super) fn was_unreported(self) -> bool {
        let Source::Silent { mut events, .. } = self.0 else { return false };
        events.next().now_or_never().is_none()
    }
}

/// Waits until a place may be free, and then for a random time.
async fn next_place(mut events: PersistentWatch, others: u32, surplus: usize, core: &Core, paths: &Paths) -> Source {
    // How many places may be free; negative if there are more items than the maximum.
    let full = -i64::try_from(surplus).unwrap_or(i64::MAX);
    let (mut free, mut count_at) = (full, None);
    let silent_at = Instant::now() + UNREPORTED;
    // The last count may include the events that have already arrived. They must not hide a free place.
    let mut contained = true;
    loop {
        let change = if let Some(change) = events.next().now_or_never() {
            change
        } else {
            contained = false;
            tokio::select! {
                biased;
                change = events.next() => change,
                () = sleep_until_opt(count_at) => return Source::Watched { events, others },
                () = tokio::time::sleep_until(silent_at) => return Source::Silent { events, others },
            }
        };
        match change {
            Some(PersistentEvent::Node { path, event }) if path != paths.items => match event {
                Event::NodeDeleted => free += 1,
                Event::NodeCreated => free = if contained { full.max(free - 1) } else { free - 1 },
                _ => {}
            },
            Some(PersistentEvent::Node { .. }) => {}
            // Events may have been missed.
            Some(PersistentEvent::Resync) => return Source::Watched { events, others },
            // The session has ended.
            None => return Source::None,
        }
        let drawn = || Instant::now() + (SLOT * others).min(LONGEST).mul_f64(core.random.unit());
        count_at = (free > 0).then(|| count_at.unwrap_or_else(drawn));
    }
}

/// Sets the watch, and counts the other producers, each of which has a node.
async fn watch(core: &Core, paths: &Paths, polls: &mut bool) -> Result<Source, Error> {
    let failed = |error| Error::client(&paths.path, error);
    let session = core.connected_session().await.map_err(failed)?;
    let look = || {
        let (events, producers) = session.together(|| {
            let events = session.watch_persistent(&paths.items, WatchMode::PersistentRecursive);
            (events, session.exists(&paths.producers))
        });
        async { futures::try_join!(events, producers) }
    };
    match session.retry_while_transient(look).await {
        Ok((events, producers)) => {
            let producers = producers.and_then(|stat| u32::try_from(stat.num_children).ok());
            Ok(Source::Watched { events, others: producers.unwrap_or(0).saturating_sub(1) })
        }
        Err(engine::Error::SessionEnded) => Ok(Source::None),
        Err(engine::Error::Unimplemented(_)) => {
            *polls = true;
            Ok(Source::None)
        }
        Err(error) => Err(failed(client::Error::from_engine("watch", &paths.path, error))),
    }
}
