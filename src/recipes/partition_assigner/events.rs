//! The events of an assigner: they report what no call returns.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};

use super::error::Error;
use super::strategy::StrategyError;
use crate::client;
use crate::client::core::Core;
use crate::client::events::Broadcaster;
use crate::client::task::Task;

/// Something that happened in an assigner.
///
/// Only the leader reports what concerns all members. [`Registered`](Event::Registered),
/// [`Unregistered`](Event::Unregistered), [`Undecided`](Event::Undecided), [`WorkEnded`](Event::WorkEnded),
/// [`Failed`](Event::Failed) and [`Missed`](Event::Missed) concern the member itself.
///
/// ```no_run
/// # async fn example(
/// #     member: zookeeper_recipes::partition_assigner::PartitionAssigner,
/// # ) {
/// use futures::StreamExt;
/// use zookeeper_recipes::partition_assigner::Event;
///
/// let mut events = member.events();
/// while let Some(event) = events.next().await {
///     if let Event::Unreleased { member, partitions } = &event {
///         eprintln!("{member} has not handed over {partitions} partitions");
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "event", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Event {
    /// This member took over as the leader, with this epoch.
    TookOver {
        /// The transaction that took over.
        epoch: i64,
    },
    /// The [node](super::Partitions::node) of the partitions is missing or not valid: the set stays as it is.
    PartitionsInvalid {
        /// The node, the bytes seen, and what is allowed.
        why: String,
    },
    /// What operators have set is not valid: what they had set before stays.
    ConfigInvalid {
        /// The node, the bytes seen, and what is allowed.
        why: String,
    },
    /// The strategy failed: nothing is moved until members or settings change.
    NotAssigned {
        /// Why.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: StrategyError,
    },
    /// Some partitions have no member: the capacities are too small, or no member is eligible. Reported when their
    /// number changes.
    Unassigned {
        /// How many.
        partitions: usize,
    },
    /// Every partition that has a member is held by it.
    Settled {
        /// How many members are present.
        members: usize,
        /// How many partitions they hold.
        partitions: usize,
    },
    /// A member is absent: its session is over, or it has left for a restart. What it had stays reserved for it for the
    /// [delay](super::PartitionAssignerBuilder::rebalance_delay).
    Absent {
        /// The id of the member.
        member: String,
        /// How many partitions it had.
        partitions: usize,
    },
    /// A member has not handed over for ten seconds. This delays these partitions and no others.
    ///
    /// Its work takes longer to end, or its process is stopped or gone.
    Unreleased {
        /// The id of the member.
        member: String,
        /// How many partitions it should hand over.
        partitions: usize,
    },
    /// For five seconds, nodes have shown that sessions hold partitions that no record lists. The partitions wait until
    /// these nodes are gone.
    ///
    /// Nodes were deleted by hand.
    HeldElsewhere {
        /// How many partitions.
        partitions: usize,
    },
    /// The node of a member was ignored.
    MemberIgnored {
        /// The id of the member.
        member: String,
        /// What is wrong with it.
        why: String,
    },
    /// This member is registered.
    Registered {
        /// The id of the member.
        member: String,
    },
    /// This member has been registered for five seconds, and no leader has assigned anything to it, not even nothing.
    ///
    /// There is no [candidate](super::PartitionAssignerBuilder::candidate), the set of partitions is not valid, an
    /// earlier process with the same id is still present, or the leader has a problem that its own events report.
    Undecided {
        /// The id of the member.
        member: String,
    },
    /// This member's registration is gone: its session is over, or its node was deleted by hand. It registers again.
    Unregistered {
        /// The id of the member.
        member: String,
    },
    /// The work of [`run`](super::PartitionAssigner::run) on a partition did not end within the
    /// [grace period](super::PartitionAssignerBuilder::grace_period) after a revocation, and was dropped.
    WorkDropped {
        /// The partition.
        partition: String,
    },
    /// The work of [`run`](super::PartitionAssigner::run) on a partition ended by itself. It is started again after a
    /// pause.
    WorkEnded {
        /// The partition.
        partition: String,
        /// The error or the panic, if there was one.
        why: Option<String>,
    },
    /// Something failed, and is retried with growing delays. [`Client::last_error`](crate::Client::last_error) keeps
    /// the error as well.
    Failed {
        /// The error.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: Error,
    },
    /// The reader was too slow, and this many events are lost.
    Missed {
        /// How many.
        events: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::TookOver { epoch } => write!(f, "this member leads, with epoch {epoch}"),
            Event::PartitionsInvalid { why } => write!(f, "the set of partitions is not valid: {why}"),
            Event::ConfigInvalid { why } => write!(f, "what operators have set is not valid: {why}"),
            Event::NotAssigned { error } => write!(f, "nothing was assigned: {error}"),
            Event::Unassigned { partitions } => write!(f, "partitions without a member: {partitions}"),
            Event::Settled { members, partitions } => {
                write!(f, "settled: {partitions} partitions are held, members: {members}")
            }
            Event::Absent { member, partitions } => {
                write!(f, "{member} is absent, and had {partitions} partitions")
            }
            Event::Unreleased { member, partitions } => {
                write!(f, "{member} has to hand over {partitions} partitions, and has not done so")
            }
            Event::HeldElsewhere { partitions } => {
                write!(f, "partitions held by sessions without a record: {partitions}")
            }
            Event::MemberIgnored { member, why } => write!(f, "{member} is ignored: {why}"),
            Event::Registered { member } => write!(f, "this member is registered as {member}"),
            Event::Undecided { member } => write!(f, "no leader has assigned anything to this member, {member}"),
            Event::Unregistered { member } => write!(f, "the registration of this member, {member}, is gone"),
            Event::WorkDropped { partition } => {
                write!(f, "the work on partition {partition} did not end within the grace period, and was dropped")
            }
            Event::WorkEnded { partition, why: None } => write!(f, "the work on partition {partition} has ended"),
            Event::WorkEnded { partition, why: Some(why) } => {
                write!(f, "the work on partition {partition} has failed: {why}")
            }
            Event::Failed { error } => write!(f, "failed and will be retried: {error}"),
            Event::Missed { events } => write!(f, "{events} events were not read in time and are lost"),
        }
    }
}

/// Publishes the events of one member.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    core: Arc<Core>,
    path: Arc<str>,
    events: Broadcaster<Event>,
}

impl Publisher {
    pub(super) fn new(core: &Arc<Core>, path: &str) -> Self {
        Publisher { core: Arc::clone(core), path: path.into(), events: Broadcaster::new() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn failed(&self, error: client::Error) {
        self.report(Event::Failed { error: Error::client(&self.path, error) });
    }

    pub(super) fn report(&self, event: Event) {
        match &event {
            // The client keeps it, as there may be no listener.
            Event::Failed { error } => self.core.report(client::Error::new(error.kind(), error.to_string())),
            event => log(&self.path, event),
        }
        self.events.send(event);
    }

    /// Returns all events from now on, until the task of the member has ended.
    pub(super) fn subscribe(&self, task: Task<()>) -> Events {
        let finished = async move {
            let _ = task.outcome().await;
        };
        Events { events: self.events.subscribe(finished, |events| Event::Missed { events }) }
    }
}

/// Logs an event under its own name and with its own fields. Its text is the message.
fn log(path: &str, happened: &Event) {
    match happened {
        Event::TookOver { epoch } => tracing::info!(event = "took_over", path, epoch, "{happened}"),
        Event::PartitionsInvalid { why } => {
            tracing::warn!(event = "partitions_invalid", path, reason = why, "{happened}");
        }
        Event::ConfigInvalid { why } => tracing::warn!(event = "config_invalid", path, reason = why, "{happened}"),
        Event::NotAssigned { error } => tracing::warn!(event = "not_assigned", path, %error, "{happened}"),
        Event::Unassigned { partitions } => tracing::warn!(event = "unassigned", path, partitions, "{happened}"),
        Event::Settled { members, partitions } => {
            tracing::debug!(event = "settled", path, members, partitions, "{happened}");
        }
        Event::Absent { member, partitions } => {
            tracing::info!(event = "member_absent", path, member, partitions, "{happened}");
        }
        Event::Unreleased { member, partitions } => {
            tracing::warn!(event = "unreleased", path, member, partitions, "{happened}");
        }
        Event::HeldElsewhere { partitions } => {
            tracing::warn!(event = "held_elsewhere", path, partitions, "{happened}");
        }
        Event::MemberIgnored { member, why } => {
            tracing::warn!(event = "member_ignored", path, member, reason = why, "{happened}");
        }
        Event::Registered { member } => tracing::info!(event = "registered", path, member, "{happened}"),
        Event::Undecided { member } => tracing::warn!(event = "undecided", path, member, "{happened}"),
        Event::Unregistered { member } => tracing::warn!(event = "unregistered", path, member, "{happened}"),
        Event::WorkDropped { partition } => tracing::warn!(event = "work_dropped", path, partition, "{happened}"),
        Event::WorkEnded { partition, why } => {
            tracing::warn!(event = "work_ended", path, partition, reason = why, "{happened}");
        }
        // The client logs a failure, and each stream of events counts what its reader missed.
        Event::Failed { .. } | Event::Missed { .. } => {}
    }
}

/// The events of an assigner from now on, as this member sees them.
///
/// A reader that falls 1 024 events behind gets [`Event::Missed`]. The stream ends when the member has left or its
/// client is closed.
pub struct Events {
    events: BoxStream<'static, Event>,
}

impl futures::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
