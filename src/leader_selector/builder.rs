//! The options of a selector.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::listener::LeaderSelectorListener;
use super::shared::Shared;
use super::{CloseMode, LeaderSelector, task};
use crate::client::Client;
use crate::contender::participants::MAX_ID_BYTES;
use crate::path;

/// When a selector stands in line again after a term. The default: at once, behind those who are in the line by then.
///
/// After a term that failed (the listener returned an error or panicked) it waits in addition, at first up to 0.1 s, then
/// twice as long each time, up to 10 s, until a term lasts or ends well.
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::leader_selector::RequeuePolicy;
///
/// let policy = RequeuePolicy { delay: Duration::from_secs(1), jitter: Duration::from_secs(1), ..RequeuePolicy::default() };
/// assert_eq!(policy.yield_to_others, Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequeuePolicy {
    /// How long to stay out of the line in any case.
    pub delay: Duration,
    /// Up to so much longer, at random, so that the leaderships of many paths spread over those who take part.
    pub jitter: Duration,
    /// How long, after that, to stay out of a line that nobody stands in, for others to come first: those who are being
    /// started, or stay out themselves. As soon as somebody stands in it, or after this time, the line is entered.
    pub yield_to_others: Duration,
}

/// The options of a [`LeaderSelector`]; see [`LeaderSelector::builder`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before start()"]
pub struct LeaderSelectorBuilder {
    client: Client,
    path: String,
    id: String,
    pub(super) requeue: Option<RequeuePolicy>,
    pub(super) grace_period: Duration,
    close_mode: CloseMode,
}

impl LeaderSelectorBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        LeaderSelectorBuilder {
            client: client.clone(),
            path,
            id: String::new(),
            requeue: None,
            grace_period: Duration::ZERO,
            close_mode: CloseMode::default(),
        }
    }

    /// What others see of this participant, at most 65 536 bytes. Empty by default.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Stands in line again after each term, for ever. Without it a selector leads once, and once more for each
    /// [`requeue`](LeaderSelector::requeue).
    pub fn auto_requeue(mut self, policy: RequeuePolicy) -> Self {
        self.requeue = Some(policy);
        self
    }

    /// For how long a listener whose leadership is over may go on before its future is dropped, to finish what it does. Zero
    /// by default: it is not polled again. After a loss another may lead meanwhile; after an interruption nobody does
    /// while the session lives.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace_period = grace;
        self
    }

    /// What [`LeaderSelector::close`] does to a running term.
    pub fn close_mode(mut self, mode: CloseMode) -> Self {
        self.close_mode = mode;
        self
    }

    /// Enters the election in the background and returns at once, also while there is no connection. `listener` is called
    /// when it leads.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidId`]; [`Error::Closed`] if the client has been closed.
    pub fn start(self, listener: impl LeaderSelectorListener) -> Result<LeaderSelector, Error> {
        path::validate(&self.path).map_err(|error| Error::client(&self.path, error.into()))?;
        let path: Arc<str> = self.path.into();
        if self.id.len() > MAX_ID_BYTES {
            return Err(Error::InvalidId { path, bytes: self.id.len(), max: MAX_ID_BYTES });
        }
        if *self.client.core().closing.borrow() {
            return Err(Error::Closed { path });
        }
        let shared = Arc::new(Shared::new(path, self.id, self.requeue, self.grace_period));
        let finished = task::spawn(&self.client, &shared, listener);
        Ok(LeaderSelector { client: self.client, shared, close_mode: self.close_mode, finished })
    }
}
