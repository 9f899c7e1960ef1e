//! Leader election in which a leader leads until it closes or loses its place: Curator's `LeaderLatch`.
//!
//! Every participant creates a node in one directory; the one with the lowest number leads. Java services that use Curator's
//! latch on the same path take part in the same election.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let latch = LeaderLatch::builder(&client, "/my-service/leader").id("worker-7").start()?;
//! loop {
//!     let leadership = latch.wait_for_leadership().await?;
//!     // Dropped at its next await when the leadership is lost; then the latch competes again.
//!     let done = leadership.run(async { /* lead */ }).await;
//!     if done.is_ok() {
//!         break;
//!     }
//! }
//! latch.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a leader may believe
//!
//! A [`Leadership`] compares the clock whenever it is asked: it says no before the ensemble can have given the leadership
//! to somebody else, also after the process was stopped for longer than its session. Three cases are beyond any clock: a
//! virtual machine that is paused or restored; servers that end the session before its time is over, by an administrator's
//! hand or with their data; and an operator who deletes the leader's node, as the old leader hears of it no sooner than the
//! new one. Writes that carry the [`fence`](Leadership::fence) are safe in every case.
//!
//! # When the connection is in doubt
//!
//! With [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) leadership ends when the connection does, and comes back
//! with the same node (and the same fencing token) if the session survived. With
//! [`ErrorPolicy::Session`](crate::ErrorPolicy::Session) it lasts until the lease is over. After the loss of a session
//! the latch enters the line again with the next one, for as long as it lives.

mod builder;
mod error;
mod listener;
mod observe;
mod state;
mod task;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

pub use self::builder::LeaderLatchBuilder;
pub use self::error::Error;
pub use self::listener::LeaderLatchListener;
pub use self::observe::{LeaderStream, observe_leader};
pub use self::state::{LatchState, LatchStatus};
use self::task::Shared;
use crate::client::{Client, ListenerHandle};
pub use crate::contender::leadership::{Leadership, LeadershipLost};
use crate::contender::participants;
pub use crate::contender::participants::Participant;

/// What its node's name ends in, before the number: Curator's.
pub(crate) const BASE: &str = "latch-";

/// What `close` does for listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CloseMode {
    /// Listeners are let go first and hear nothing.
    #[default]
    Silent,
    /// A leader's listeners hear `not_leader`; the node is deleted, and with it the leadership passed on, when they have
    /// returned. One that never returns holds that up: remove it, close with `Silent` as well, or drop the latch. Do not wait
    /// for `close` inside a listener.
    NotifyLeader,
}

/// A participant of a leader election.
///
/// Dropping it leaves the election in the background, without telling listeners; [`close`](Self::close) waits for it.
/// If the runtime that keeps the session is gone by then, the node stays until the session ends.
pub struct LeaderLatch {
    client: Client,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    finished: watch::Receiver<bool>,
}

impl LeaderLatch {
    /// The options of a participant of the election at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> LeaderLatchBuilder {
        LeaderLatchBuilder::new(client, path.into())
    }

    /// Waits until this participant leads. May be called again after a leadership was lost, and by several tasks: all get
    /// the same leadership.
    ///
    /// # Errors
    /// [`Error::Client`] if the line could not be entered or seen, such as for want of permission. The latch goes on
    /// trying, ever more slowly; the next call waits for the next attempt. [`Error::Closed`] if the latch or its client was
    /// closed, or its runtime has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the place in the line is kept by the latch, not by this call.
    pub async fn wait_for_leadership(&self) -> Result<Leadership, Error> {
        // A loop over short terms must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let told = self.shared.told();
        let mut states = self.state();
        let mut finished = self.finished.clone();
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(leadership) = state.leadership() {
                return Ok(leadership);
            }
            if let Some((number, error)) = state.failure()
                && number > told
            {
                self.shared.tell(number);
                return Err(error.clone());
            }
            if state.status() == LatchStatus::Closed {
                return Err(self.shared.closed());
            }
            tokio::select! {
                biased;
                _ = states.changed() => {}
                // Also when the task is gone without a word, and with it its runtime.
                _ = finished.wait_for(|finished| *finished) => return Err(self.shared.closed()),
            }
        }
    }

    /// Whether this participant leads at this instant: compares the clock at each call.
    pub fn has_leadership(&self) -> bool {
        self.shared.state.borrow().is_leader()
    }

    /// The state, to look at or to wait for changes of. What is read from the channel later still heeds the clock.
    pub fn state(&self) -> watch::Receiver<LatchState> {
        self.shared.state.subscribe()
    }

    /// Who leads, now and after every change: `None` while nobody does. See [`observe_leader`].
    pub fn observe_leader(&self) -> LeaderStream {
        observe::stream(self.client.clone(), Arc::clone(&self.shared.path))
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

    /// The path of this participant's own node, while it has one. Having a node does not mean to lead.
    pub fn our_path(&self) -> Option<String> {
        self.shared.our_path()
    }

    /// Tells `listener` when leadership is gained and lost, on a task of its own. A latch that leads already tells it so
    /// at once.
    pub fn add_listener(&self, listener: impl LeaderLatchListener) -> ListenerHandle {
        self.shared.listeners.add(self.client.core(), &self.shared.state, listener)
    }

    /// Leaves the election, as [`close_with`](Self::close_with) and the builder's close mode.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.close_with(self.shared.close_mode).await
    }

    /// Leaves the election: leadership ends, listeners are told if `mode` says so, then the node is deleted. Returns when
    /// the server has deleted it, or its session is over. Closing twice is fine; the first mode counts.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn close_with(&self, mode: CloseMode) -> Result<(), Error> {
        self.shared.end(mode, &self.stop);
        let mut finished = self.finished.clone();
        // The task gone without a word: its runtime is, and there is nothing to wait for.
        let _ = finished.wait_for(|finished| *finished).await;
        self.shared.outcome()
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.shared.end(CloseMode::Silent, &self.stop);
    }
}

impl fmt::Debug for LeaderLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderLatch")
            .field("path", &self.shared.path)
            .field("id", &self.shared.id)
            .field("state", &self.shared.state.borrow().status())
            .finish_non_exhaustive()
    }
}
