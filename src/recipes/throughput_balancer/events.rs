//! The events of a balancer: they report what no call returns.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};

use super::allocation::{AllocationError, Shortfall};
use super::error::Error;
use crate::client;
use crate::client::core::Core;
use crate::client::events::Broadcaster;
use crate::client::task::Task;
use crate::util::mutex::{Mutex, MutexGuard};

/// Something that happened in a balancer.
///
/// Only the leader reports what concerns the whole cluster. [`Registered`](Event::Registered),
/// [`Undecided`](Event::Undecided), [`Unregistered`](Event::Unregistered), [`Failed`](Event::Failed) and
/// [`Missed`](Event::Missed) concern the member itself. Events from before
/// [`join`](super::ThroughputBalancerBuilder::join) returned are only in the log, except
/// [`MaximumInvalid`](Event::MaximumInvalid).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "event", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Event {
    /// This member took over, with this epoch.
    ///
    /// Reported again while it leads: when the maximum was created, when the epoch or a directory was changed by hand,
    /// and after one of its requests failed.
    TookOver {
        /// The transaction that took over.
        epoch: i64,
    },
    /// The maximum is missing or invalid: shares stay as they are until it is valid. [`Settled`](Event::Settled)
    /// reports when it is.
    MaximumInvalid {
        /// The bytes seen, and what is allowed.
        why: String,
    },
    /// The maximum was lowered, and the members may apply more than it allows until they have acknowledged.
    Exceeded {
        /// The maximum in force.
        maximum: u64,
        /// By how much the members together may exceed it.
        by: u64,
    },
    /// Every member has the share that was decided, and every lowered share is acknowledged.
    ///
    /// Also reported after a [`Shortfall`](Event::Shortfall), but never while the maximum is invalid or the allocation
    /// fails.
    Settled {
        /// The maximum in force.
        maximum: u64,
        /// How many members there are.
        members: usize,
        /// The sum of their shares.
        shared: u64,
    },
    /// The allocation failed: shares stay as they are.
    NotDivided {
        /// Why.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: AllocationError,
    },
    /// Members have less than their minimum.
    ///
    /// Reported with each decision that gives members too little. The shortfall is over when the members or the maximum
    /// have changed and [`Settled`](Event::Settled) comes without this event. [`MemberInfo`](super::MemberInfo) shows
    /// the same later.
    Shortfall {
        /// The members that have too little, and how much they lack.
        shortfall: Shortfall,
    },
    /// The decided share of some members is 0 although the maximum is not 0.
    ///
    /// There are too many members, or other members hold what these should have. Reported when their number changes.
    WithoutShare {
        /// The maximum in force.
        maximum: u64,
        /// How many members have no share.
        members: usize,
    },
    /// A member's record, or its acknowledgement, was ignored for five seconds.
    ///
    /// It does not belong to a pair with a readable record, or the record cannot be written. Each leader reports it
    /// once. If it belongs to a member, no other member gets what that member may be applying until its session is
    /// over. The balancer does not repair nodes that were changed by hand. The safe way is to restart the member. If
    /// you delete the rest of the pair, a live member registers again, but the others get its old share while it may
    /// still be applying it.
    MemberIgnored {
        /// The name of the node.
        member: String,
        /// What the member may be applying; [`u64::MAX`] if that is unknown: then no share is raised.
        held: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A member has not acknowledged its lowered share for five seconds. This blocks what it holds and nothing else.
    ///
    /// Look at its process: a [listener](super::ThroughputBalancer::on_share) hangs, or the process is gone.
    Unacked {
        /// The name of its node.
        member: String,
        /// What it may be applying.
        held: u64,
    },
    /// This member is registered under this name.
    Registered {
        /// The name of its node.
        member: String,
    },
    /// This member has been registered for five seconds, and no leader has given it a share.
    ///
    /// There is no [maximum](super::set_max_throughput), or no
    /// [candidate](super::ThroughputBalancerBuilder::candidate), or the
    /// [debounce](super::ThroughputBalancerBuilder::debounce) is longer than that, or the leader has a problem that its
    /// own events report.
    Undecided {
        /// The name of its node.
        member: String,
    },
    /// This member's registration is gone: its session is over, or its node was deleted or overwritten by hand. It
    /// registers again.
    Unregistered {
        /// The name that its node had.
        member: String,
    },
    /// Something failed, and is retried with growing delays. [`Client::last_error`](crate::Client::last_error) keeps
    /// the error as well.
    Failed {
        /// The error.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: Error,
    },
    /// This many events were not read in time and are lost.
    Missed {
        /// How many.
        events: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::TookOver { epoch } => write!(f, "this member took over with epoch {epoch}"),
            Event::MaximumInvalid { why } => write!(f, "the maximum is missing or invalid: {why}"),
            Event::Exceeded { maximum, by } => write!(f, "the maximum of {maximum} may be exceeded by {by}"),
            Event::Settled { maximum, members, shared } => {
                write!(f, "settled: {shared} of {maximum} are shared, members: {members}")
            }
            Event::NotDivided { error } => write!(f, "the maximum was not divided: {error}"),
            Event::Shortfall { shortfall } => write!(f, "shortfall: {shortfall}"),
            Event::WithoutShare { maximum, members } => write!(f, "members without a share of {maximum}: {members}"),
            Event::MemberIgnored { member, held, why } => match held {
                &u64::MAX => write!(f, "{member} is ignored, and may be applying any throughput: {why}"),
                held => write!(f, "{member} is ignored, and may be applying {held}: {why}"),
            },
            Event::Unacked { member, held } => {
                write!(f, "{member} has not acknowledged its lowered share, and may be applying {held}")
            }
            Event::Registered { member } => write!(f, "this member is registered as {member}"),
            Event::Undecided { member } => write!(f, "no leader has given this member, {member}, a share"),
            Event::Unregistered { member } => write!(f, "the registration {member} of this member is gone"),
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
    /// For later subscribers: the event that reports the invalid maximum, while it is invalid.
    invalid: Arc<Mutex<Option<Event>>>,
}

impl Publisher {
    pub(super) fn new(core: &Arc<Core>, path: &str) -> Self {
        Publisher { core: Arc::clone(core), path: path.into(), events: Broadcaster::new(), invalid: Arc::default() }
    }

    fn invalid(&self) -> MutexGuard<'_, Option<Event>> {
        self.invalid.lock()
    }

    pub(super) fn report_invalid_maximum(&self, why: &str) {
        let event = Event::MaximumInvalid { why: why.to_owned() };
        let mut invalid = self.invalid();
        *invalid = Some(event.clone());
        self.report(event);
    }

    /// Records that the maximum is valid, or that another member leads.
    pub(super) fn clear_invalid_maximum(&self) {
        *self.invalid() = None;
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
        let invalid = self.invalid();
        let finished = async move {
            let _ = task.outcome().await;
        };
        let events = self.events.subscribe(finished, |events| Event::Missed { events });
        Events { events: futures::stream::iter(invalid.clone()).chain(events).boxed() }
    }
}

/// Logs an event under its own name and with its own fields. Its text is the message.
fn log(path: &str, happened: &Event) {
    match happened {
        Event::TookOver { epoch } => tracing::info!(event = "took_over", path, epoch, "{happened}"),
        Event::MaximumInvalid { why } => {
            tracing::warn!(event = "maximum_invalid", path, reason = why, "{happened}");
        }
        Event::Exceeded { maximum, by } => {
            tracing::info!(event = "maximum_exceeded", path, maximum, by, "{happened}");
        }
        Event::Settled { maximum, members, shared } => {
            tracing::debug!(event = "settled", path, maximum, members, shared, "{happened}");
        }
        Event::NotDivided { error } => tracing::warn!(event = "not_divided", path, %error, "{happened}"),
        Event::Shortfall { shortfall } => tracing::warn!(event = "shortfall", path, %shortfall, "{happened}"),
        Event::WithoutShare { maximum, members } => {
            tracing::warn!(event = "without_share", path, maximum, members, "{happened}");
        }
        Event::MemberIgnored { member, held, why } => {
            tracing::warn!(event = "member_ignored", path, member, held, reason = why, "{happened}");
        }
        Event::Unacked { member, held } => tracing::warn!(event = "unacked", path, member, held, "{happened}"),
        Event::Registered { member } => tracing::info!(event = "registered", path, member, "{happened}"),
        Event::Undecided { member } => tracing::warn!(event = "undecided", path, member, "{happened}"),
        Event::Unregistered { member } => tracing::warn!(event = "unregistered", path, member, "{happened}"),
        // The client logs a failure, and each stream of events counts what its reader missed.
        Event::Failed { .. } | Event::Missed { .. } => {}
    }
}

/// The events of a balancer from now on, as this member sees them.
///
/// If this member leads and the maximum is missing or invalid, [`Event::MaximumInvalid`] comes first. A reader that
/// falls 1 024 events behind gets [`Event::Missed`]. The stream ends when the member has left or its client is closed.
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
