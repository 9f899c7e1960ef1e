//! A barrier that a number of members enter together and leave together, compatible with Curator's
//! `DistributedDoubleBarrier`.
//!
//! [`enter`](DoubleBarrier::enter) returns when as many members as the barrier requires have arrived.
//! [`leave`](DoubleBarrier::leave) returns when all members of the round have left. Members that use Curator's double
//! barrier at the same path take part in the same rounds.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::double_barrier::DoubleBarrier;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! // One object for each member. This process is one of three.
//! let barrier = DoubleBarrier::new(&client, "/my-job/barrier", 3)?;
//! for step in 0..10 {
//!     barrier.enter().await?; // all three have arrived
//!     println!("step {step}");
//!     barrier.leave().await?; // all three are done
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Consecutive rounds at one path are safe only if all members use this library. With a Curator member they can hang;
//! [use a separate path for each round](#together-with-curator) in that case.
//!
//! # Guarantees
//!
//! A round opens once, in one transaction, which checks that the nodes of all counted members exist. If a member dies
//! before that, no other member gets through early. A member whose time runs out either is in the round, and its
//! [`enter_timeout`](DoubleBarrier::enter_timeout) returns true, or was not counted. So all members of a round that get
//! an answer get the same one. A member that gets an error may have been counted. So may a member whose process
//! crashed, until its session is over.
//!
//! A member that arrives while a round is open enters that round as well. So a round may have more members than the
//! barrier requires, and `leave` waits for all of them. If a member dies inside, or while it leaves, the others wait
//! until its session is over, and no longer. If all members of a round crash, the node `ready` that they leave behind
//! does not open the next round.
//!
//! If the session ends, the member gets [`SessionLost`](crate::ErrorKind::SessionLost): from the call under way, at
//! once, or from the next [`leave`](DoubleBarrier::leave). Call `leave` in any case. After that the member is outside,
//! and may enter again. A member that works inside for long can learn of the loss from
//! [`Client::connection_states`](crate::Client::connection_states). A short loss of the connection causes no error,
//! under either error policy.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted.
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended`, either error policy | `enter` and `leave` keep waiting. |
//! | | The node remains, and with it the place in the round. |
//! | `Reconnected`, same session | The member checks the same node and the round again. |
//! | | It notices a round that opened or ended meanwhile. |
//! | session `Lost` | The call under way, or the next `leave`, returns an error. The member may enter again. |
//! | | The others wait for its node until the session is over, and no longer. |
//! | own node deleted while entering | The member creates a new node. (It watches its own node after one second.) |
//! | own node deleted while inside | `leave` returns an error, and the others do not wait. |
//! | `ready` deleted by hand | No member leaves early, unless another member enters before they have left. |
//! | reply to the create lost | The node is found by its name, or created again. There are never two nodes. |
//! | reply to another step lost | Opening, ending, joining and giving up are transactions. The result is looked up. |
//! | | A timed call that cannot find the result by its deadline returns `OutcomeUnknown`. |
//! | process stopped for longer than T | An error after it resumes, even if the round opened meanwhile. |
//! | | The others continue without it. |
//!
//! # Costs
//!
//! `enter` takes three requests in one flight; the last member to arrive also sends the transaction that opens the
//! round. `leave` takes a list, then three requests in one flight. With eight members that is about 7.3 requests for
//! each member and round, and never more than 8.
//!
//! # Together with Curator
//!
//! The nodes are Curator's: an ephemeral `<path>/<uuid>` for each member, and `<path>/ready`. Members of Curator and of
//! this library count each other, open rounds for each other, and wait for each other to leave. The guarantees above
//! hold only among members of this library. A Curator member deletes `ready` when it leaves, even if other members are
//! still entering, and a stale `ready` can let it through. A timeout of a member of this library can coincide with an
//! opening by a Curator member.
//!
//! **Consecutive rounds with Curator members can hang.** Curator's `leave` lists the directory repeatedly until the
//! members are gone. It does not distinguish rounds: a member that has already entered the next round looks like one
//! that has not left. That member waits for the Curator member to enter, and the Curator member waits for it to leave.
//! So use a separate path for each round, in Java as well:
//!
//! ```no_run
//! # use zookeeper_recipes::{Client, double_barrier::{DoubleBarrier, Error}};
//! # async fn example(client: Client) -> Result<(), Error> {
//! for step in 0..10 {
//!     let path = format!("/jobs/step-{step}");
//!     let barrier = DoubleBarrier::new(&client, path, 3)?;
//!     barrier.enter().await?;
//!     println!("step {step}");
//!     barrier.leave().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Or enter again only after the Curator processes report that their `leave` has returned. It is not enough to wait
//! until the directory is empty: another member of this library may have entered again by then, and waits for yours.
//!
//! The *data version* of the node at the path counts the rounds; Curator does not change it. The node's data is kept.
//! Do not write to the node while members are leaving, because they would take the write for the end of the round.
//!
//! As with Curator, every child of the path except `ready` counts as a member: keep nothing else there. Do not delete
//! `ready` while a round is open. Its absence lets no member leave early, but a member that enters then takes the
//! members inside for waiting ones. If there are enough of them, a new round opens, which ends the wait of the members
//! that are leaving. If there are too few, the leaving members wait for the new member as well.

mod builder;
mod enter;
mod error;
mod join;
mod leave;
mod member;
mod znodes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

pub use self::builder::DoubleBarrierBuilder;
pub use self::error::Error;
use self::member::{LeaveCommand, Leftover};
use self::znodes::Znodes;
use crate::client::core::KeepAlive;
use crate::client::{self, Client, ErrorKind};
use crate::util::mutex::Mutex;

/// The part of a call's timeout that is reserved for deleting the node, as a divisor, and its cap. It lets the call
/// confirm that no node is left.
const CLEANUP_RESERVE: (u32, Duration) = (8, Duration::from_secs(1));

/// One member of a double barrier, for any number of rounds. Create an object for each member. Calls on one object must
/// not overlap: a second call returns [`Error::Busy`].
///
/// A member that is dropped while it is inside leaves without waiting for the others. While the object exists, the
/// client keeps its lease, at the cost of six small requests in each session timeout.
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let barrier = DoubleBarrier::builder(&client, "/my-job/barrier", 3)
///     .data("worker-7")
///     .build()?;
/// if barrier.enter_timeout(Duration::from_secs(60)).await? {
///     println!("all three have arrived");
///     barrier.leave().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    client: Client,
    znodes: Arc<Znodes>,
    slot: Mutex<Slot>,
    _keep_alive: KeepAlive,
}

/// The state of the member, as the next call finds it.
#[derive(Debug)]
enum Slot {
    /// Outside. The task of an earlier call may still be cleaning up; it sends the node that it could not delete.
    Outside(Option<oneshot::Receiver<Leftover>>),
    /// A call is under way.
    Busy,
    Inside(Inside),
}

/// The channels to the task of a member that is inside. If they are dropped, the task withdraws.
#[derive(Debug)]
struct Inside {
    command: oneshot::Sender<LeaveCommand>,
    settling: oneshot::Receiver<Leftover>,
}

/// A call under way. When it ends or is dropped, `back` goes into the slot.
struct Call<'a> {
    slot: &'a Mutex<Slot>,
    back: Slot,
}

impl<'a> Call<'a> {
    fn begin(barrier: &'a DoubleBarrier) -> Result<Self, Error> {
        let mut slot = barrier.slot.lock();
        match std::mem::replace(&mut *slot, Slot::Busy) {
            Slot::Busy => Err(Error::Busy { path: Arc::clone(&barrier.znodes.path) }),
            back => Ok(Call { slot: &barrier.slot, back }),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let back = std::mem::replace(&mut self.back, Slot::Outside(None));
        *self.slot.lock() = back;
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
        let (divisor, most) = CLEANUP_RESERVE;
        // A deadline that the clock cannot represent is no deadline.
        let deadline = Instant::now().checked_add(timeout);
        Time { patience: deadline.map(|deadline| deadline - (timeout / divisor).min(most)), deadline }
    }

    fn is_over(self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Returns the answer, if it comes in time.
    async fn limit<F: Future>(self, answer: F) -> Option<F::Output> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, answer).await.ok(),
            None => Some(answer.await),
        }
    }
}

impl DoubleBarrier {
    /// Creates a member of the barrier at `path`, with default options. A round opens when `members` have arrived.
    ///
    /// # Errors
    /// As [`DoubleBarrierBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>, members: usize) -> Result<Self, Error> {
        DoubleBarrier::builder(client, path, members).build()
    }

    /// Returns a builder for a member of the barrier at `path`, where a round opens when `members` have arrived. All
    /// members must give the same number. If the numbers differ, the first member whose number is reached opens the
    /// round for all that have arrived.
    pub fn builder(client: &Client, path: impl Into<String>, members: usize) -> DoubleBarrierBuilder {
        DoubleBarrierBuilder::new(client, path.into(), members)
    }

    fn at(client: Client, znodes: Znodes) -> Self {
        let keep_alive = client.core().keep_alive();
        DoubleBarrier {
            client,
            znodes: Arc::new(znodes),
            slot: Mutex::new(Slot::Outside(None)),
            _keep_alive: keep_alive,
        }
    }

    /// Waits until enough members have arrived, or enters the round that is open. After that the member is inside.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the session ended meanwhile: the member is outside, and may enter again. Otherwise
    /// [`Error::Client`], for example if a permission is missing; [`Error::AlreadyInside`]; [`Error::Busy`];
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: the member is outside, and its node is deleted in the background. Until then others may count it.
    /// The next `enter` on the same object waits for the deletion.
    pub async fn enter(&self) -> Result<(), Error> {
        self.enter_in(Time::default()).await.map(drop)
    }

    /// Enters as [`enter`](Self::enter) does, in no more than `timeout` in all. Returns false if the round did not
    /// open; then no node is left. The last eighth of the timeout, at most one second, is reserved for deleting the
    /// node. A zero timeout returns false without a request.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if there was no connection in time: nothing is known of the round, and no node is left.
    /// [`ErrorKind::OutcomeUnknown`] if it could not be determined in time whether the round opened, or whether the
    /// node of an earlier call is gone: the member is outside, and its node is deleted in the background, at the latest
    /// with the session. Otherwise as [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// As [`enter`](Self::enter).
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.enter_in(Time::of(timeout)).await
    }

    /// Waits until all members of the round have left. Whatever it returns, except [`Error::Busy`], the member is
    /// outside afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if the session ended meanwhile, or while the member was inside;
    /// [`Error::NodeDeleted`] if another client deleted its node. Otherwise as [`enter`](Self::enter), with
    /// [`Error::NotInside`] instead of [`Error::AlreadyInside`].
    ///
    /// # Cancel safety
    /// Once polled, the member leaves even if the future is dropped: its node is deleted in the background, and the
    /// others do not wait for it.
    pub async fn leave(&self) -> Result<(), Error> {
        self.leave_in(Time::default()).await.map(drop)
    }

    /// Leaves as [`leave`](Self::leave) does, in no more than `timeout` in all. Returns false if other members were
    /// still inside when the time was up; this member's node is gone. The wait ends before the deadline, by an eighth
    /// of the timeout, at most one second.
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if it could not be confirmed in time that this member's node is gone: it is
    /// deleted in the background, at the latest with the session. Otherwise as [`leave`](Self::leave).
    ///
    /// # Cancel safety
    /// As [`leave`](Self::leave).
    pub async fn leave_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        self.leave_in(Time::of(timeout)).await
    }

    /// Returns the path of the barrier.
    pub fn path(&self) -> &str {
        &self.znodes.path
    }

    /// Returns the number of members that open a round.
    #[doc(alias = "memberQty")]
    pub fn members(&self) -> usize {
        self.znodes.members
    }

    async fn enter_in(&self, time: Time) -> Result<bool, Error> {
        // A caller that loops over calls that fail at once must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        let mut call = Call::begin(self)?;
        let leftover = match &mut call.back {
            Slot::Outside(None) => None,
            // A task that ended with its runtime cannot report a leftover.
            Slot::Outside(Some(settling)) => match time.limit(settling).await {
                Some(settled) => settled.ok().flatten(),
                None => return Err(Error::left_behind(&self.znodes.path)),
            },
            _ => return Err(Error::AlreadyInside { path: Arc::clone(&self.znodes.path) }),
        };
        if time.is_over() {
            let answer = if leftover.is_none() { Ok(false) } else { Err(Error::left_behind(&self.znodes.path)) };
            // The next call must learn of the leftover.
            let (settled, settling) = oneshot::channel();
            let _ = settled.send(leftover);
            call.back = Slot::Outside(Some(settling));
            return answer;
        }
        let (reply, answer) = oneshot::channel();
        let (command, command_receiver) = oneshot::channel();
        let (settled, settling) = oneshot::channel();
        let znodes = Arc::clone(&self.znodes);
        self.znodes.core.runtime.spawn(member::run(znodes, leftover, time.patience, reply, command_receiver, settled));
        call.back = Slot::Outside(Some(settling));
        let entered = self.answer("enter", time, answer).await?;
        if entered && let Slot::Outside(Some(settling)) = std::mem::replace(&mut call.back, Slot::Outside(None)) {
            call.back = Slot::Inside(Inside { command, settling });
        }
        Ok(entered)
    }

    async fn leave_in(&self, time: Time) -> Result<bool, Error> {
        // A caller that loops over calls that fail at once must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        let mut call = Call::begin(self)?;
        let back = std::mem::replace(&mut call.back, Slot::Outside(None));
        let Slot::Inside(Inside { command, settling }) = back else {
            call.back = back;
            return Err(Error::NotInside { path: Arc::clone(&self.znodes.path) });
        };
        call.back = Slot::Outside(Some(settling));
        let (reply, answer) = oneshot::channel();
        // The task may have ended with its runtime; then there is no answer either.
        let _ = command.send(LeaveCommand { patience: time.patience, reply });
        self.answer("leave", time, answer).await
    }

    /// Waits for the answer of the member's task.
    async fn answer(
        &self,
        doing: &str,
        time: Time,
        answer: oneshot::Receiver<Result<bool, Error>>,
    ) -> Result<bool, Error> {
        let path = &self.znodes.path;
        match time.limit(answer).await {
            Some(Ok(answer)) => {
                tracing::debug!(
                    event = "call_answered",
                    path = &**path,
                    doing,
                    detail = ?answer,
                    "the call was answered"
                );
                answer
            }
            Some(Err(_)) => Err(Error::Closed { path: Arc::clone(path) }),
            None => {
                let why = "no answer in time; the node, if there is one, is deleted in the background";
                Err(Error::client(path, client::Error::at(ErrorKind::OutcomeUnknown, doing, path, why)))
            }
        }
    }
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoubleBarrier")
            .field("path", &self.znodes.path)
            .field("members", &self.znodes.members)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
