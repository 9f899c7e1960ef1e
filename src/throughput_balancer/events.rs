//! What happens in a balancer without a call that returns it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::watch;

use super::allocation::{AllocationError, Shortfall};
use super::error::Error;
use crate::client;
use crate::client::core::Core;
use crate::client::events::Broadcaster;

/// Something that happened in a balancer. What concerns the whole cluster is told by the member that leads, and by no other;
/// [`Registered`](Event::Registered), [`Undecided`](Event::Undecided), [`Unregistered`](Event::Unregistered),
/// [`Failed`](Event::Failed) and [`Missed`](Event::Missed) concern the member itself. What happened before
/// [`join`](super::ThroughputBalancerBuilder::join) returned is in the log only, but for
/// [`MaximumInvalid`](Event::MaximumInvalid).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// This member took over, with this epoch. Also once more while it leads: when the maximum was created, when the epoch
    /// or a directory was changed by hand, and after a request of its own failed.
    TookOver {
        /// The transaction by which it did.
        epoch: i64,
    },
    /// The maximum is missing or makes no sense: shares are kept as they are until it does. [`Settled`](Event::Settled) tells
    /// that it does.
    MaximumInvalid {
        /// The bytes seen, and what is allowed.
        why: String,
    },
    /// More is being applied than the maximum allows, as it was lowered: until the members have acknowledged.
    Exceeded {
        /// The maximum in force.
        maximum: u64,
        /// By how much the members together may exceed it.
        by: u64,
    },
    /// Every member has the share that was decided, and what was lowered is acknowledged. Also after a
    /// [`Shortfall`](Event::Shortfall); never while the maximum makes no sense or the rule of allocation fails.
    Settled {
        /// The maximum in force.
        maximum: u64,
        /// How many members there are.
        members: usize,
        /// What they have together.
        shared: u64,
    },
    /// The rule of allocation failed: shares are kept as they are.
    NotDivided {
        /// Why.
        error: AllocationError,
    },
    /// Members have less than they should have at least. Told with each decision for which it is so: it is over when the
    /// members or the maximum have changed and [`Settled`](Event::Settled) comes without it.
    /// [`MemberInfo`](super::MemberInfo) shows the same later.
    Shortfall {
        /// Who lacks how much.
        shortfall: Shortfall,
    },
    /// The decided share of some members is 0 although the maximum is not 0: there are too many of them, or what they
    /// should have is held by others. Told when their number changes.
    WithoutShare {
        /// The maximum in force.
        maximum: u64,
        /// How many members have no share.
        members: usize,
    },
    /// A member's record, or its acknowledgement, was ignored for five seconds: it is not one of a pair with a readable
    /// record, or the record cannot be written. Told once by each leader. If it belongs to a member, no other member gets
    /// what that may be applying until its session is over. Nodes that were changed by hand are not repaired. The sure way
    /// is to restart the member. To delete what is left of the pair makes a member that lives register again, but the
    /// others get what it held before it has let that go.
    MemberIgnored {
        /// The name of the node.
        member: String,
        /// What the member may be applying; [`u64::MAX`] if that is not known: then no member is given more.
        held: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A member has not acknowledged for five seconds that it has less. Only what it holds is blocked. Look in its process: a
    /// [listener](super::ThroughputBalancer::on_share) that hangs, or no process any more.
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
    /// This member has been registered for five seconds, and no leader has given it a share: there is no
    /// [maximum](super::set_max_throughput), or no [candidate](super::ThroughputBalancerBuilder::candidate), or the
    /// [debounce](super::ThroughputBalancerBuilder::debounce) is longer than that, or the leader has trouble that its own
    /// events tell.
    Undecided {
        /// The name of its node.
        member: String,
    },
    /// This member's registration is gone (its session is over, or its node was deleted or spoiled by hand); it registers
    /// again.
    Unregistered {
        /// The name that its node had.
        member: String,
    },
    /// Something failed; it is tried again, ever more slowly. [`Client::last_error`](crate::Client::last_error) keeps it as
    /// well.
    Failed {
        /// What and why.
        error: Error,
    },
    /// So many events were not read in time and are lost.
    Missed {
        /// How many.
        events: u64,
    },
}

/// Publishes the events of one member.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    core: Arc<Core>,
    path: Arc<str>,
    events: Broadcaster<Event>,
    /// That the maximum makes no sense, for as long as it does not: for those who begin to listen later.
    invalid: Arc<Mutex<Option<Event>>>,
}

impl Publisher {
    pub(super) fn new(core: &Arc<Core>, path: &str) -> Self {
        Publisher { core: Arc::clone(core), path: path.into(), events: Broadcaster::new(), invalid: Arc::default() }
    }

    fn invalid(&self) -> MutexGuard<'_, Option<Event>> {
        self.invalid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn maximum_is_invalid(&self, why: &str) {
        let event = Event::MaximumInvalid { why: why.to_owned() };
        let mut invalid = self.invalid();
        *invalid = Some(event.clone());
        self.tell(event);
    }

    /// It is good, or another member leads.
    pub(super) fn maximum_is_not_invalid(&self) {
        *self.invalid() = None;
    }

    pub(super) fn tell(&self, event: Event) {
        let path = &*self.path;
        match &event {
            // There may be no listener.
            Event::Failed { error } => self.core.report(client::Error::new(error.kind(), error.to_string())),
            Event::TookOver { .. } | Event::Registered { .. } => tracing::info!(path, ?event, "throughput balancer"),
            Event::Settled { .. } => tracing::debug!(path, ?event, "throughput balancer"),
            event => tracing::warn!(path, ?event, "throughput balancer"),
        }
        self.events.tell(event);
    }

    /// The events from now on, until the member has `finished`, also when its task is gone without a word.
    pub(super) fn subscribe(&self, finished: watch::Receiver<bool>) -> Events {
        let invalid = self.invalid();
        let events = self.events.subscribe(finished, |events| Event::Missed { events });
        Events { events: futures::stream::iter(invalid.clone()).chain(events).boxed() }
    }
}

/// What happens in a balancer from now on, as far as this member sees it; before that, if this member leads and the maximum
/// makes no sense, [`Event::MaximumInvalid`]. A reader that falls 1 024 events behind gets
/// [`Event::Missed`]. Ends when the member has left, or its client is closed.
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
