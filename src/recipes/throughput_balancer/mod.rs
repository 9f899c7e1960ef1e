//! Divides a cluster-wide maximum throughput among the live members of the cluster.
//!
//! Services often do this as follows: each server keeps its throughput in a shared store, polls that of all others and
//! computes the same division, so the load on the store grows with every server. Here an elected leader computes the
//! shares, and each member watches only its own znode. Nothing polls.
//!
//! ```no_run
//! use futures::StreamExt;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::throughput_balancer::{
//!     ThroughputBalancer, set_max_throughput,
//! };
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let base = "/my-service/throughput";
//! // Once, by the operator of the cluster.
//! set_max_throughput(&client, base, 1_000).await?;
//!
//! let member = ThroughputBalancer::builder(&client, base).join().await?;
//! let mut shares = member.shares();
//! while let Some(share) = shares.next().await {
//!     println!("this member may do {} a second", share.throughput());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What happens
//!
//! With the default rule, [`Allocation::Equal`], and the members c1 to c5:
//!
//! | step | leader | shares |
//! |---|---|---|
//! | the maximum is 1000, c1 joins | c1 | 1000 |
//! | c2 joins | c1 | 500 500 |
//! | c3 joins | c1 | 333 333 333 |
//! | c4 joins | c1 | 250 250 250 250 |
//! | c1 leaves | c2 | 333 333 333 (c2 c3 c4) |
//! | c4 leaves | c2 | 500 500 (c2 c3) |
//! | the maximum is lowered to 500 | c2 | 250 250 |
//! | c5 joins | c2 | 166 166 166 (c2 c3 c5) |
//!
//! # Nodes
//!
//! ```text
//! <base>
//! ├── global-config
//! │   └── max-throughput          "1000": the maximum in decimal
//! ├── leader                      a LeaderLatch
//! ├── client
//! │   ├── client-0000000000       {"throughput":500,…}, ephemeral (1)
//! │   └── client-0000000001       {"throughput":500,…}
//! ├── ack
//! │   ├── client-0000000000~17.3  ephemeral (2)
//! │   └── client-0000000001~0.0
//! └── epoch                       checked by every write of a leader (3)
//! ```
//!
//! 1. The record of a member. The leader writes it, the member watches it.
//! 2. The acknowledgement of a member: it follows the third decision of leader 17.
//! 3. Written at each take-over and when the maximum is created.
//!
//! A member is a pair of nodes that are created and deleted together. A program in any language can register as
//! follows. It writes the node `client` and takes the returned version minus one as its number (ten digits). In one
//! transaction it creates its record, at least `{"throughput":0}`, and its acknowledgement `~0.0`, both ephemeral. It
//! watches its record and applies the `throughput` there. If that is below the `ceiling`, it then moves its
//! acknowledgement to `~<epoch>.<sequence>` of the record, again in one transaction.
//!
//! The balancer does not repair nodes that were changed by hand. It ignores a node that does not belong to a pair with
//! a readable record, and [`Event::MemberIgnored`] names it. If a session owns the node, no other member gets what that
//! session may be applying until the session is over. Restart the member. If you delete the rest of its pair, *both*
//! nodes were deleted by hand: see the [exceptions](#never-more-than-the-maximum).
//!
//! # When a share changes
//!
//! The leader waits until members stop joining and leaving: by default until no member has done so for 200 ms, at most
//! 500 ms. Then it decides. A new leader decides at once. After a decision, each raise is written as soon as there is
//! credit for it, so a raise waits only for the members whose share it needs. A member that has not acknowledged for
//! half a second counts with what it holds: at the next decision, after the debounce, the others divide the rest.
//!
//! # Never more than the maximum
//!
//! What all members may be applying never adds up to more than the maximum in force. The leader lowers some shares
//! first. It raises others only by what has been *acknowledged* as given up, or by what members that are gone had. A
//! member is gone when both of its nodes are deleted. The end of its session deletes both together, and by then its
//! [`Share`] is zero by the clock, even if its process is stopped. A member that does not acknowledge blocks what it
//! holds and nothing else. When the maximum itself is lowered, the members may apply more until they have acknowledged:
//! [`Event::Exceeded`] reports by how much, and [`Event::Settled`] reports that it is over.
//!
//! This holds with [`OnSuspended::Zero`], the default. It cannot cover the following:
//!
//! * An operator deletes *both* nodes of a member by hand, or the whole directory `client`, after which names are
//!   reused.
//! * A record is edited to a smaller share before a leader takes over.
//! * A record is deleted and created again, or an acknowledgement is created, under the name of a live member.
//! * The maximum is deleted, then created without [`set_max_throughput`]: one raise within the old maximum may follow.
//! * The maximum is lowered while there is no candidate.
//! * An administrator ends the session of a member: the member uses its share until the notification reaches it.
//! * A virtual machine is paused or restored from a snapshot.
//! * A process keeps the number and does not call [`Share::throughput`] again.
//!
//! A share has no fencing token.
//!
//! A lowered share counts as applied when it is published, because [`Share::throughput`] compares with the newest share
//! at each call. If there are [listeners](ThroughputBalancer::on_share), it counts as applied when each of them has
//! returned. A [limiter](ThroughputBalancerBuilder::limiter) follows before any listener is called.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. The client's [error policy](crate::ErrorPolicy) decides what a
//! suspended connection means; [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the default.
//! In every case, an attached limiter grants what the share is worth at each moment.
//!
//! | event | what happens |
//! |---|---|
#![doc = "| [`Suspended`](crate::ConnectionState::Suspended), `Standard` | The share is what [`OnSuspended`] says, \
    zero by default. No other member gets it while the session lives. |"]
#![doc = "| [`Suspended`](crate::ConnectionState::Suspended), `Session` | The share lasts until the lease is over, \
    never past T. No other member gets it while the session lives. |"]
//! | Reconnected, same session | The member looks up its nodes and has its share again, under the same name. |
#![doc = "| [`Lost`](crate::ConnectionState::Lost) | The share is what [`OnSuspended`] says. The member registers \
    under a new name with the next session. The leader divides the old share among the others. |"]
#![doc = "| A member's node is deleted by hand | The member drops to what [`OnSuspended`] says and registers again. \
    No other member gets what it held until it has stopped applying it, or its session is over. |"]
//! | One node of a pair is left | The leader ignores it, and [`Event::MemberIgnored`] names it. |
//! | A record contains what no leader wrote | The member registers again. |
#![doc = "| The reply to a registration is lost | The member sends the same create again under the same name; one \
    read finds its node. |"]
#![doc = "| The reply to a leader's write is lost | The leader takes over again and reads everything before it \
    writes. From then on, servers refuse its earlier requests. |"]
//! | A request with many records is too large for the servers | The leader writes fewer at once. |
#![doc = "| The process is stopped for longer than T | As soon as it resumes, the share is what [`OnSuspended`] \
    says, and so is the rate of an attached limiter. A leader's write is refused. |"]
//!
//! # Units
//!
//! A throughput is a whole number. The unit (requests, bytes) and the period are your choice, the same for the maximum
//! and all members. A limiter reads it as permits a second. A maximum of 0 stops all members.
//!
//! # Shutting down
//!
//! Stop taking work, then [`leave`](ThroughputBalancer::leave). The share and the limiter drop to zero at once, and the
//! others get the share as soon as the debounce is over. A task that still waits for a permit of the limiter keeps
//! waiting until the limiter has another rate; `ShareLimiter::close` ends such waits with an error. If a process drops
//! the member and exits before its runtime has deleted the nodes, the others do not get the share until its session is
//! over: 40 s, with the default [session timeout](crate::ClientBuilder::session_timeout).
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::limiter::ShareLimiter;
//! use zookeeper_recipes::throughput_balancer::ThroughputBalancer;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let limiter = ShareLimiter::new(0);
//! let member = ThroughputBalancer::builder(&client, "/my-service/throughput")
//!     .limiter(&limiter)
//!     .join()
//!     .await?;
//! let workers = (0..4).map(|_| {
//!     let limiter = limiter.clone();
//!     tokio::spawn(async move {
//!         while limiter.acquire(1).await.is_ok() {
//!             // ... one piece of work ...
//!         }
//!     })
//! });
//! let workers: Vec<_> = workers.collect();
//! tokio::signal::ctrl_c().await?;
//! limiter.close();
//! for worker in workers {
//!     worker.await?;
//! }
//! member.leave().await;
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who leads
//!
//! Any [candidate](ThroughputBalancerBuilder::candidate) may lead, by default every member. Each write of a leader is a
//! transaction that checks three things: the leader's node in the latch, the epoch, and the version of the maximum that
//! the decision is based on. So a leader that was stopped, cut off or superseded changes nothing. A new leader finds
//! everything it needs in the nodes. It does not rewrite what is right, even if the old leader died between two writes.

pub mod allocation;
mod builder;
mod error;
mod events;
mod leader;
mod listener;
mod maximum;
mod member;
mod members;
mod record;
mod share;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use self::allocation::Allocation;
pub use self::builder::ThroughputBalancerBuilder;
pub use self::error::Error;
pub use self::events::{Event, Events};
pub use self::listener::{BoxShareListener, ShareListener};
pub use self::maximum::{max_throughput, set_max_throughput};
use self::member::Registration;
use self::member::registration::Registrar;
pub use self::members::{MemberInfo, members};
pub use self::record::MAX_THROUGHPUT;
pub use self::share::{OnSuspended, Share, Shares};
use crate::client::listener::spawn_listener;
use crate::client::task::Task;
use crate::client::{Client, ListenerHandle};
use crate::leader_latch::LeaderLatch;
use crate::util::state_receiver::StateReceiver;

/// The options of a leader.
#[derive(Debug, Clone)]
struct Options {
    allocation: Allocation,
    quiet: Duration,
    at_most: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allocation: Allocation::default(),
            quiet: Duration::from_millis(200),
            at_most: Duration::from_millis(500),
        }
    }
}

/// A member of a balancer; see the [module](self).
///
/// The member survives the loss of its session: it registers again under another name and takes part in the election
/// again. Dropping it leaves in the background; [`leave`](Self::leave) waits until it has left. If the runtime is gone
/// by then, the nodes stay until the session ends.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::throughput_balancer::ThroughputBalancer;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("localhost:2181").connect().await?;
/// let member = ThroughputBalancer::builder(&client, "/my-service/throughput")
///     .join()
///     .await?;
/// // Waits for the first decision of a leader.
/// let mut share = member.share();
/// share.wait_for(|share| share.is_current() && share.epoch() > 0).await?;
/// println!("{} a second", member.throughput());
/// member.leave().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "the member leaves when it is dropped"]
pub struct ThroughputBalancer {
    client: Client,
    registrar: Registrar,
    /// `None` if this member never leads.
    latch: Option<Arc<LeaderLatch>>,
    channel: share::Interest,
    events: events::Publisher,
    registration: watch::Sender<Registration>,
    stop: watch::Sender<bool>,
    task: Task<()>,
}

impl ThroughputBalancer {
    /// Returns a builder for a member of the balancer at `base`.
    pub fn builder(client: &Client, base: impl Into<String>) -> ThroughputBalancerBuilder {
        ThroughputBalancerBuilder::new(client, base.into())
    }

    /// Returns the name of this member's node (`client-0000000000`) while it has one. After the loss of a session the
    /// member gets another name.
    pub fn member_id(&self) -> Option<String> {
        self.registration.borrow().name.clone()
    }

    /// Returns the base path of the balancer.
    pub fn path(&self) -> &str {
        &self.registrar.paths.base
    }

    /// Returns the share: read it at each use, or wait for its changes.
    ///
    /// A lowered share is acknowledged as soon as it is visible here. So call [`Share::throughput`] at each use and do
    /// not keep the number.
    pub fn share(&self) -> StateReceiver<Share> {
        StateReceiver::new(self.channel.subscribe(), Share::is_last)
    }

    /// Returns what this member may apply at this instant: the [`Share::throughput`] of its share.
    pub fn throughput(&self) -> u64 {
        self.channel.latest().throughput()
    }

    /// Returns the current share, then every change.
    ///
    /// Acknowledgements do not wait for the reader. Call [`Share::throughput`] of the latest share at each use and do
    /// not keep the number. Code that applies a number for longer uses [`on_share`](Self::on_share).
    pub fn shares(&self) -> Shares {
        self.channel.stream()
    }

    /// Calls `listener` with the current share, then with every change, on a task of its own.
    ///
    /// It is also called if the number stays the same and only what backs it changes, for example the session. A
    /// lowered share is acknowledged when the call has returned; if a call hangs, the acknowledgement never comes. A
    /// listener that panics is reported and removed.
    ///
    /// ```no_run
    /// # fn example(
    /// #     member: &zookeeper_recipes::throughput_balancer::ThroughputBalancer,
    /// # ) {
    /// use zookeeper_recipes::throughput_balancer::Share;
    ///
    /// member.on_share(|share: Share| async move {
    ///     println!("now {} a second", share.throughput());
    /// });
    /// # }
    /// ```
    pub fn on_share(&self, listener: impl ShareListener) -> ListenerHandle {
        spawn_listener(self.client.core(), "share listener", self.channel.followed(), listener::Follower(listener))
    }

    /// Returns whether this member leads at this instant. Compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.latch.as_ref().is_some_and(|latch| latch.has_leadership())
    }

    /// Returns the events from now on, as this member sees them.
    ///
    /// If this member leads and the maximum is missing or invalid, [`Event::MaximumInvalid`] comes first.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     member: zookeeper_recipes::throughput_balancer::ThroughputBalancer,
    /// # ) {
    /// use futures::StreamExt;
    /// use zookeeper_recipes::throughput_balancer::Event;
    ///
    /// let mut events = member.events();
    /// while let Some(event) = events.next().await {
    ///     if let Event::Unacked { member, held } = &event {
    ///         eprintln!("{member} has not acknowledged and holds {held}");
    ///     }
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> Events {
        self.events.subscribe(self.task.clone())
    }

    /// Lists all members in the order in which they joined, as the ensemble knows them. Members without a readable
    /// record are left out.
    ///
    /// # Errors
    /// [`Error::Client`] if a request failed; [`Error::Closed`] if the client was closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn members(&self) -> Result<Vec<MemberInfo>, Error> {
        members::list(&self.client, &self.registrar.paths).await
    }

    /// Reads the maximum of the whole cluster, as [`max_throughput`] does.
    ///
    /// # Errors
    /// As [`max_throughput`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn max_throughput(&self) -> Result<Option<u64>, Error> {
        maximum::get(self.client.core(), &self.registrar.paths).await
    }

    /// Sets the maximum of the whole cluster, as [`set_max_throughput`] does.
    ///
    /// # Errors
    /// As [`set_max_throughput`].
    ///
    /// # Cancel safety
    /// Once polled, the write is carried out in the background, even if the future is dropped.
    pub async fn set_max_throughput(&self, maximum: u64) -> Result<(), Error> {
        maximum::set(self.client.core(), &self.registrar.paths, maximum).await
    }

    /// Leaves the balancer.
    ///
    /// The share drops to zero. Once the listeners have applied that, or after a session timeout, the member deletes
    /// its nodes and leaves the election. This returns when the server has done that or the session is over. Leaving
    /// twice is allowed.
    ///
    /// # Cancel safety
    /// Once polled, the member leaves in the background even if the future is dropped.
    pub async fn leave(&self) {
        self.channel.leave();
        self.stop.send_replace(true);
        // A task that ended with its runtime has no outcome: there is nothing to wait for.
        let _ = self.task.outcome().await;
    }

    /// Waits for the first registration.
    async fn registered(&self) -> Result<(), Error> {
        let mut registration = self.registration.subscribe();
        loop {
            let Registration { name, error } = registration.borrow_and_update().clone();
            if let Some(error) = error {
                return Err(error);
            }
            if name.is_some() {
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

impl Drop for ThroughputBalancer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for ThroughputBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThroughputBalancer")
            .field("path", &self.path())
            .field("member", &self.member_id())
            .field("share", &*self.channel.subscribe().borrow())
            .field("leads", &self.is_leader())
            .finish_non_exhaustive()
    }
}
