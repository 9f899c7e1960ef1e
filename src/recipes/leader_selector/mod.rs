//! Leader election in terms: each leader leads until its work returns, then the next one leads. Curator's
//! `LeaderSelector`.
//!
//! The election is a mutex at one path, in the order of arrival. Java services that use Curator's selector there take
//! part in the same election. Do not use one path both for a selector and for a mutex.
//!
//! ```no_run
//! use futures::StreamExt;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_selector::{
//!     LeaderSelector, Leadership, RequeuePolicy,
//! };
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let lead = |leadership: Leadership| async move {
//!     println!("fencing token {}", leadership.fencing_token());
//! };
//! let selector = LeaderSelector::builder(&client, "/my-service/leader")
//!     .id("worker-7")
//!     .auto_requeue(RequeuePolicy::default())
//!     .start(lead)?;
//! let mut outcomes = selector.outcomes();
//! while let Some(outcome) = outcomes.next().await {
//!     let token = outcome.fencing_token;
//!     println!("term {token} is over: {}", outcome.end);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a leader can rely on
//!
//! The listener gets a [`Leadership`], which compares the clock at each call. The client's [error
//! policy](crate::ErrorPolicy) decides which connection states end it. When it ends, the selector drops the listener's
//! future at the await it is in, after the [grace period](LeaderSelectorBuilder::grace_period). The selector cannot
//! stop the listener between two awaits, so writes that matter must carry the [`fence`](Leadership::fence) or the
//! [token](Leadership::fencing_token).
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the
//! default policy of a client. Wherever the selector drops the listener, it first waits for the grace period, which is
//! zero by default.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, policy [`Standard`] | The term ends and the listener is dropped. |
//! | connection suspended, policy [`Session`] | The term lasts until the lease expires, never longer than T. |
//! | connection suspended while waiting | The waiter keeps its node and its place, with either policy. |
//! | reconnected in the same session, while waiting | The waiter verifies its node and keeps its place. |
//! | reconnected, after the term ended | The term does not resume. With auto-requeue the selector rejoins. |
//! | session lost during a term | The term ends and the listener is dropped. With auto-requeue the selector rejoins. |
//! | session lost while waiting | The waiter creates a new node in the next session. |
//! | leader's node deleted by another client | The leader is notified and its term ends. |
//! | waiter's node deleted by another client | The waiter rejoins. |
//! | reply to a create lost | The selector finds its node by name, or creates it again. It never has two nodes. |
//! | reply to a delete lost | The delete is repeated until the node is gone; then the term's outcome is published. |
//! | process stopped for longer than T | The listener is dropped before its next poll. `is_held()` returns false. |
//! | no permission to create or read | The [state](LeaderSelector::state) is `Failed`. |
//!
//! Until the notification of a deletion arrives, `is_held()` of the old leader may still return true while the new one
//! leads. The ensemble refuses the fence of the old one.
//!
//! A selector that waits survives any number of lost connections and sessions. After a lost term it continues with
//! [auto-requeue](LeaderSelectorBuilder::auto_requeue), or when it is [requeued](LeaderSelector::requeue). After a
//! failure to enter, it retries with growing delays with auto-requeue; otherwise it waits to be requeued.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod builder;
mod error;
mod listener;
mod outcome;
mod requeue;
mod shared;
mod state;
mod task;
mod term;

use std::fmt;
use std::sync::Arc;

pub use self::builder::LeaderSelectorBuilder;
pub use self::error::Error;
pub use self::listener::{BoxError, BoxLeaderSelectorListener, LeaderSelectorListener, WorkResult};
pub use self::outcome::{Outcome, Outcomes, TermEnd};
pub use self::requeue::RequeuePolicy;
use self::shared::Shared;
pub use self::state::{SelectorState, SelectorStatus};
use crate::client::Client;
use crate::client::task::Task;
pub use crate::contender::leadership::{Leadership, LeadershipLost};
use crate::contender::participants;
pub use crate::contender::participants::Participant;
use crate::layout::line;
use crate::util::state_receiver::StateReceiver;

/// Selects what [`LeaderSelector::close`] does to a running term. [`Finish`](Self::Finish) is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum RunningTerm {
    /// Lets the term continue until the listener returns. This is the default. A listener that leads until its
    /// leadership is lost must be [interrupted](LeaderSelector::interrupt_leadership).
    #[default]
    Finish,
    /// Interrupts the term: [`Leadership::lost`] resolves, and the listener's future is dropped after the grace period.
    Interrupt,
}

/// A participant of a leader election in terms.
///
/// Dropping it leaves the election in the background and interrupts a running term. [`close`](Self::close) leaves it
/// and waits until that is done. If the runtime that keeps the session has ended before, the node stays until the
/// session ends.
///
/// ```no_run
/// use futures::StreamExt;
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_selector::{
///     Error, LeaderSelector, Leadership, RunningTerm,
/// };
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// // Leads once. An error of the work ends the term.
/// let lead = |leadership: Leadership| async move {
///     leadership.run(async { /* lead */ }).await
/// };
/// let selector = LeaderSelector::builder(&client, "/my-service/leader")
///     .start(lead)?;
/// let mut outcomes = selector.outcomes();
/// if let Some(outcome) = outcomes.next().await {
///     println!("{outcome}");
/// }
/// // Leads once more.
/// selector.requeue();
/// selector.close_with(RunningTerm::Interrupt).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, the participant leaves the election"]
pub struct LeaderSelector {
    client: Client,
    shared: Arc<Shared>,
    on_close: RunningTerm,
    task: Task<Result<(), Error>>,
}

impl LeaderSelector {
    /// Returns a builder for a participant of the election at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> LeaderSelectorBuilder {
        LeaderSelectorBuilder::new(client, path.into())
    }

    /// Joins the election once more: at once, or after the running term.
    ///
    /// Returns whether this call changes anything. It returns false if the selector waits already or is about to
    /// (always with auto-requeue), and once it is closed. A caller that has seen the selector lead gets true once per
    /// term.
    pub fn requeue(&self) -> bool {
        self.shared.want()
    }

    /// Ends the running term: its [`Leadership::lost`] resolves, and after the grace period the listener's future is
    /// dropped. Only then can the next participant lead. Whether the selector joins again is not affected.
    ///
    /// Returns false if the selector does not lead, or was interrupted already.
    #[doc(alias = "interruptLeadership")]
    pub fn interrupt_leadership(&self) -> bool {
        self.shared.interrupt()
    }

    /// Returns whether this participant leads at this instant. It compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn has_leadership(&self) -> bool {
        self.shared.state.borrow().is_leader()
    }

    /// Returns the state, to read it or to wait for changes. A state that was read earlier still compares the clock at
    /// each call.
    pub fn state(&self) -> StateReceiver<SelectorState> {
        StateReceiver::new(self.shared.state.subscribe(), |state| state.status() == SelectorStatus::Closed)
    }

    /// Returns a stream of the outcome of every term that ends from now on. What the listener returns is in the
    /// outcome, and in [`SelectorState::last_outcome`].
    pub fn outcomes(&self) -> Outcomes {
        self.shared.outcomes.subscribe()
    }

    /// Returns the leader as the ensemble knows it, or `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Client`] if a request to ZooKeeper failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        let leader = participants::leader(&self.client, &self.shared.path, line::LOCK).await;
        leader.map_err(|error| Error::client(&self.shared.path, error))
    }

    /// Returns all participants in order, the leader first.
    ///
    /// # Errors
    /// [`Error::Client`] if a request to ZooKeeper failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getParticipants")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let all = participants::participants(&self.client, &self.shared.path, line::LOCK).await;
        all.map_err(|error| Error::client(&self.shared.path, error))
    }

    /// Returns the id of this participant. It is empty if none was set.
    #[doc(alias = "getId")]
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Returns the path of the election.
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    /// Leaves the election as [`on_close`](LeaderSelectorBuilder::on_close) of the builder says. By default
    /// ([`RunningTerm::Finish`]) it waits for a running term. See [`close_with`](Self::close_with).
    ///
    /// # Errors
    /// As [`close_with`](Self::close_with).
    ///
    /// # Cancel safety
    /// Once it was polled, the selector leaves in the background even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.close_with(self.on_close).await
    }

    /// Leaves the election. Returns when no term runs any more, and the node is deleted or its session has ended. The
    /// outcome of the last term says how it ended. It may be called twice; the stricter mode counts. Do not await it
    /// inside the listener.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted. The delete is retried in the background until the session
    /// ends.
    ///
    /// # Cancel safety
    /// Once it was polled, the selector leaves in the background even if the future is dropped.
    pub async fn close_with(&self, mode: RunningTerm) -> Result<(), Error> {
        self.shared.close(mode);
        // A task that ended with its runtime has no outcome, and there is nothing to wait for. Its last term may have
        // left its node behind.
        self.task.outcome().await.unwrap_or_else(|| {
            let left_behind = self.shared.state.borrow().last_outcome().and_then(|last| last.release_error.clone());
            left_behind.map_or(Ok(()), Err)
        })
    }
}

impl Drop for LeaderSelector {
    fn drop(&mut self) {
        self.shared.close(RunningTerm::Interrupt);
    }
}

impl fmt::Debug for LeaderSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderSelector")
            .field("path", &self.shared.path)
            .field("id", &self.shared.id)
            .field("state", &self.shared.state.borrow().status())
            .finish_non_exhaustive()
    }
}
