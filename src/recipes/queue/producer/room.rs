//! Waiting for room in a full queue.
//!
//! A recursive watch reports each item that comes or goes, so a producer sends nothing while nothing changes. When an
//! item goes, all producers that wait are told. So each of them waits for a random time before it counts the items: the
//! more producers the queue has, the longer. One that is told meanwhile that another has filled the place does not
//! count.

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

/// The random time is at most this for each other producer: about the time in which one counts, puts, and is seen to.
const SLOT: Duration = Duration::from_millis(4);
/// The longest random time, however many producers there are.
const LONGEST: Duration = Duration::from_secs(1);
/// Servers report nothing about items that this client may not read. After this time they are counted all the same. If
/// that shows room, this producer polls from then on.
const UNREPORTED: Duration = Duration::from_secs(60);
/// The delay between two counts of a producer that polls.
const POLLING: Duration = Duration::from_millis(100);

/// How a put learns of room.
#[derive(Default)]
enum News {
    /// Not yet: what happens before there is a watch is unknown.
    #[default]
    None,
    /// The servers report items. The other producers could use the same room.
    Watched { events: PersistentWatch, others: u32 },
    /// As `Watched`, but no event came for a long time.
    Silent { events: PersistentWatch, others: u32 },
}

/// The wait of one put for room; the watch lasts as long.
#[derive(Default)]
pub(super) struct Room(News);

impl Room {
    /// Waits until it is worthwhile to count the items, of which there are `surplus` more than fill the queue. `polls`
    /// is set if the servers report nothing: they are older than 3.6.
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
            News::None => watch(core, paths, polls).await?,
            News::Silent { events, others } => next_place(events, others, surplus, core, paths).await,
            News::Watched { events, others } => next_place(events, others, surplus, core, paths).await,
        };
        Ok(())
    }

    /// Returns whether there is room now that the servers did not report. They send an event before an answer that
    /// contains its change.
    pub(super) fn was_unreported(self) -> bool {
        let News::Silent { mut events, .. } = self.0 else { return false };
        events.next().now_or_never().is_none()
    }
}

/// Waits until a place may be free, for a random time after it became so.
async fn next_place(mut events: PersistentWatch, others: u32, surplus: usize, core: &Core, paths: &Paths) -> News {
    // How many places may be free; less than none if the queue is too full.
    let full = -i64::try_from(surplus).unwrap_or(i64::MAX);
    let (mut free, mut count_at) = (full, None);
    let silent_at = Instant::now() + UNREPORTED;
    // The last count may contain the events that are here already. They must not hide a place that is free.
    let mut contained = true;
    loop {
        let told = if let Some(told) = events.next().now_or_never() {
            told
        } else {
            contained = false;
            tokio::select! {
                biased;
                told = events.next() => told,
                () = sleep_until_opt(count_at) => return News::Watched { events, others },
                () = tokio::time::sleep_until(silent_at) => return News::Silent { events, others },
            }
        };
        match told {
            Some(PersistentEvent::Node { path, event }) if path != paths.items => match event {
                Event::NodeDeleted => free += 1,
                Event::NodeCreated => free = if contained { full.max(free - 1) } else { free - 1 },
                _ => {}
            },
            Some(PersistentEvent::Node { .. }) => {}
            // Events may have been missed.
            Some(PersistentEvent::Resync) => return News::Watched { events, others },
            // The session has ended.
            None => return News::None,
        }
        let drawn = || Instant::now() + (SLOT * others).min(LONGEST).mul_f64(core.random.unit());
        count_at = (free > 0).then(|| count_at.unwrap_or_else(drawn));
    }
}

/// Sets the watch, and counts the other producers, which have a node each.
async fn watch(core: &Core, paths: &Paths, polls: &mut bool) -> Result<News, Error> {
    let failed = |error| Error::client(&paths.path, error);
    let session = core.connected_session().await.map_err(failed)?;
    let look = || {
        let (events, producers) = session.together(|| {
            let events = session.watch_persistent(&paths.items, WatchMode::PersistentRecursive);
            (events, session.exists(&paths.producers))
        });
        async { futures::try_join!(events, producers) }
    };
    match session.retry_while_passing(look).await {
        Ok((events, producers)) => {
            let producers = producers.and_then(|stat| u32::try_from(stat.num_children).ok());
            Ok(News::Watched { events, others: producers.unwrap_or(0).saturating_sub(1) })
        }
        Err(engine::Error::SessionEnded) => Ok(News::None),
        Err(engine::Error::Unimplemented(_)) => {
            *polls = true;
            Ok(News::None)
        }
        Err(error) => Err(failed(client::Error::from_engine("watch", &paths.path, error))),
    }
}
