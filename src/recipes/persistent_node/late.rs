//! Requests that may be carried out after their session was given up: until when, and a create of that kind. Writes
//! have a module of their own, `late_writes`.
//!
//! Such a request was sent and not answered, and the servers have not reported that its session is over. It may still
//! be on its way. A server that it reaches in time carries it out, although this client is in another session by then.
//! After a create, the client has found no node there.
//!
//! The servers refuse it once they have expired the session: a session timeout and a tick after they last heard from
//! it. This assumes that no other request of an earlier connection reaches them after the session was given up.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::core::Core;
use crate::client::owned_node::{DeletionTarget, SharedPath};
use crate::client::session::{Condition, EndReason, Session};

/// Returns how long the servers may still carry out requests of a former session; `None` if they have ended it.
pub(super) fn expiry(session: &Session, core: &Core) -> Option<Duration> {
    if session.condition() == Condition::Ended(EndReason::Expired) {
        return None;
    }
    // An unanswered reconnect request may have been granted the timeout that it asked for.
    Some(session.timeout().max(core.config.session_timeout) + core.config.tick)
}

/// A create that may be carried out late.
#[derive(Debug)]
pub(super) struct LateCreate {
    /// The node that it makes.
    target: DeletionTarget,
    /// When the session was given up.
    given_up: Instant,
    /// How long the servers keep a session without hearing from it.
    expiry: Duration,
}

impl LateCreate {
    pub(super) fn new(target: DeletionTarget, given_up: Instant, expiry: Duration) -> Self {
        LateCreate { target, given_up, expiry }
    }

    /// Returns when the create has been carried out or refused.
    pub(super) fn decided_at(&self) -> Instant {
        self.given_up + self.expiry
    }

    /// Returns whether its node ends with the session and cannot exist any more. The create itself prolongs the
    /// session.
    pub(super) fn is_past(&self, now: Instant) -> bool {
        let lasts = matches!(self.target, DeletionTarget::Shared(SharedPath { owner: None, .. }));
        !lasts && now >= self.decided_at() + self.expiry
    }

    pub(super) fn into_target(self) -> DeletionTarget {
        self.target
    }
}
