//! A barrier that a number of members pass together, on the way in and on the way out: Curator's `DistributedDoubleBarrier`.
//!
//! Nobody's [`enter`](DoubleBarrier::enter) returns before as many members as the barrier asks for are there, and nobody's
//! [`leave`](DoubleBarrier::leave) before all of them have left. Members on Curator's double barrier meet ours at the same
//! path.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::double_barrier::DoubleBarrier;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! // One object a member; here this process is one of three.
//! let barrier = DoubleBarrier::new(&client, "/my-job/barrier", 3)?;
//! for step in 0..10 {
//!     barrier.enter().await?; // all three are there
//!     println!("step {step}");
//!     barrier.leave().await?; // all three are done
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a member may believe
//!
//! A round opens once, in one transaction, which checks that those who are counted are there: a member that dies before that
//! lets nobody through early, and one whose time runs out is either in the round, and its
//! [`enter_timeout`](DoubleBarrier::enter_timeout) returns true, or was not counted. So all members of a round that get an
//! answer get the same one. A member that gets an error may have been counted; so may one whose process crashed, until its
//! session is over.
//!
//! Whoever comes while the round is on is let in as well, so there may be more members than the barrier asks for, and all of
//! them are waited for on the way out. A member that dies inside, or while it leaves, is waited for until its session is
//! over, and no longer. What a round whose members have all crashed leaves behind (the node `ready`) does not open the next
//! one.
//!
//! The end of the session is an error ([`SessionLost`](crate::ErrorKind::SessionLost)): of the call under way, at once, or of
//! the next [`leave`](DoubleBarrier::leave), which is to be called in any case. Then the member is outside, and may enter again.
//! A member at work inside for long can hear of it by [`Client::connection_states`](crate::Client::connection_states). A short
//! loss of the connection is waited out, under either error policy.
//!
//! # Costs
//!
//! To enter is three requests in one flight, and for the last to come the transaction that opens the round. To leave is a list,
//! then three requests in one flight. With eight members that is about 7.3 requests a member and round, and never more than 8.
//!
//! # Together with Curator
//!
//! The nodes are Curator's: `<path>/<uuid>` for each member, ephemeral, and `<path>/ready`. Its members and ours count each
//! other, open rounds for each other, and wait for each other to leave. What its algorithm does not do it does not do
//! beside ours either: a Curator member deletes `ready` when it leaves, whoever is still entering, and may be let through by
//! a stale one; a time-out of ours can cross its opening. Promises hold among members of this library.
//!
//! The *data version* of the node at the path is the number of the rounds, and Curator leaves it alone. What the node holds is
//! kept; but do not write to it while members are leaving, as they would take that for the end of the round.
//!
//! Every child of the path but `ready` counts as a member, as with Curator: keep nothing else there. And leave `ready` alone while
//! a round is on. Without it nobody leaves early, but whoever enters then takes those inside for waiting ones: enough of them, and
//! a new round opens, which ends the leaving of the old one; too few, and the leaving wait for the newcomer as well.

mod builder;
mod enter;
mod error;
mod late;
mod leave;
mod member;
mod site;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

pub use self::builder::DoubleBarrierBuilder;
pub use self::error::Error;
use self::member::{Ghost, Order};
use self::site::Site;
use crate::client::core::KeepAlive;
use crate::client::{self, Client, ErrorKind};

/// Of the time that a call may take, this part (and at most that much) is kept for taking the node back, so that the call
/// can say for certain that it left nothing.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// One member of a double barrier, for any number of rounds. Make an object for each member; calls on one object come one
/// after the other, and those that do not are an error.
///
/// Dropping it while it is inside is leaving without waiting for the others. While it exists the client keeps its lease, at the
/// cost of six small requests a session timeout.
pub struct DoubleBarrier {
    client: Client,
    site: Arc<Site>,
    slot: Mutex<Slot>,
    _keep_alive: KeepAlive,
}

/// Where the member is, between two calls.
#[derive(Debug)]
enum Slot {
    /// Outside; what an earlier call left is being seen to, and may leave a ghost.
    Outside(Option<oneshot::Receiver<Ghost>>),
    /// A call is under way.
    Busy,
    Inside(Inside),
}

/// The line to the task of a member that is inside. Dropped, the task withdraws.
#[derive(Debug)]
struct Inside {
    orders: oneshot::Sender<Order>,
    settling: oneshot::Receiver<Ghost>,
}

/// A call under way. However it ends, the slot then holds `back`.
struct Call<'a> {
    slot: &'a Mutex<Slot>,
    back: Slot,
}

impl<'a> Call<'a> {
    fn begin(barrier: &'a DoubleBarrier) -> Result<Self, Error> {
        let mut slot = barrier.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *slot, Slot::Busy) {
            Slot::Busy => Err(Error::Busy { path: Arc::clone(&barrier.site.path) }),
            back => Ok(Call { slot: &barrier.slot, back }),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let back = std::mem::replace(&mut self.back, Slot::Outside(None));
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = back;
    }
}

/// How long a call may take: when to give up, and when to return at the latest.
#[derive(Debug, Clone, Copy, Default)]
struct Time {
    patience: Option<Instant>,
    deadline: Option<Instant>,
}

impl Time {
    fn of(timeout: Duration) -> Self {
        let (part, most) = TO_LEAVE;
        // A time beyond the end of the clock is none.
        let deadline = Instant::now().checked_add(timeout);
        Time { patience: deadline.map(|deadline| deadline - (timeout / part).min(most)), deadline }
    }

    fn is_over(self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// What `answer` says, if it does so in time.
    async fn limit<F: Future>(self, answer: F) -> Option<F::Output> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, answer).await.ok(),
            None => Some(answer.await),
        }
    }
}

impl DoubleBarrier {
    /// A member of the barrier at `path`, with default options: a round opens when `members` are there.
    ///
    /// # Errors
    /// As [`DoubleBarrierBuilder::start`].
    pub fn new(client: &Client, path: impl Into<String>, members: usize) -> Result<Self, Error> {
        DoubleBarrier::builder(client, path, members).start()
    }

    /// The options of a member of the barrier at `path`, where a round opens when `members` are there. All members must give
    /// the same number: with several, whoever counts to its own opens the round for all who are there.
    pub fn builder(client: &Client, path: impl Into<String>, members: usize) -> DoubleBarrierBuilder {
        DoubleBarrierBuilder::new(client, path.into(), members)
    }

    fn at(client: Client, site: Site) -> Self {
        let keep_alive = client.core().keep_alive();
        DoubleBarrier { client, site: Arc::new(site), slot: Mutex::new(Slot::Outside(None)), _keep_alive: keep_alive }
    }

    /// Waits until enough members are there, or a round is on already. Then the member is inside.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the session ended meanwhile: the member is outside, and may enter again. Otherwise
    /// [`Error::Client`], such as for want of permission; [`Error::AlreadyInside`]; [`Error::Busy`]; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: the member is outside, and its node is deleted in the background. Until then others may count it; the
    /// next enter on the same object waits for that.
    pub async fn enter(&self) -> Result<(), Error> {
        self.enter_in(Time::default()).await.map(drop)
    }

    /// As [`enter`](Self::enter), for no longer than `timeout` in all. False says that the round did not open, and that no
    /// node is left. Waiting ends an eighth of the time (at most a second) before the deadline, to leave time to take the node
    /// back. With no time at all it is false, and nothing is sent.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if no server could be asked in time: nothing is known of the round, and no node is left.
    /// [`ErrorKind::OutcomeUnknown`] if it could not be found out in time whether the round opened, or whether the node of an
    /// earlier call is gone: the member is outside, and its node is deleted in the background, at the latest with the session.
    /// Otherwise as [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// As [`enter`](Self::enter).
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.enter_in(Time::of(timeout)).await
    }

    /// Waits until all members of the round have left. Then, and whatever else it returns, the member is outside.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the session ended meanwhile, or while the member was inside;
    /// [`Error::NodeDeleted`] if somebody deleted its node. Otherwise as [`enter`](Self::enter), but [`Error::NotInside`].
    ///
    /// # Cancel safety
    /// Once polled, the member leaves also if the future is dropped: its node is deleted in the background, and the others need
    /// not wait for it.
    pub async fn leave(&self) -> Result<(), Error> {
        self.leave_in(Time::default()).await.map(drop)
    }

    /// As [`leave`](Self::leave), for no longer than `timeout` in all. False says that others were inside still when the time was
    /// over; the own node is gone. Waiting ends an eighth of the time (at most a second) before the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if it could not be confirmed in time that the own node is gone: it is deleted in the
    /// background, at the latest with the session. Otherwise as [`leave`](Self::leave).
    ///
    /// # Cancel safety
    /// As [`leave`](Self::leave).
    pub async fn leave_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.leave_in(Time::of(timeout)).await
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.site.path
    }

    /// How many members open a round.
    pub fn members(&self) -> usize {
        self.site.members
    }

    async fn enter_in(&self, time: Time) -> Result<bool, Error> {
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut call = Call::begin(self)?;
        let ghost = match &mut call.back {
            Slot::Outside(None) => None,
            // A task that is gone with its runtime leaves nothing that it knew of.
            Slot::Outside(Some(settling)) => match time.limit(settling).await {
                Some(settled) => settled.ok().flatten(),
                None => return Err(Error::left_behind(&self.site.path)),
            },
            _ => return Err(Error::AlreadyInside { path: Arc::clone(&self.site.path) }),
        };
        if time.is_over() {
            let answer = if ghost.is_none() { Ok(false) } else { Err(Error::left_behind(&self.site.path)) };
            // The next call must know of it.
            let (settled, settling) = oneshot::channel();
            let _ = settled.send(ghost);
            call.back = Slot::Outside(Some(settling));
            return answer;
        }
        let (told, answer) = oneshot::channel();
        let (orders, ordered) = oneshot::channel();
        let (settled, settling) = oneshot::channel();
        let site = Arc::clone(&self.site);
        self.site.core.runtime.spawn(member::attend(site, ghost, time.patience, told, ordered, settled));
        call.back = Slot::Outside(Some(settling));
        let entered = self.answer("enter", time, answer).await?;
        if entered && let Slot::Outside(Some(settling)) = std::mem::replace(&mut call.back, Slot::Outside(None)) {
            call.back = Slot::Inside(Inside { orders, settling });
        }
        Ok(entered)
    }

    async fn leave_in(&self, time: Time) -> Result<bool, Error> {
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut call = Call::begin(self)?;
        let back = std::mem::replace(&mut call.back, Slot::Outside(None));
        let Slot::Inside(Inside { orders, settling }) = back else {
            call.back = back;
            return Err(Error::NotInside { path: Arc::clone(&self.site.path) });
        };
        call.back = Slot::Outside(Some(settling));
        let (told, answer) = oneshot::channel();
        // The task may be gone with its runtime; then there is no answer either.
        let _ = orders.send(Order { patience: time.patience, told });
        self.answer("leave", time, answer).await
    }

    /// The answer of the member's task.
    async fn answer(
        &self,
        doing: &str,
        time: Time,
        answer: oneshot::Receiver<Result<bool, Error>>,
    ) -> Result<bool, Error> {
        let path = &self.site.path;
        match time.limit(answer).await {
            Some(Ok(answer)) => {
                tracing::debug!(path = &**path, doing, ?answer, "double barrier");
                answer
            }
            Some(Err(_)) => Err(Error::Closed { path: Arc::clone(path) }),
            None => {
                let message = format!(
                    "{doing} {path}: no answer in time; the node, if there is one, is deleted in the background"
                );
                Err(Error::client(path, client::Error::new(ErrorKind::OutcomeUnknown, message)))
            }
        }
    }
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoubleBarrier")
            .field("path", &self.site.path)
            .field("members", &self.site.members)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
