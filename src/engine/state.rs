//! The state of a session that only its task uses. It outlives connections.

use std::sync::Arc;
use std::time::Duration;

use super::environment::Environment;
use super::handshake::Identity;
use super::observer::Observer;
use super::shared::Shared;
use crate::util::clock::Instant;

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    Expired,
    AuthFailed,
    /// The servers opened another session instead of resuming it.
    Replaced,
    Closed,
}

/// A session, as its task sees it.
pub(crate) struct SessionState {
    pub(crate) environment: Environment,
    pub(crate) shared: Arc<Shared>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) identity: Identity,
    /// The shortest timeout granted so far: a new leader applies to each session the one that was granted first.
    pub(crate) shortest: Duration,
    /// When a server was last heard from.
    pub(crate) last_contact: Instant,
    /// When the last connection on which the session was open was lost. `None` if it was not lost: there was none, or
    /// this client ended it.
    pub(crate) lost_at: Option<Instant>,
}

impl SessionState {
    /// Returns a session that is not open yet.
    pub(crate) fn new(environment: Environment, observer: Arc<dyn Observer>) -> Self {
        SessionState {
            shared: Arc::new(Shared::new(
                environment.options.clock,
                Arc::clone(&environment.request_limit),
                Arc::clone(&environment.lacking),
            )),
            observer,
            identity: Identity::default(),
            shortest: Duration::MAX,
            last_contact: environment.now(),
            lost_at: None,
            environment,
        }
    }
}
