//! What the task of a session knows of it, from one connection to the next.

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
    /// The servers opened another one in its place.
    Replaced,
    Closed,
}

/// A session, as its task sees it.
pub(crate) struct SessionState {
    pub(crate) environment: Environment,
    pub(crate) shared: Arc<Shared>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) identity: Identity,
    /// The shortest timeout that was granted: a new leader takes the first one for every session.
    pub(crate) shortest: Duration,
    /// The time of the last contact with a server.
    pub(crate) last_contact: Instant,
    /// When the last connection ended that was welcomed.
    pub(crate) lost_at: Instant,
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
            lost_at: environment.now(),
            environment,
        }
    }
}
