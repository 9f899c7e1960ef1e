//! The builder of a selector.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::listener::LeaderSelectorListener;
use super::requeue::RequeuePolicy;
use super::shared::Shared;
use super::{LeaderSelector, RunningTerm, task};
use crate::client::Client;
use crate::contender::participants::check_id;

/// Configures a [`LeaderSelector`]; see [`LeaderSelector::builder`].
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_selector::{
///     Error, LeaderSelector, Leadership, RequeuePolicy, RunningTerm,
/// };
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let selector = LeaderSelector::builder(client, "/my-service/leader")
///     .id("worker-7")
///     .auto_requeue(RequeuePolicy::default())
///     .grace_period(Duration::from_secs(1))
///     .on_close(RunningTerm::Interrupt)
///     .start(|leadership: Leadership| async move {
///         leadership.lost().await;
///         // Up to a second to clean up.
///     })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before start()"]
pub struct LeaderSelectorBuilder {
    client: Client,
    path: String,
    id: String,
    pub(super) requeue: Option<RequeuePolicy>,
    pub(super) grace_period: Duration,
    on_close: RunningTerm,
}

impl LeaderSelectorBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        LeaderSelectorBuilder {
            client: client.clone(),
            path,
            id: String::new(),
            requeue: None,
            grace_period: Duration::ZERO,
            on_close: RunningTerm::default(),
        }
    }

    /// Sets the id that other clients read of this participant, at most 65 536 bytes. Default: empty.
    #[doc(alias = "setId")]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Joins the election again after each term, until the selector is closed. Default: off. Then a selector leads
    /// once, and once more for each [`requeue`](LeaderSelector::requeue).
    #[doc(alias = "autoRequeue")]
    pub fn auto_requeue(mut self, policy: RequeuePolicy) -> Self {
        self.requeue = Some(policy);
        self
    }

    /// Sets how long a listener may continue after its leadership ended, to finish its work, before its future is
    /// dropped. Default: zero, so the future is not polled again.
    ///
    /// After a loss, another participant may lead during the grace period. After an interruption, no other leads while
    /// the session lives.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace_period = grace;
        self
    }

    /// Sets what [`LeaderSelector::close`] does to a running term. Default: [`RunningTerm::Finish`].
    pub fn on_close(mut self, running: RunningTerm) -> Self {
        self.on_close = running;
        self
    }

    /// Enters the election in the background and returns at once, even while there is no connection. The selector calls
    /// `listener` each time it leads.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed.
    /// [`Error::InvalidOption`] if the id is too long. [`Error::Closed`] if the client has been closed.
    pub fn start(self, listener: impl LeaderSelectorListener) -> Result<LeaderSelector, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        if let Err(why) = check_id(&self.id) {
            return Err(Error::InvalidOption { path, why });
        }
        let shared = Arc::new(Shared::new(path, self.id, self.requeue, self.grace_period));
        let task = task::spawn(&self.client, &shared, listener);
        Ok(LeaderSelector { client: self.client, shared, on_close: self.on_close, task })
    }
}
