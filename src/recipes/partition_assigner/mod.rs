//! Divides named partitions among the live members of a cluster, so that each has one owner at a time.
//!
//! Services that shard their work (consumers of 256 streams, jobs by customer, ranges of a table) often write this by
//! hand: each process lists the members and computes which partitions are its own. For a moment two processes compute
//! from different lists, and both work on the same partition. Or all of them stop for each change, and begin again.
//! Here an elected leader assigns the partitions, and a member takes one only after the one before has handed it over.
//! Partitions that do not have to move are worked on all the time.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let member = PartitionAssigner::builder(&client, "/my-service/shards")
//!     .partitions(0..256)
//!     .id("worker-3")
//!     .join()
//!     .await?;
//!
//! // Called for each partition that this member gets.
//! let work = |partition: Owned| async move {
//!     loop {
//!         let item = tokio::select! {
//!             biased;
//!             // Another member is to get the partition.
//!             _ = partition.revoked() => return,
//!             item = next_item(partition.id()) => item,
//!         };
//!         handle(item).await;
//!     }
//! };
//! let stop = async {
//!     let _ = tokio::signal::ctrl_c().await;
//!     // Hands all partitions over. Then `run` returns.
//!     member.leave().await;
//! };
//! let (ran, ()) = tokio::join!(member.run(work), stop);
//! ran?;
//! # Ok(())
//! # }
//! # async fn next_item(_: &str) {}
//! # async fn handle(_: ()) {}
//! ```
//!
//! Here a revocation ends only the wait for the next item, so an item that is under way is finished. Code that starts
//! and ends its work itself follows [`changes`](PartitionAssigner::changes) in place of `run`.
//!
//! # What happens
//!
//! With 12 partitions and [`Strategy::Sticky`], the default:
//!
//! | step | leader | a | b | c | partitions that move |
//! |---|---|---|---|---|---|
//! | a joins | a | 12 | | | |
//! | b joins | a | 6 | 6 | | 6 from a to b |
//! | c joins | a | 4 | 4 | 4 | 2 from a and 2 from b to c |
//! | b restarts within the [delay](#rolling-restarts) | a | 4 | 4 | 4 | none; its 4 wait for it |
//! | the process of a is killed | b | | 6 | 6 | the 4 of a, once its session is over |
//! | an operator drains c | b | | 12 | 0 | 6 from c to b |
//! | c is no longer drained | b | | 6 | 6 | 6 from b to c |
//! | an operator pins a partition of b to c | b | | 6 | 6 | this one to c, another one to b |
//! | b leaves | c | | | 12 | the 6 of b |
//!
//! # Nodes
//!
//! ```text
//! <base>
//! ├── leader                              a LeaderLatch
//! ├── epoch                               checked by every write of a leader (1)
//! ├── config                              {"pins":{"7":"worker-3"},"drained":["worker-1"],"rebalances":2} (2)
//! ├── members
//! │   ├── worker-1~93a1c5e07f2b6d48       {"weight":1}, ephemeral (3)
//! │   └── worker-3~0b7d26f1c4e9853a       {"weight":2,"capacity":40,"labels":{"rack":"b"}}
//! ├── assignments
//! │   ├── worker-1                        {"member":"93a1…","assigned":["0"],"held":["0"],"claims":1} (4)
//! │   └── worker-3                        {"member":"0b7d…","assigned":["7"],"held":["1","7"],"claims":5}
//! └── owned
//!     ├── 0~93a1c5e07f2b6d48.1            empty, ephemeral (5)
//!     ├── 1~0b7d26f1c4e9853a.4
//!     └── 7~0b7d26f1c4e9853a.5
//! ```
//!
//! 1. Written at each take-over.
//! 2. What [operators](#operators) have set. Empty until then.
//! 3. A member is present. Its registration, the 16 digits behind the `~`, is drawn at random each time the member
//!    registers. The data are its weight, its capacity and its labels.
//! 4. The record of a member. The leader writes what it has `assigned`, the member what it has `held`; each writes at
//!    the version that it has read. Here worker-3 has to hand over partition 1.
//! 5. A partition that a member holds: its name, the registration of the member, and the member's count of its claims.
//!    The transaction that writes the record creates or deletes this node, so the record and the nodes agree.
//!
//! A program in any language can be a member. It draws a registration and creates its node in `members`, then watches
//! its record, and ignores it unless `member` is its registration. To take a partition that is `assigned` and not
//! `held`, one transaction checks that the member's node exists, writes the record at its version, with the partition
//! in `held` and `claims` raised by one, and creates the node in `owned`. To hand over one that is `held` and not
//! `assigned`, one transaction removes it from `held` and deletes the node. Both nodes must be ephemeral and of one
//! session. To leave, it sets `leaving`, hands over what it holds, and deletes its record and its node. A registration
//! gets one record: a member whose record is gone needs a new one. Fields of its own in the record are lost.
//!
//! The recipe refuses the path of a `SetPartitioner` of kazoo ([`Error::ForeignPath`]). The members of that one go by
//! other rules, so a partition could have two owners.
//!
//! # When partitions move
//!
//! The leader waits until members stop joining and leaving: by default until no member has done so for 200 ms, at most
//! 500 ms ([`debounce`](PartitionAssignerBuilder::debounce)). Then it decides. What operators change is applied at
//! once, and a new leader decides at once. Only in a new cluster does the first leader wait as well, so that the first
//! member does not get everything. What absent members had, a new leader first reserves for them for the quiet time, by
//! default 200 ms: after an outage that ends all sessions, the members come back one after the other.
//!
//! [`Strategy::Sticky`] moves only what has to move; see [`strategy`]. A partition that moves goes through these steps:
//!
//! 1. The leader removes it from the record of its owner. The owner notices, and [`Owned::revoked`] resolves.
//! 2. The work returns. If it does not, it is dropped when the [grace period](PartitionAssignerBuilder::grace_period)
//!    of this member is over, by default after 5 s.
//! 3. When no work is left, the member hands over. The leader adds the partition to the record of the new owner, which
//!    takes it.
//!
//! Each partition takes these steps by itself, so one whose work ends slowly delays no other. A member that hands over
//! nothing for ten seconds is reported ([`Event::Unreleased`]). A member that [leaves](PartitionAssigner::leave)
//! says so in its record, and hands over each partition by itself. What a member had that failed is free when the
//! servers have ended its session, and the debounce follows.
//!
//! While there is no leader, and while the leader is not connected, the members keep what they hold.
//!
//! # Never two owners
//!
//! A partition has at most one owner at each moment. Three things ensure that:
//!
//! * **Records.** A leader assigns a partition only if no record of any member has it as `assigned` or `held`. A record
//!   is written only at the version that was read, and a leader's write is refused if it no longer leads. So neither an
//!   old leader nor two writes at the same time can assign it twice.
//! * **Nodes in `owned`.** They are ephemeral, so they exist as long as the session that holds the partition. A leader
//!   reads them before it assigns what a member had that is gone or has come back, and what no record lists. So if
//!   the record of a member was deleted by hand, its partitions wait ([`Event::HeldElsewhere`]).
//! * **The lease.** A hold ends by the clock before the servers can end the session. [`Owned::is_held`] compares the
//!   clock at each call, and [`run`](PartitionAssigner::run) and [`Owned::run`] check it each time before they poll the
//!   work.
//!
//! It cannot cover the following; a [fence](#fences-and-tokens) covers them:
//!
//! * An operator deletes the node of a member *and* its nodes in `owned`: the others get the partitions before the
//!   member has noticed.
//! * A record is edited by hand so that it no longer lists what its member holds.
//! * An administrator ends the session of a member, or the ensemble loses its data: the member works on until the
//!   notification reaches it.
//! * A virtual machine is paused or restored from a snapshot.
//! * Code between two awaits, such as a long computation: it cannot be dropped. When a partition moves, the member
//!   waits for the end of such code in `run`. When the lease ends, nothing waits.
//! * Tasks that the work has spawned. They keep running, and no member waits for them.
//!
//! # Fences and tokens
//!
//! [`Owned::fence`] makes a [`Transaction`](crate::Transaction) depend on the hold: the ensemble refuses it once the
//! partition is handed over or its owner's session is over. For another store, send [`Owned::fencing_token`] with each
//! access, and let the store refuse a token smaller than the largest that it has seen *for this partition*. The token
//! is the transaction that took the partition. Partitions that were taken together have the same token.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. The client's [error policy](crate::ErrorPolicy) decides what a
//! suspended connection means; [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the default. In every case in
//! which a hold ends, [`run`](PartitionAssigner::run) drops its work.
//!
//! | event | what happens |
//! |---|---|
#![doc = "| [`Suspended`](crate::ConnectionState::Suspended), `Standard` | All holds end. No other member gets the \
    partitions while the session lives. |"]
#![doc = "| [`Suspended`](crate::ConnectionState::Suspended), `Session` | The holds last until the lease is over, \
    never past T. No other member gets the partitions while the session lives. |"]
//! | Reconnected, same session | The member holds the same partitions again, as new holds with the same tokens. |
#![doc = "| [`Lost`](crate::ConnectionState::Lost) | All holds have ended. The member registers again with the next \
    session. It gets its partitions again if it is back before the others got them: within the debounce, or the \
    [delay](PartitionAssignerBuilder::rebalance_delay). |"]
#![doc = "| The member's node is deleted by hand | All holds end, and the member deletes its nodes in `owned` and \
    registers again. No other member gets a partition before that. |"]
#![doc = "| A record is deleted or spoiled by hand | The member is asked to release everything, within the grace \
    period. The leader writes a new record, and the partitions are assigned again as they are released. |"]
#![doc = "| A node in `owned` is deleted by hand | The member keeps the partition, and no other gets it. Fenced \
    transactions are refused, until the partition is [released](Owned::release) and taken again. |"]
#![doc = "| The reply to a take or a hand-over is lost | The member reads its record: `claims` shows whether the \
    transaction was carried out. |"]
#![doc = "| The reply to a leader's write is lost | The leader takes over again and reads everything before it writes. \
    From then on, servers refuse its earlier requests. |"]
#![doc = "| The process is stopped for longer than T | As soon as it resumes, nothing is held, and fenced transactions \
    and a leader's writes are refused. The others have got its partitions. |"]
#![doc = "| The leader dies in the middle | The next one finds in the records what is assigned, held and to be handed \
    over, and continues. It rewrites nothing that is right. |"]
#![doc = "| The set of partitions, or what operators have set, cannot be read | Everything stays as it is, and an \
    event says why. |"]
#![doc = "| The work returns, fails or panics | [`Event::WorkEnded`]. The member releases the partition, takes it \
    again after a pause, and starts the work again. |"]
//!
//! # Rolling restarts
//!
//! By default the others get what a member had as soon as its session is over. In a rolling restart each partition
//! would move several times. To let nothing move:
//!
//! * Give each member an [id](PartitionAssignerBuilder::id) that stays the same, such as the name of its host.
//! * Set a [`rebalance_delay`](PartitionAssignerBuilder::rebalance_delay) that is longer than a restart takes.
//! * End the old process with [`leave_for_restart`](PartitionAssigner::leave_for_restart), which hands over and keeps
//!   the partitions reserved.
//!
//! No member works on the reserved partitions meanwhile. The delay covers a crash as well: then it begins when the
//! session is over, so the partitions rest for T and the delay if the process does not come back. What the member was
//! to hand over is not reserved. [`rebalance`] ends all delays. A new leader continues it.
//!
//! # Operators
//!
//! These functions need a client and the base path, and no membership. The command `zkr partitions` has them all.
//!
//! * [`state`] shows who holds what, who is to get it, and what is reserved or waits.
//! * [`pin`] gives a partition to one member while that is present. What the strategy says does not count then.
//! * [`drain`] takes all partitions from a member, each when its work has ended, until [`undrain`].
//! * [`rebalance`] moves what is reserved for absent members at once.
//!
//! Operators can change the set of partitions, too, if it is in a node ([`Partitions::node`]). A partition that is
//! removed there is handed over, and no member gets it.
//!
//! # Who leads
//!
//! Any [candidate](PartitionAssignerBuilder::candidate) may lead, by default every member. The leader's
//! [partitions](PartitionAssignerBuilder::partitions), strategy, debounce and delay apply, so give all candidates the
//! same ones. Each write of a leader is a transaction that checks its node in the latch, the epoch, and the version of
//! each record in it. So a leader that was stopped, cut off or superseded changes nothing.
//!
//! # Scale
//!
//! There is a record for each member, and an empty node for each partition that is held. The leader has a watch on the
//! list of members and one on each record; a member watches its own two nodes. Nothing polls. Taking or handing over up
//! to 1 000 partitions is one request.
//!
//! The names of all partitions, with 40 bytes more for each, must fit into one answer of a server of the size of
//! [`max_request_bytes`](crate::ClientBuilder::max_request_bytes): some 20 000 short names. A member's record contains
//! each of its names twice, and must be smaller than that. Names longer than some 30 bytes can exceed this when one
//! member has nearly all partitions. With thousands of members, let a few dozen be candidates.
//!
//! # Shutting down
//!
//! [`leave`](PartitionAssigner::leave), or [`leave_for_restart`](PartitionAssigner::leave_for_restart), as in the first
//! example: work has the grace period to end, and the partitions are handed over. If a process exits without it, the
//! others get its partitions when its session is over: after 40 s, with the default [session
//! timeout](crate::ClientBuilder::session_timeout).
//!
//! * Dropping the member ends all holds at once, and it leaves in the background.
//! * Dropping the future of `run` drops the work, and the member keeps its partitions.
//! * Closing the client ends all holds at once, without a grace period.

mod builder;
mod changes;
mod error;
mod events;
mod leader;
mod member;
mod name;
mod operate;
mod owned;
mod partitions;
mod run;
pub mod strategy;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

pub use self::builder::PartitionAssignerBuilder;
use self::changes::Interest;
pub use self::changes::{Change, Changes};
pub use self::error::Error;
pub use self::events::{Event, Events};
use self::member::registration::Registrar;
use self::member::{Leave, Registration};
pub use self::operate::{AssignerState, MemberInfo, PartitionInfo, UnreadableNode};
pub use self::operate::{drain, pin, rebalance, state, undrain, unpin};
pub use self::owned::{Owned, PartitionLost};
pub use self::partitions::Partitions;
pub use self::strategy::Strategy;
use crate::client::Client;
use crate::client::task::Task;
use crate::leader_latch::LeaderLatch;
pub use crate::util::work::{BoxError, WorkResult};

/// A member of an assigner; see the [module](self).
///
/// The member survives the loss of its session: it registers again, and takes part in the election again. Dropping it
/// ends all holds at once and leaves in the background; [`leave`](Self::leave) gives work the time to end. If the
/// runtime is gone by then, the nodes stay until the session ends.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::partition_assigner::PartitionAssigner;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("localhost:2181").connect().await?;
/// let member = PartitionAssigner::builder(&client, "/my-service/shards")
///     .partitions(["eu", "us", "asia"])
///     .join()
///     .await?;
/// member.settled().await?;
/// for partition in member.assigned() {
///     println!("{} with token {}", partition.id(), partition.fencing_token());
/// }
/// member.leave().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "the member leaves when it is dropped"]
pub struct PartitionAssigner {
    id: String,
    registrar: Registrar,
    /// `None` if this member never leads.
    latch: Option<Arc<LeaderLatch>>,
    interest: Interest,
    events: events::Publisher,
    registration: watch::Sender<Registration>,
    stop: watch::Sender<Option<Leave>>,
    is_running: AtomicBool,
    task: Task<()>,
}

impl PartitionAssigner {
    /// Returns a builder for a member of the assigner at `base`.
    pub fn builder(client: &Client, base: impl Into<String>) -> PartitionAssignerBuilder {
        PartitionAssignerBuilder::new(client, base.into())
    }

    /// Returns the id of this member.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the base path of the assigner.
    pub fn path(&self) -> &str {
        &self.registrar.paths.base
    }

    /// Returns the partitions that this member holds at this instant, by name.
    pub fn assigned(&self) -> Vec<Owned> {
        self.interest.0.holds().values().filter(|partition| partition.is_held()).cloned().collect()
    }

    /// Returns the partitions that this member holds, then every change.
    ///
    /// The member waits for no reader of this stream: a partition that is revoked and not released counts as released
    /// when its time is over.
    pub fn changes(&self) -> Changes {
        self.interest.0.stream()
    }

    /// Works on every partition that this member holds, until the member has left.
    ///
    /// For each partition, `work` starts on a task of its own. When another member is to get the partition,
    /// [`Owned::revoked`] resolves; the work may then finish what is under way, and return. It is dropped at the await
    /// it is in when the [grace period](PartitionAssignerBuilder::grace_period) is over, and at once when the partition
    /// is lost. Only after that is the partition handed over. Tasks that the work spawned keep running; give them the
    /// [`fence`](Owned::fence).
    ///
    /// Work that ends by itself, fails or panics is reported ([`Event::WorkEnded`]) and started again after a pause of
    /// 100 ms, which grows to 30 s if it happens often. Each start is a new hold with a greater fencing token.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if another call of this method runs.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future drops all work. The member then holds its partitions again, and nothing works on them: let
    /// it leave, or call this method again.
    pub async fn run<F, Fut>(&self, work: F) -> Result<(), Error>
    where
        F: Fn(Owned) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: WorkResult,
    {
        let Some(_only) = Running::begin(&self.is_running) else {
            return Err(Error::invalid(self.path(), "a second run; only one may work on the partitions".into()));
        };
        run::run(&self.registrar.core, self.interest.0.subscribe(), self.events.clone(), work).await;
        Ok(())
    }

    /// Waits until a leader has told this member what it should hold, and it holds exactly that. Returns at once if
    /// that is so now. A new member is settled when others have handed over what it is to get.
    ///
    /// # Errors
    /// [`Error::Closed`] if the member has left, or the client was closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn settled(&self) -> Result<(), Error> {
        let mut snapshots = self.interest.0.subscribe();
        match snapshots.wait_for(|snapshot| snapshot.is_settled || snapshot.is_last).await {
            Ok(snapshot) if !snapshot.is_last => Ok(()),
            _ => Err(Error::closed(self.path())),
        }
    }

    /// Returns whether this member leads at this instant. Compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.latch.as_ref().is_some_and(|latch| latch.has_leadership())
    }

    /// Returns the events from now on, as this member sees them.
    pub fn events(&self) -> Events {
        self.events.subscribe(self.task.clone())
    }

    /// Leaves, and hands all partitions over.
    ///
    /// All partitions are revoked. When they are released, or the
    /// [grace period](PartitionAssignerBuilder::grace_period) is over, the member deletes its nodes and leaves the
    /// election. Without [`run`](Self::run), release them yourself. This returns when the server has done that or the
    /// session is over. Leaving twice is allowed.
    ///
    /// # Cancel safety
    /// Once polled, the member leaves in the background even if the future is dropped.
    pub async fn leave(&self) {
        self.stop_with(Leave::HandOver).await;
    }

    /// Leaves for a restart: like [`leave`](Self::leave), but the partitions stay reserved for a member with the same
    /// [id](PartitionAssignerBuilder::id), for the [delay](PartitionAssignerBuilder::rebalance_delay). By default
    /// there is no delay, and nothing is reserved.
    ///
    /// # Cancel safety
    /// Once polled, the member leaves in the background even if the future is dropped.
    pub async fn leave_for_restart(&self) {
        self.stop_with(Leave::ComeBack).await;
    }

    async fn stop_with(&self, leave: Leave) {
        self.stop.send_if_modified(|stop| stop.replace(leave).is_none());
        // A task that ended with its runtime has no outcome: there is nothing to wait for.
        let _ = self.task.outcome().await;
    }

    /// Waits for the first registration.
    async fn registered(&self) -> Result<(), Error> {
        let mut registration = self.registration.subscribe();
        loop {
            let Registration { is_registered, error } = registration.borrow_and_update().clone();
            if let Some(error) = error {
                return Err(error);
            }
            if is_registered {
                return Ok(());
            }
            tokio::select! {
                biased;
                _ = registration.changed() => {}
                _ = self.task.outcome() => return Err(Error::closed(self.path())),
            }
        }
    }
}

impl Drop for PartitionAssigner {
    fn drop(&mut self) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            stop.get_or_insert(Leave::HandOver);
            is_first
        });
    }
}

impl fmt::Debug for PartitionAssigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionAssigner")
            .field("path", &self.path())
            .field("id", &self.id)
            .field("held", &self.assigned().len())
            .field("leads", &self.is_leader())
            .finish_non_exhaustive()
    }
}

/// The one call that works on the partitions of a member.
struct Running<'a>(&'a AtomicBool);

impl<'a> Running<'a> {
    fn begin(is_running: &'a AtomicBool) -> Option<Self> {
        (!is_running.swap(true, Ordering::SeqCst)).then_some(Running(is_running))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
