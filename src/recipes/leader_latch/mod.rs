//! Leader election in which the leader leads until it closes its latch or loses its place: Curator's `LeaderLatch`.
//!
//! Every participant creates a node in one directory. The participant whose node has the lowest number leads. With
//! [priorities](LeaderLatchBuilder::priority) those that are to lead later go to the end of the line. Java services
//! that use Curator's latch on the same path take part in the same election.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let latch = LeaderLatch::builder(&client, "/my-service/leader")
//!     .id("worker-7")
//!     .start()?;
//! loop {
//!     let leadership = latch.wait_for_leadership().await?;
//!     // Dropped at the next await that waits, once the leadership is lost.
//!     let done = leadership.run(async { /* lead */ }).await;
//!     if done.is_ok() {
//!         break;
//!     }
//!     // The latch competes again by itself.
//! }
//! latch.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a leader can rely on
//!
//! [`Leadership::is_held`] compares the clock at each call. It turns false before the ensemble can give the leadership
//! to another participant, even if the process was stopped for longer than its session. A clock cannot cover four
//! cases:
//!
//! * a virtual machine that is paused or restored;
//! * servers that end the session before its timeout, because of an administrator or because they lost their data;
//! * an operator who deletes the leader's node, as the old leader learns of it no sooner than the new one;
//! * servers that grant different session timeouts, in a rare case that the [rules](crate#when-things-fail) describe.
//!
//! Writes that carry the [`fence`](Leadership::fence) are safe in every case.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the
//! default policy of a client.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, policy [`Standard`] | Leadership ends. The latch keeps its node. |
//! | connection suspended, policy [`Session`] | Leadership lasts until the lease expires, never longer than T. |
//! | reconnected in the same session | The latch verifies its node and keeps its place. |
//! | reconnected, after `Standard` ended the term | The leader leads again with the same token, as a new term. |
//! | session lost | Leadership ends. The latch creates a new node in the next session. |
//! | leader's node deleted by another client | The leader is notified and rejoins. No participant is promoted twice. |
//! | waiter's node deleted by another client | It rejoins, at the latest when the node before its own is deleted. |
//! | reply to a create lost | The latch finds its node by name, or creates it again. It never has two nodes. |
//! | reply to a delete lost | The latch repeats the delete until the node is gone. |
//! | id larger than the servers read | The latch fails with this error, and retries with growing delays. |
//! | asked to resign | The leader leads for its grace period, then goes to the end of the line. |
//! | next in line, and one behind it has a lower number as priority | It goes to the end of the line. |
//! | asked to resign, and its session or node is lost | The request is gone with the node that it was for. |
//! | process stopped for longer than T | The first `is_held()` after it wakes returns false. |
//! | no permission to create or read | `wait_for_leadership` fails. The latch retries with growing delays. |
//!
//! Until the notification of a deletion arrives, `is_held()` of the old leader may still return true. A waiter whose
//! node was deleted after the leader's in the same transaction may lead until its own notification arrives. The
//! ensemble refuses the fence of either.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod builder;
mod error;
mod listener;
mod observe;
mod pending;
mod precedence;
mod requests;
mod resign_error;
mod revocable;
mod state;
mod task;
mod transfer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::LeaderLatchBuilder;
pub use self::error::Error;
pub use self::listener::{BoxLeaderLatchListener, LeaderLatchListener};
pub use self::observe::{LeaderStream, observe_leader};
pub use self::pending::pending_requests;
pub use self::requests::ask_to_resign;
pub use self::resign_error::ResignError;
pub use self::state::{LatchState, LatchStatus};
use self::task::Shared;
pub use self::transfer::transfer;
use crate::client::task::Task;
use crate::client::{Client, ListenerHandle};
pub use crate::contender::leadership::{Leadership, LeadershipLost};
use crate::contender::participants;
pub use crate::contender::participants::Participant;
use crate::layout::line;
use crate::util::state_receiver::StateReceiver;

/// Selects what [`LeaderLatch::close`] does about listeners. [`Silent`](Self::Silent) is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CloseMode {
    /// Removes the listeners first. They are not notified. This is the default.
    #[doc(alias = "SILENT")]
    #[default]
    Silent,
    /// Calls `not_leader` of a leader's listeners, and deletes the node when they have returned. Only then can another
    /// participant lead. A listener that never returns delays that: remove it, close with `Silent` as well, or drop the
    /// latch. Do not await `close` inside a listener.
    #[doc(alias = "NOTIFY_LEADER")]
    NotifyLeader,
}

/// A participant of a leader election.
///
/// Dropping it leaves the election in the background and does not notify listeners. [`close`](Self::close) leaves it
/// and waits until that is done. If the runtime that keeps the session has ended before, the node stays until the
/// session ends.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_latch::{Error, LeaderLatch};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let latch = LeaderLatch::builder(&client, "/my-service/leader")
///     .id("worker-7")
///     .start()?;
/// if latch.has_leadership() {
///     println!("{} leads", latch.id());
/// }
/// for participant in latch.participants().await? {
///     println!("{participant}");
/// }
/// latch.close().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, the participant leaves the election"]
pub struct LeaderLatch {
    client: Client,
    shared: Arc<Shared>,
    close_mode: CloseMode,
    task: Task<Result<(), Error>>,
}

impl LeaderLatch {
    /// Returns a builder for a participant of the election at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> LeaderLatchBuilder {
        LeaderLatchBuilder::new(client, path.into())
    }

    /// Waits until this participant leads. It may be called again after a leadership was lost. If several tasks call
    /// it, all of them get the same leadership.
    ///
    /// # Errors
    /// [`Error::Client`] if an attempt to create the node or to read the election fails during the call, for example
    /// without permission or for a quota. The latch retries with growing delays: a call after a failure waits for the
    /// next attempt. [`state`](Self::state) has the error of the last one. [`Error::Closed`] if the latch or its client
    /// was closed, or its runtime has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the latch keeps its place in the election, whether or not this call is awaited.
    #[doc(alias = "await")]
    pub async fn wait_for_leadership(&self) -> Result<Leadership, Error> {
        // A loop over short terms must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut states = self.shared.state.subscribe();
        let failed_before = states.borrow().failures();
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(leadership) = state.leadership() {
                return Ok(leadership);
            }
            if let Some(error) = state.error()
                && state.failures() > failed_before
            {
                return Err(error.clone());
            }
            if state.status() == LatchStatus::Closed {
                return Err(self.shared.closed());
            }
            tokio::select! {
                biased;
                _ = states.changed() => {}
                // The task may also have ended with its runtime.
                _ = self.task.outcome() => return Err(self.shared.closed()),
            }
        }
    }

    /// Returns whether this participant leads at this instant. It compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn has_leadership(&self) -> bool {
        self.shared.state.borrow().is_leader()
    }

    /// Returns the state, to read it or to wait for changes. A state that was read earlier still compares the clock at
    /// each call.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     latch: zookeeper_recipes::leader_latch::LeaderLatch,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut state = latch.state();
    /// let leading = state.wait_for(|state| state.is_leader()).await?;
    /// println!("{}", leading.status());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "getState")]
    pub fn state(&self) -> StateReceiver<LatchState> {
        StateReceiver::new(self.shared.state.subscribe(), |state| state.status() == LatchStatus::Closed)
    }

    /// Returns a stream of the leader, now and after every change. An item is `None` while there is no leader. See
    /// [`observe_leader`].
    pub fn observe_leader(&self) -> LeaderStream {
        observe::stream(self.client.clone(), Arc::clone(&self.shared.path))
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
        let leader = participants::leader(&self.client, &self.shared.path, line::LATCH).await;
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
        let all = participants::participants(&self.client, &self.shared.path, line::LATCH).await;
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

    /// Returns the path of this participant's node, or `None` while it has none. A participant with a node does not
    /// necessarily lead.
    #[doc(alias = "getOurPath")]
    pub fn our_path(&self) -> Option<String> {
        self.shared.state.borrow().node().map(str::to_owned)
    }

    /// Notifies `listener` when leadership is gained and lost, on a task of its own. If the latch leads already, it
    /// notifies the listener at once.
    #[doc(alias = "addListener")]
    pub fn add_listener(&self, listener: impl LeaderLatchListener) -> ListenerHandle {
        self.shared.listeners.add(self.client.core(), &self.shared.state, listener)
    }

    /// Ends this term and goes to the end of the line, where the latch still takes part. Returns when the term has
    /// ended, so that [`wait_for_leadership`](Self::wait_for_leadership) never returns it again. If the term is of an
    /// earlier node, or of another latch, this does nothing. Listeners are notified, and with
    /// [`CloseMode::NotifyLeader`] awaited, before another participant can lead; this does not wait for them. A
    /// participant that is alone leads again, as a new term.
    ///
    /// Any latch can resign; it need not be [`revocable`](LeaderLatchBuilder::revocable). If it has a
    /// [priority](LeaderLatchBuilder::priority), that gives it no precedence until it has led again.
    ///
    /// # Cancel safety
    /// Once it was polled, the latch resigns even if the future is dropped.
    pub async fn resign(&self, leadership: &Leadership) {
        let node = leadership.node();
        let own = self.client.core().config.namespace.strip(node);
        let mut states = self.shared.state.subscribe();
        if self.shared.resign(node, own) {
            // A latch that closes, or whose runtime ends, has no node either. The sender is here.
            let _ = states.wait_for(|state| state.node() != Some(own)).await;
        }
    }

    /// Asks a participant to resign; see [`ask_to_resign`]. Returns false if its node is gone.
    ///
    /// # Errors
    /// As [`ask_to_resign`].
    ///
    /// # Cancel safety
    /// A request that was sent before the future was dropped may still arrive.
    pub async fn ask_to_resign(&self, participant: &Participant) -> Result<bool, ResignError> {
        ask_to_resign(&self.client, &participant.path).await
    }

    /// Lets a participant lead next, although others came before it; see [`transfer`].
    ///
    /// # Errors
    /// As [`transfer`].
    ///
    /// # Cancel safety
    /// Participants that were asked still give up their places after the future was dropped.
    pub async fn transfer_to(&self, participant: &Participant, within: Duration) -> Result<Participant, ResignError> {
        transfer(&self.client, &*self.shared.path, &participant.path, within).await
    }

    /// Leaves the election with the [close mode](LeaderLatchBuilder::close_mode) of the builder, by default
    /// [`CloseMode::Silent`]. See [`close_with`](Self::close_with).
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted.
    ///
    /// # Cancel safety
    /// Once it was polled, the latch leaves in the background even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.close_with(self.close_mode).await
    }

    /// Leaves the election. The leadership ends first, then listeners are notified if `mode` says so, then the node is
    /// deleted. Returns when the server has deleted the node, or the session has ended. It may be called twice;
    /// the first mode counts.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted.
    ///
    /// # Cancel safety
    /// Once it was polled, the latch leaves in the background even if the future is dropped.
    pub async fn close_with(&self, mode: CloseMode) -> Result<(), Error> {
        self.shared.close(mode);
        // A task that ended with its runtime has no outcome, and there is nothing to wait for.
        self.task.outcome().await.unwrap_or(Ok(()))
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.shared.close(CloseMode::Silent);
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
