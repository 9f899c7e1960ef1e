//! Apache Curator's coordination recipes for async Rust, on ZooKeeper.
//!
//! Leader election, locks, barriers and queues on Curator's own znodes, so that Java services and Rust services stand in one
//! line; and a throughput for a whole cluster, divided among its live members. What you hold alone (a leadership, a lock, an
//! item of a queue) is a value with a fence, a `lost()` future, and an `is_held()` that compares the clock each time it is asked.
//!
//! # Which recipe when
//!
//! | you want | use |
//! |---|---|
//! | one of many processes to lead until it goes | [`leader_latch`] |
//! | many processes to lead in turn, each until its work returns | [`leader_selector`] |
//! | something that only one may do at a time | [`mutex`] |
//! | a number of processes to start a step together, and to end it together | [`double_barrier`] |
//! | everybody to wait until somebody says go | [`barrier`] |
//! | work that many put and many take, each item at least once | [`queue`] |
//! | a maximum for the whole cluster, divided among its live members | [`throughput_balancer`] |
//!
//! # Getting started
//!
//! To see one at work, without any server: `cargo run -p recipes-examples --bin leader_latch` in the repository. In a service:
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("zk1:2181,zk2:2181,zk3:2181").session_timeout(Duration::from_secs(10)).connect().await?;
//! let latch = LeaderLatch::builder(&client, "/my-service/leader").id("worker-7").start()?;
//! let leadership = latch.wait_for_leadership().await?;
//! println!("leading with fencing token {}", leadership.fencing_token());
//! leadership.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! One [`Client`] serves a process. It opens a new session when the old one ends, and every recipe takes its place again by
//! itself; nothing has to be rebuilt by hand.
//!
//! Its tests get a client of a ZooKeeper in memory instead, where sessions expire, replies are lost and processes stop at a
//! word, and minutes take milliseconds: see [`testing`].
//!
//! # The failure contract
//!
//! T is the session timeout that the servers granted.
//!
//! | recipe | `Suspended` | `Reconnected`, same session | `Lost` | own node deleted by another | reply lost | process stopped > T |
//! |---|---|---|---|---|---|---|
//! | `LeaderLatch` | [`Standard`](ErrorPolicy::Standard): leadership ends. [`Session`](ErrorPolicy::Session): it lasts until the lease is over, never past T | same node, looked up; `Standard`: leads again with the same token, as a new term | leadership is over; a new node with the next session | the leader hears of it and stands in line again; a waiter too; nobody is promoted twice. For the length of a notification the old leader (or a waiter that was deleted in the same transaction after it) may believe to lead: its fence no longer stands | create: found again by its name, or made anew; never two nodes. Delete: repeated until the node is gone | at the first look after waking `is_held()` is false |
//! | `LeaderSelector` | [`Standard`](ErrorPolicy::Standard): the term ends, the listener is dropped. [`Session`](ErrorPolicy::Session): it goes on until the lease is over, never past T. A waiter keeps its place | a waiter: same node, looked up. A term that ended stays over; with auto-requeue a new one is stood in line for | the term ends, the listener is dropped (after the grace period); with auto-requeue, and for a waiter in any case, a new node with the next session | the leader hears of it: the term ends; a waiter stands in line again. For the length of a notification old and new leader may both believe to lead: the old one's fence no longer stands | create: found again by its name, or made anew; never two nodes. Delete: repeated until the node is gone, then the term's outcome is told | the listener is dropped before it is polled again (with a grace period: when that is over); at the first look after waking `is_held()` is false |
//! | `InterProcessMutex` | [`Standard`](ErrorPolicy::Standard): the lock is lost; its node stays until the guard goes, so nobody else holds before. [`Session`](ErrorPolicy::Session): it lasts until the lease is over, never past T. A waiter keeps its place | a guard that was lost stays lost; a waiter: same node, looked up | the lock is lost, and releasing it is an error; a waiter takes a new place with the next session | a holder that had to wait, or has used `lost()`, `run()` or `on_revoke()`, hears of it; any other does not, but its fence no longer stands. A waiter stands in line again | create: found again by its name, or made anew; never two nodes. Delete: repeated until the node is gone, also after the guard was dropped. A timed call that cannot know by its deadline says `OutcomeUnknown` | at the first look after waking `is_held()` is false, and a write with the fence is refused |
//! | `DoubleBarrier` | under either policy `enter` and `leave` wait on; the node stays, and with it the place in the round | same node, looked up; a round that opened or ended meanwhile is noticed | the call under way, or the next `leave`, is an error; the member may enter again. The others wait for its node until the session is over, and no longer | a waiter makes a new node (it watches its own after a second); inside, `leave` is an error and the others do not wait. `ready` deleted by hand lets nobody leave early, unless somebody enters before they have left | create: found again by its name, or made anew; never two nodes. Opening, ending, joining, giving up: transactions, looked up again. A timed call that cannot know by its deadline says `OutcomeUnknown` | an error after waking, also if the round opened meanwhile; the others went on without it |
//! | `Barrier` | `wait` waits on; `set` and `remove` are retried as the client's policy allows | `wait` looks again | nothing is lost: the barrier belongs to no session, and `wait` goes on with the next one | deleted by anybody, the barrier is removed | `set` and `remove` are repeated until they are done | `wait` looks again |
//! | `DistributedQueue` | a put goes on and waits. [`Standard`](ErrorPolicy::Standard): a delivery is lost; its claim's node stays until it is settled or dropped, so nobody else has the item before, and an ack still counts. [`Session`](ErrorPolicy::Session): it lasts until the lease is over, never past T | puts under way: a number of the producer's own tells which were carried out; the others are sent again, in order. Claims stand | puts under way say `OutcomeUnknown`, those behind go on with the next session. Claims are lost, and settling them is an error; others get the items when the ensemble forgets the session, without any put | a claim: who waits in `lost()` or works in `run()` is told; ack and fenced writes are refused, also after the item was claimed again. A producer's node: it makes another | put: found out by the producer's number, never twice; claim, ack, nack, dead letter: sent again; the item's version lets only one copy through | at the first look after waking `is_held()` is false, a handler is dropped before it is polled again, and an ack is refused |
//! | `ThroughputBalancer` | [`Standard`](ErrorPolicy::Standard): the share is what [`OnSuspended`](throughput_balancer::OnSuspended) says, by default zero. [`Session`](ErrorPolicy::Session): it lasts until the lease is over, never past T. No other member is given it while the session lives. An attached limiter grants what the share is worth at each moment | same nodes, looked up; the share is there again, under the same name | as when suspended, then a new name with the next session; the leader divides its share among the others | a member goes to zero and registers again; no other member gets what it held before it says so, or its session is over. What is left of a pair of nodes is ignored, and named by [`MemberIgnored`](throughput_balancer::Event::MemberIgnored). A record that no leader has written makes the member register again | create: sent again under the same name, and found by one look. The leader takes over anew and reads everything before it writes; what it had sent is refused from then on | at the first look after waking the share is as when suspended, also for an attached limiter; a leader's write is refused |
//!
//! `docs/failure-contract.md`, in the repository, names the test of each cell. Four things hold for every recipe:
//!
//! * **Time.** What is held ends, by the clock, before the ensemble can have given it to somebody else. The clock goes on
//!   while the process is stopped and while the machine sleeps. What no clock can know, only a fence covers: a virtual
//!   machine that is paused or restored from a snapshot; servers that end a session before its time is over, by an
//!   administrator's hand or with their data; a node that an operator deletes.
//! * **Fences.** A [`Fence`] put into a [`Transaction`] makes the ensemble itself check, in the same transaction, that its
//!   author still holds. A fencing token does the same for any other store that refuses smaller ones than it has seen.
//! * **ACLs.** A server spends a watch without a word when the node may not be read by its watcher at that moment (since 3.9.2).
//!   So whoever takes the permission to read a recipe's nodes from its participants, and gives it back, has to make them
//!   connect anew: until then they may not see what changed meanwhile.
//! * **Cancellation.** Every future may be dropped at any await; `# Cancel safety` says what that means for each. What is
//!   dropped leaves no node behind once the connection is back.
//!
//! # Feature flags
//!
//! | feature | default | what |
//! |---|---|---|
//! | `leader-latch` | yes | [`leader_latch`] |
//! | `leader-selector` | yes | [`leader_selector`] |
//! | `mutex` | yes | [`mutex`] |
//! | `double-barrier` | yes | [`double_barrier`] |
//! | `barrier` | yes | [`barrier`] |
//! | `throughput-balancer` | yes | [`throughput_balancer`]; brings `leader-latch` |
//! | `limiter` | yes | [`limiter`]: a rate limiter for a share that changes |
//! | `tower` | | the limiter as a `tower::Layer` |
//! | `queue` | yes | [`queue`] |
//! | `json` | yes | items of a queue as JSON |
//! | `testing` | | [`testing`]: a ZooKeeper in memory for the tests of your own service |
//! | `backoff` | | a `backoff::ExponentialBackoff` becomes a [`RetryPolicy`] |
//! | `tls` | | encrypted connections |
//! | `sasl-digest-md5` | | SASL authentication |
//!
//! # Logs
//!
//! Events go through `tracing`, under `zookeeper_recipes`: connection states (`session`, `state`; the end of a session with
//! `reason`), leadership (`path`, `id`, `token`; the end of a latch's term with `why`, of a selector's with `end`), locks (`path`,
//! `token`), items of a queue that fail or become dead letters (`path`, `item`, `reason`), shares (`path`, `member`, `throughput`,
//! `epoch`, `sequence`) and what a leader writes of them (`changed`), deletes that are tried again (`target`), and every error that
//! no caller awaits (`error`, `kind`), which [`Client::last_error`] keeps as well.

// Without all recipes, what only some of them need has no user.
#![cfg_attr(
    not(all(
        feature = "leader-latch",
        feature = "leader-selector",
        feature = "mutex",
        feature = "double-barrier",
        feature = "barrier",
        feature = "queue",
        feature = "throughput-balancer"
    )),
    allow(dead_code)
)]

mod backend;
#[cfg(feature = "barrier")]
pub mod barrier;
mod client;
mod clock;
#[cfg(any(feature = "leader-latch", feature = "leader-selector", feature = "mutex"))]
mod contender;
#[cfg(feature = "double-barrier")]
pub mod double_barrier;
#[cfg(feature = "leader-latch")]
pub mod leader_latch;
#[cfg(feature = "leader-selector")]
pub mod leader_selector;
#[cfg(feature = "limiter")]
pub mod limiter;
#[cfg(feature = "mutex")]
pub mod mutex;
mod path;
// Only tests use a server's half of it.
#[cfg_attr(not(test), allow(dead_code, unused_imports))]
mod protocol;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "testing")]
mod scheduler;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "throughput-balancer")]
pub mod throughput_balancer;
// The rig of the integration tests, for the tests of the backend.
#[cfg(all(test, feature = "integration"))]
#[path = "../tests/support/mod.rs"]
mod support;
mod types;

#[cfg(feature = "sasl-digest-md5")]
pub use client::Sasl;
#[cfg(feature = "tls")]
pub use client::Tls;
pub use client::{
    Client, ClientBuilder, ConnectionState, ConnectionStateListener, ConnectionStates, Error, ErrorKind, ErrorPolicy,
    Fence, Heartbeat, InvalidRetryPolicy, Lagged, ListenerHandle, RequestCounts, RetryPolicy, Transaction,
    TransactionResult,
};
pub use types::{Acl, CreateMode, Permissions, Stat};

/// The examples of the README are compiled like all others.
#[cfg(all(
    doctest,
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "mutex",
    feature = "throughput-balancer",
    feature = "limiter",
    feature = "testing"
))]
#[doc = include_str!("../README.md")]
mod readme {}
