//! A cluster-wide maximum throughput, divided among the live members of a cluster by the one that leads.
//!
//! The way this is often done: every server keeps its throughput in a shared store, polls all the others', and each
//! computes the same for itself; the load on the store grows with every server. Here one elected leader computes, every
//! member watches a node of its own, and nothing polls.
//!
//! ```no_run
//! use futures::StreamExt;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! set_max_throughput(&client, "/my-service/throughput", 1_000).await?; // by whoever operates the cluster
//!
//! let member = ThroughputBalancer::builder(&client, "/my-service/throughput").join().await?;
//! let mut shares = member.shares();
//! while let Some(share) = shares.next().await {
//!     println!("{} may do {} a second", member.member_id().unwrap_or_default(), share.throughput());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What happens
//!
//! With the default, [`Allocation::Equal`], and the members c1 to c5:
//!
//! | step | who leads | shares |
//! |---|---|---|
//! | the maximum is 1000, c1 comes | c1 | 1000 |
//! | c2 comes | c1 | 500 500 |
//! | c3 comes | c1 | 333 333 333 |
//! | c4 comes | c1 | 250 250 250 250 |
//! | c1 goes | c2 | 333 333 333 (c2 c3 c4) |
//! | c4 goes | c2 | 500 500 (c2 c3) |
//! | the maximum is lowered to 500 | c2 | 250 250 |
//! | c5 comes | c2 | 166 166 166 (c2 c3 c5) |
//!
//! # Nodes
//!
//! ```text
//! <base>
//! ├── global-config
//! │   └── max-throughput          "1000": the maximum, decimal text
//! ├── leader                      a LeaderLatch
//! ├── client
//! │   ├── client-0000000000       {"throughput":500,…}: a member's record; ephemeral. The leader writes it, the member watches it
//! │   └── client-0000000001       {"throughput":500,…}
//! ├── ack
//! │   ├── client-0000000000~17.3  ephemeral: this member follows what leader 17 has decided third
//! │   └── client-0000000001~0.0
//! └── epoch                       written at each take-over, and when the maximum is created; every write of a leader checks it
//! ```
//!
//! A member is a pair of nodes, which come and go together. To register, a program in any language writes the node
//! `client`, takes the version from the answer, less one, as its number (ten digits), and creates its record, at least
//! `{"throughput":0}`, and its acknowledgement `~0.0` in one transaction, both ephemeral. It watches its record and applies
//! the `throughput` there. If that is below the `ceiling`, it then moves its acknowledgement to `~<epoch>.<sequence>` of
//! the record, again in one transaction.
//!
//! Nodes that were changed by hand are not repaired. Whatever is not a pair with a readable record is ignored, and
//! [`Event::MemberIgnored`] names it; if a session stands behind it, no other member gets what it may be applying until that
//! session is over. Restart the member; to delete what is left of its pair is to delete both nodes by hand, see below.
//!
//! # When a share changes
//!
//! Members that come and go are waited for, by default until none did for 200 ms, at most 500 ms; then the leader decides.
//! A new leader decides at once. After a decision each raise is written as soon as there is credit for it: it waits only
//! for those whose share it needs. A member that has not acknowledged for half a second is taken into account with what it
//! holds, and at the next decision, after the debounce, the others divide the rest.
//!
//! # Never more than the maximum
//!
//! With [`Transition::Safe`], the default, what members may be applying never adds up to more than the maximum in force.
//! Some are lowered first; others are raised only by what those have *acknowledged* to have given up, or what members that
//! are gone had. A member is gone when both of its nodes are, which the end of its session removes together, and by then
//! its [`Share`] says zero by the clock, also if its process stands still. A member that does not acknowledge blocks what
//! it holds, and nothing else. When the maximum itself is lowered, more may be applied until the members have acknowledged;
//! [`Event::Exceeded`] tells by how much, [`Event::Settled`] that it is over.
//!
//! This holds with the defaults: [`Transition::Safe`], [`OnSuspended::Zero`], and 0 as the
//! [initial](ThroughputBalancerBuilder::initial) throughput. What it cannot see: an operator who deletes *both* nodes of a
//! member by hand, or the whole directory `client`, after which names are given anew; a record that was edited to less
//! before a leader took over; a record that was deleted and created again, or an acknowledgement that was made, under the
//! name of a live member; a maximum that was deleted and created by other means than [`set_max_throughput`] (one raise may
//! come late); a maximum that is lowered while there is no candidate; an administrator who ends its session (until the
//! notification reaches it, it goes on with its share); a virtual machine that is paused or restored; a process that keeps
//! the number and does not ask [`Share::throughput`] again. A share has no fence.
//!
//! A lowered share counts as applied when it is published, as [`Share::throughput`] compares with the newest share each
//! time it is asked; where there are [listeners](ThroughputBalancer::on_share), when each has returned. A
#![cfg_attr(feature = "limiter", doc = "[limiter](ThroughputBalancerBuilder::limiter)")]
#![cfg_attr(not(feature = "limiter"), doc = "limiter (feature `limiter`)")]
//! follows before any of them is told.
//!
//! # Units
//!
//! A throughput is a whole number of whatever you count (requests, bytes) in whatever time you choose, the same for the
//! maximum and all members. A limiter reads it as permits a second. A maximum of 0 stops all members.
//!
//! # Shutting down
//!
//! Take no more work, then [`leave`](ThroughputBalancer::leave): share and limiter are at zero at once, and the others have
//! the share as soon as the debounce is over. A task that still waits for a permit of the limiter waits until it is given
//! another rate; `ShareLimiter::close` sends them away. A process that drops the member and ends before its runtime has
//! deleted the nodes keeps the share from the others until its session is over: a minute, with the default [session
//! timeout](crate::ClientBuilder::session_timeout).
//!
#![cfg_attr(feature = "limiter", doc = "```no_run")]
#![cfg_attr(not(feature = "limiter"), doc = "```ignore")]
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::limiter::ShareLimiter;
//! use zookeeper_recipes::throughput_balancer::ThroughputBalancer;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let limiter = ShareLimiter::new(0);
//! let member = ThroughputBalancer::builder(&client, "/my-service/throughput").limiter(&limiter).join().await?;
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
//! Any [candidate](ThroughputBalancerBuilder::candidate) may, by default every member. Each write of a leader is a
//! transaction that checks its node in the line of the latch, the epoch and the version of the maximum that it acts on: one
//! that was stopped, cut off or superseded changes nothing. A new leader finds everything it needs in the nodes and
//! rewrites nothing that is right, also when the old one died between two writes.

pub mod allocation;
mod builder;
mod error;
mod events;
mod leader;
mod maximum;
mod member;
mod members;
mod record;
mod share;
mod znodes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use self::allocation::Allocation;
pub use self::builder::ThroughputBalancerBuilder;
pub use self::error::Error;
pub use self::events::{Event, Events};
pub use self::leader::plan::Transition;
pub use self::maximum::{MAX_THROUGHPUT, max_throughput, set_max_throughput};
use self::member::Registration;
use self::member::registration::Registrar;
pub use self::members::{MemberInfo, members};
pub use self::share::{OnSuspended, Share, ShareListener, Shares};
use crate::client::{Client, ListenerHandle, listener};
use crate::leader_latch::LeaderLatch;

/// How a leader leads.
#[derive(Debug, Clone)]
struct Options {
    allocation: Allocation,
    transition: Transition,
    quiet: Duration,
    at_most: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allocation: Allocation::default(),
            transition: Transition::default(),
            quiet: Duration::from_millis(200),
            at_most: Duration::from_millis(500),
        }
    }
}

/// A member of a balancer; see the [module](self).
///
/// It survives the loss of its session: it registers again, with another name, and takes part in the election again.
/// Dropping it leaves in the background; [`leave`](Self::leave) waits for it. If the runtime is gone by then, its nodes stay
/// until the session ends.
#[must_use = "dropped, the member leaves"]
pub struct ThroughputBalancer {
    client: Client,
    registrar: Registrar,
    /// Of a member that may lead.
    latch: Option<Arc<LeaderLatch>>,
    channel: share::Interest,
    events: events::Publisher,
    registration: watch::Sender<Registration>,
    stop: watch::Sender<bool>,
    finished: watch::Receiver<bool>,
}

impl ThroughputBalancer {
    /// The options of a member of the balancer at `base`.
    pub fn builder(client: &Client, base: impl Into<String>) -> ThroughputBalancerBuilder {
        ThroughputBalancerBuilder::new(client, base.into())
    }

    /// The name of this member's node (`client-0000000000`), while it has one. It is another one after the loss of a session.
    pub fn member_id(&self) -> Option<String> {
        self.registration.borrow().name.clone()
    }

    /// The base path of the balancer.
    pub fn path(&self) -> &str {
        &self.registrar.paths.base
    }

    /// The share, to look at whenever something is done, or to wait for changes of. A lowered share is acknowledged as soon
    /// as it can be seen here, so read [`Share::throughput`] on use and keep no number.
    pub fn share(&self) -> watch::Receiver<Share> {
        self.channel.subscribe()
    }

    /// What this member may do at this instant: what [`Share::throughput`] of its share says.
    pub fn throughput(&self) -> u64 {
        self.channel.latest().throughput()
    }

    /// The share now, then every change. Nothing waits for the reader: ask [`Share::throughput`] of the latest share on
    /// use, and keep no number. What applies a number over a longer time uses [`on_share`](Self::on_share).
    pub fn shares(&self) -> Shares {
        self.channel.stream()
    }

    /// Tells `listener` the share now, then every change, also of what the same number rests on, on a task of its own. A
    /// lowered share is acknowledged when the call has returned; one that hangs holds it back for good. One that panics is
    /// reported and removed.
    pub fn on_share(&self, listener: impl ShareListener) -> ListenerHandle {
        listener::tell(self.client.core(), "share listener", self.channel.followed(), share::Hearer(listener))
    }

    /// Whether this member leads at this instant: compares the clock at each call.
    pub fn is_leader(&self) -> bool {
        self.latch.as_ref().is_some_and(|latch| latch.has_leadership())
    }

    /// What happens from now on, as far as this member sees it; first of all, if it leads and the maximum makes no sense,
    /// that.
    pub fn events(&self) -> Events {
        self.events.subscribe(self.finished.clone())
    }

    /// All members, in the order of joining, as the ensemble knows them. One whose node holds no record is left out.
    ///
    /// # Errors
    /// [`Error::Client`]; [`Error::Closed`] if the client was closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn members(&self) -> Result<Vec<MemberInfo>, Error> {
        members::list(&self.client, &self.registrar.paths).await
    }

    /// The maximum of the whole cluster; as [`max_throughput`], for members.
    ///
    /// # Errors
    /// As [`max_throughput`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn max_throughput(&self) -> Result<Option<u64>, Error> {
        maximum::get(self.client.core(), &self.registrar.paths).await
    }

    /// Sets the maximum of the whole cluster; as [`set_max_throughput`], for members.
    ///
    /// # Errors
    /// As [`set_max_throughput`].
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn set_max_throughput(&self, maximum: u64) -> Result<(), Error> {
        maximum::set(self.client.core(), &self.registrar.paths, maximum).await
    }

    /// Leaves: the share goes to zero, then, when the listeners have applied that (at the latest after a session timeout),
    /// the nodes go, and with them the place in the line of leaders. Returns when the server has done that, or the session
    /// is over. Leaving twice is fine.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out in the background also if the future is dropped.
    pub async fn leave(&self) {
        self.channel.leave();
        self.stop.send_replace(true);
        let mut finished = self.finished.clone();
        // The task gone without a word: its runtime is, and there is nothing to wait for.
        let _ = finished.wait_for(|finished| *finished).await;
    }

    /// Waits for the first registration.
    async fn registered(&self) -> Result<(), Error> {
        let mut registration = self.registration.subscribe();
        let mut finished = self.finished.clone();
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
                _ = finished.wait_for(|finished| *finished) => return Err(Error::closed(self.path())),
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
