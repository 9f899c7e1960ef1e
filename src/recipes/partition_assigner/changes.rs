//! What a member holds, as its handle shows it: a snapshot, and its changes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::owned::{Owned, Phase};
use crate::metrics::Level;

/// A change of what a member holds.
///
/// ```no_run
/// # async fn example(
/// #     member: zookeeper_recipes::partition_assigner::PartitionAssigner,
/// # ) {
/// use futures::StreamExt;
/// use zookeeper_recipes::partition_assigner::Change;
///
/// let mut changes = member.changes();
/// while let Some(change) = changes.next().await {
///     match change {
///         Change::Granted { partition } => println!("start work on {}", partition.id()),
///         Change::Revoking { partition, .. } => {
///             println!("finish the work on {}", partition.id());
///             partition.release();
///         }
///         Change::Lost { partition } => println!("drop the work on {}", partition.id()),
///         _ => {}
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// The member holds this partition now.
    Granted {
        /// The partition.
        partition: Owned,
    },
    /// Another member is to get this partition. Finish what is under way and [release](Owned::release) it.
    Revoking {
        /// The partition, which is still held.
        partition: Owned,
        /// When it has to be released at the latest. From then on it counts as released.
        by: Instant,
    },
    /// The member no longer holds this partition.
    Lost {
        /// The partition.
        partition: Owned,
    },
}

/// What a member holds, by the names of the partitions.
pub(super) type Holds = BTreeMap<Arc<str>, Owned>;

/// What is known of a member's partitions at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) holds: Arc<Holds>,
    /// A leader has told the member what it should hold, and the member holds exactly that.
    pub(super) is_settled: bool,
    /// The member has left. Nothing changes any more.
    pub(super) is_last: bool,
}

/// Publishes what a member holds.
#[derive(Debug)]
pub(super) struct Channel {
    snapshots: watch::Sender<Snapshot>,
    /// How many partitions the member holds.
    held: Level,
}

impl Channel {
    pub(super) fn new(held: Level) -> Self {
        Channel { snapshots: watch::Sender::default(), held }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.snapshots.subscribe()
    }

    pub(super) fn holds(&self) -> Arc<Holds> {
        Arc::clone(&self.snapshots.borrow().holds)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.snapshots.borrow().is_settled
    }

    /// Publishes what the member holds. Readers compare it with what they have seen.
    pub(super) fn publish(&self, holds: Holds, is_settled: bool) {
        let count = holds.len();
        self.snapshots.send_modify(|snapshot| {
            if !snapshot.is_last {
                (snapshot.holds, snapshot.is_settled) = (Arc::new(holds), is_settled);
            }
        });
        // Outside the lock: the recorder is user code, which may ask what is held.
        self.held.set(count as f64);
    }

    /// Ends all holds, permanently.
    pub(super) fn leave(&self) {
        self.snapshots.send_if_modified(|snapshot| {
            snapshot.holds.values().for_each(Owned::end);
            snapshot.holds = Arc::default();
            !std::mem::replace(&mut snapshot.is_last, true)
        });
        self.held.set(0.0);
    }

    /// See [`Changes`].
    pub(super) fn stream(&self) -> Changes {
        let reading = Reading { snapshots: self.subscribe(), seen: BTreeMap::new(), due: VecDeque::new(), first: true };
        Changes { changes: futures::stream::unfold(reading, Reading::next).boxed() }
    }
}

/// Belongs to the handle of a member, or to the call that joins. Dropping it ends all holds at once.
#[derive(Debug)]
pub(super) struct Interest(pub(super) Arc<Channel>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The changes of what a member holds: first what it holds now, then every change. A reader that is slow gets what has
/// changed since it read last; a partition that came and went meanwhile is left out. It ends after the member has left.
pub struct Changes {
    changes: BoxStream<'static, Change>,
}

impl futures::Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        self.changes.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

/// The reader of a stream.
struct Reading {
    snapshots: watch::Receiver<Snapshot>,
    /// The holds that were reported, and whether their revocation was.
    seen: BTreeMap<Arc<str>, (Owned, bool)>,
    due: VecDeque<Change>,
    first: bool,
}

impl Reading {
    async fn next(mut self) -> Option<(Change, Self)> {
        loop {
            if let Some(change) = self.due.pop_front() {
                return Some((change, self));
            }
            if !std::mem::take(&mut self.first) {
                let is_last = self.snapshots.borrow().is_last;
                if (is_last && !self.snapshots.has_changed().unwrap_or(false))
                    || self.snapshots.changed().await.is_err()
                {
                    return None;
                }
            }
            let holds = Arc::clone(&self.snapshots.borrow_and_update().holds);
            self.compare(&holds);
        }
    }

    /// Notes what differs from what was seen: what was lost first, what was granted last.
    fn compare(&mut self, holds: &Holds) {
        let due = &mut self.due;
        self.seen.retain(|name, (partition, is_revoked)| {
            let is_held = holds.get(name).is_some_and(|now| now.is(partition)) && partition.phase() != Phase::Ended;
            if !is_held {
                due.push_back(Change::Lost { partition: partition.clone() });
            } else if let (Phase::Revoking(by), false) = (partition.phase(), *is_revoked) {
                due.push_back(Change::Revoking { partition: partition.clone(), by });
                *is_revoked = true;
            }
            is_held
        });
        for (name, partition) in holds {
            if partition.phase() == Phase::Held && !self.seen.contains_key(name) {
                due.push_back(Change::Granted { partition: partition.clone() });
                self.seen.insert(Arc::clone(name), (partition.clone(), false));
            }
        }
    }
}
