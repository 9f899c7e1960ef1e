//! Leader election in terms: whoever is elected leads until its work returns, then the next one does, and so on. Curator's
//! `LeaderSelector`.
//!
//! The election is a [mutex](crate#which-recipe-when) at one path: Java services that use Curator's selector there stand in
//! the same line, first come first served.
//!
//! ```no_run
//! use futures::StreamExt;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership, RequeuePolicy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let lead = |leadership: Leadership| async move {
//!     println!("leading with fencing token {}", leadership.fencing_token());
//! };
//! let selector = LeaderSelector::builder(&client, "/my-service/leader")
//!     .id("worker-7")
//!     .auto_requeue(RequeuePolicy::default())
//!     .start(lead)?;
//! let mut outcomes = selector.outcomes();
//! while let Some(outcome) = outcomes.next().await {
//!     println!("term {} is over: {}", outcome.fencing_token, outcome.end);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a leader may believe
//!
//! The listener gets a [`Leadership`], which compares the clock whenever it is asked. When the leadership is lost, by what
//! the client's [error policy](crate::ErrorPolicy) takes for an error, its future is dropped at the await it is in, after
//! the [grace period](LeaderSelectorBuilder::grace_period). Between two awaits nobody can stop it: writes that matter carry
//! the [`fence`](Leadership::fence) or the [token](Leadership::fencing_token).
//!
//! # When things fail
//!
//! A selector that waits survives the loss of connections and sessions for as long as it lives. One whose term was lost goes
//! on with [auto-requeue](LeaderSelectorBuilder::auto_requeue), or when it is [requeued](LeaderSelector::requeue). A path that
//! cannot be entered (no permission) shows in the [state](LeaderSelector::state), and is tried ever more slowly.

mod builder;
mod error;
mod listener;
mod outcome;
mod shared;
mod state;
mod task;
mod term;
mod yielding;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

pub use self::builder::{LeaderSelectorBuilder, RequeuePolicy};
pub use self::error::Error;
pub use self::listener::{BoxError, LeaderSelectorListener, TermResult};
pub use self::outcome::{Outcome, Outcomes, TermEnd};
use self::shared::Shared;
pub use self::state::{SelectorState, SelectorStatus};
use crate::client::Client;
pub use crate::contender::leadership::{Leadership, LeadershipLost};
use crate::contender::participants;
pub use crate::contender::participants::Participant;

/// What its node's name ends in, before the number: Curator's, as of a mutex.
const BASE: &str = "lock-";

/// What `close` does to a running term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum CloseMode {
    /// It goes on until the listener returns. One that leads until it is lost must be
    /// [interrupted](LeaderSelector::interrupt_leadership).
    #[default]
    Finish,
    /// It is interrupted: the listener is told, and its future dropped after the grace period.
    Interrupt,
}

/// A participant of a leader election in terms.
///
/// Dropping it leaves the election in the background and interrupts a running term; [`close`](Self::close) waits for it. If the
/// runtime that keeps the session is gone by then, the node stays until the session ends.
pub struct LeaderSelector {
    client: Client,
    shared: Arc<Shared>,
    close_mode: CloseMode,
    finished: watch::Receiver<bool>,
}

impl LeaderSelector {
    /// The options of a participant of the election at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> LeaderSelectorBuilder {
        LeaderSelectorBuilder::new(client, path.into())
    }

    /// Stands in line once more: at once, or when the running term is over. True if that makes a difference: false if it
    /// stands in line already or is about to (always so with auto-requeue), and once it is closed. Whoever has seen it lead
    /// gets true, once a term.
    pub fn requeue(&self) -> bool {
        self.shared.want()
    }

    /// Ends the running term: its [`Leadership::lost`] resolves, and after the grace period the listener's future is dropped.
    /// The next participant leads when that is done. False if it does not lead, or is interrupted already. What comes after
    /// the term is left as it is.
    pub fn interrupt_leadership(&self) -> bool {
        self.shared.interrupt()
    }

    /// Whether this participant leads at this instant: compares the clock at each call.
    pub fn has_leadership(&self) -> bool {
        self.shared.state.borrow().is_leader()
    }

    /// The state, to look at or to wait for changes of. What is read from the channel later still heeds the clock.
    pub fn state(&self) -> watch::Receiver<SelectorState> {
        self.shared.state.subscribe()
    }

    /// The end of every term from now on, with its error. Whatever the listener returns reaches this stream, and
    /// [`SelectorState::last_outcome`].
    pub fn outcomes(&self) -> Outcomes {
        self.shared.outcomes.subscribe()
    }

    /// Who leads, as the ensemble knows it; `None` if nobody does.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        let leader = participants::leader(&self.client, &self.shared.path, BASE).await;
        leader.map_err(|error| Error::client(&self.shared.path, error))
    }

    /// Everybody in the line, the leader first.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let all = participants::participants(&self.client, &self.shared.path, BASE).await;
        all.map_err(|error| Error::client(&self.shared.path, error))
    }

    /// The id given to this participant.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The path of the election.
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    /// Leaves the election, as [`close_with`](Self::close_with) and the builder's close mode: by default a running term is
    /// waited for.
    ///
    /// # Errors
    /// As [`close_with`](Self::close_with).
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.close_with(self.close_mode).await
    }

    /// Leaves the election. Returns when no term runs any more and the node is deleted, or its session over. How the last term
    /// ended is in its outcome. Closing twice is fine; the stricter mode counts. Do not wait for it inside the listener.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted: that is tried again in the background until the session ends.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn close_with(&self, mode: CloseMode) -> Result<(), Error> {
        self.shared.close(mode);
        let mut finished = self.finished.clone();
        // The task gone without a word: its runtime is, and there is nothing to wait for.
        let _ = finished.wait_for(|finished| *finished).await;
        self.shared.left()
    }
}

impl Drop for LeaderSelector {
    fn drop(&mut self) {
        self.shared.close(CloseMode::Interrupt);
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
