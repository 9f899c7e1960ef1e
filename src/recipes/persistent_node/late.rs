//! A create that may be carried out after its session was given up.
//!
//! The create was sent and not answered, and the servers have not said that its session is over. It may still be on its
//! way. A server that it reaches in time carries it out, although this client is in another session by then, and has
//! found no node.
//!
//! The servers refuse it once they have expired the session: a session timeout and a tick after they heard of it last.
//! It is assumed that no request of an earlier connection reaches them after the session was given up, except for the
//! create itself.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::owned_node::{DeletionTarget, SharedPath};

/// Such a create.
#[derive(Debug)]
pub(super) struct LateCreate {
    /// The node that it makes.
    target: DeletionTarget,
    /// When the session had been given up.
    given_up: Instant,
    /// How long the servers keep a session of which they do not hear.
    expiry: Duration,
}

impl LateCreate {
    pub(super) fn new(target: DeletionTarget, given_up: Instant, expiry: Duration) -> Self {
        LateCreate { target, given_up, expiry }
    }

    /// Returns when the create is carried out or refused.
    pub(super) fn decided_at(&self) -> Instant {
        self.given_up + self.expiry
    }

    /// Returns whether its node cannot be there any more, if it ends with the session. The create prolongs the session.
    pub(super) fn is_past(&self, now: Instant) -> bool {
        let lasts = matches!(self.target, DeletionTarget::Shared(SharedPath { owner: None, .. }));
        !lasts && now >= self.decided_at() + self.expiry
    }

    pub(super) fn into_target(self) -> DeletionTarget {
        self.target
    }
}
