//! Apache Curator's coordination recipes for async Rust, on ZooKeeper.
//!
//! Leader election, locks, barriers, queues and groups use Curator's own znodes, so that Java and Rust services can
//! share the same paths. Caches work with any nodes. Two further recipes divide a cluster-wide throughput, and named
//! partitions, among the live members.
//!
//! Everything you hold exclusively (a leadership, a lock, an item of a queue) has a fencing token, a `lost()` future,
//! and an `is_held()` check that compares the clock at each call.
//!
//! # Which recipe to use
//!
//! | you want | use |
//! |---|---|
//! | one process to lead until it stops or fails | [`leader_latch`] |
//! | many processes to lead in turn, each until its work returns | [`leader_selector`] |
//! | a section that only one process may run at a time | [`mutex`] |
//! | a resource that many processes may read at a time, and only one may write | [`read_write_lock`] |
//! | several locks at once, or none of them | [`multi_lock`] |
//! | a section that a limited number of processes may run at a time | [`semaphore`] |
//! | a number of processes to start a step together, and to end it together | [`double_barrier`] |
//! | all processes to wait until one of them removes the barrier | [`barrier`] |
//! | a node that exists as long as this process runs, such as a registration | [`persistent_node`] |
//! | many producers and consumers, each item delivered at least once | [`queue`] |
//! | a configuration, or a list of services, in memory and kept up to date | [`cache`] |
//! | the list of the processes that are alive, each with its data | [`group_member`] |
//! | processes to register where they can be reached, and others to find them and choose one | [`service_discovery`] |
//! | one value that many processes read and write | [`shared_value`] |
//! | a counter for the whole cluster | [`atomic_long`] |
//! | a maximum for the whole cluster, divided among its live members | [`throughput_balancer`] |
//! | named partitions, divided among the live members, each with one owner at a time | [`partition_assigner`] |
//! | to see who holds, who waits, which sessions wait for each other, and which recipe uses which node | [`inspect`] |
//! | to notice when something takes long or fails often | [`metrics`] |
//!
//! # Getting started
//!
//! To see a recipe at work without a server, run `cargo run -p recipes-examples --bin leader_latch` in the repository.
//! In a service:
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("zk1:2181,zk2:2181,zk3:2181")
//!     .session_timeout(Duration::from_secs(10))
//!     .connect()
//!     .await?;
//! let latch = LeaderLatch::builder(&client, "/my-service/leader").start()?;
//! let leadership = latch.wait_for_leadership().await?;
//! println!("leading with token {}", leadership.fencing_token());
//! leadership.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! One [`Client`] is enough for a process. When its session ends, the client opens a new one, and every recipe rejoins
//! automatically. The application does not have to rebuild anything.
//!
//! Tests of a service can use a ZooKeeper in memory instead. In it, sessions expire, replies get lost and processes
//! stop on command, and minutes take milliseconds: see [`testing`].
//!
//! # When things fail
//!
//! Each recipe has a table that says what happens when the connection is suspended, when the session is lost, when its
//! znode is deleted, when a reply is lost, and when the process is stopped:
//!
//! * [`leader_latch`](leader_latch#when-things-fail)
//! * [`leader_selector`](leader_selector#when-things-fail)
//! * [`mutex`](mutex#when-things-fail)
//! * [`read_write_lock`](read_write_lock#when-things-fail)
//! * [`multi_lock`](multi_lock#when-things-fail)
//! * [`semaphore`](semaphore#when-things-fail)
//! * [`double_barrier`](double_barrier#when-things-fail)
//! * [`barrier`](barrier#when-things-fail)
//! * [`persistent_node`](persistent_node#when-things-fail)
//! * [`queue`](queue#when-things-fail)
//! * [`cache`](cache#when-things-fail)
//! * [`group_member`](group_member#when-things-fail)
//! * [`service_discovery`](service_discovery#when-things-fail)
//! * [`shared_value`](shared_value#when-things-fail)
//! * [`atomic_long`](atomic_long#when-things-fail)
//! * [`throughput_balancer`](throughput_balancer#when-things-fail)
//! * [`partition_assigner`](partition_assigner#when-things-fail)
//!
//! In these tables T is the session timeout that the servers granted, and [`ErrorPolicy::Standard`] is the default.
//! `docs/failure-contract.md`, in the repository, names the test of each cell.
//!
//! Five rules hold for every recipe:
//!
//! * **Time.** A hold ends, by the clock, before the ensemble can have given it to another process. The clock continues
//!   while the process is stopped, and while the machine sleeps (on Linux, Android, macOS, iOS, Windows, OpenBSD and
//!   Fuchsia; on other systems this is not guaranteed). The options [`tick_time`](ClientBuilder::tick_time) and
//!   [`min_session_timeout`](ClientBuilder::min_session_timeout) must match the servers, and the assumption of
//!   [`Heartbeat::Sync`] must be true.
//!
//!   Only a fence covers what no clock can know: a virtual machine that is paused or restored from a snapshot; servers
//!   that end a session early, by an administrator's command or because they lost their data; a node that an operator
//!   deletes; and, if the servers grant different session timeouts, a request to reconnect that reaches its server more
//!   than a session timeout after the next attempt, while the process is stopped or cut off.
//! * **Fences.** A [`Fence`] in a [`Transaction`] makes the ensemble itself check, in the same transaction, that the
//!   author still holds. A fencing token does the same for any other store that refuses tokens smaller than the largest
//!   it has seen. Send it with each access, from the first read on. It orders holders that follow each other, not those
//!   that hold at the same time, such as the readers of a read-write lock and the holders of a semaphore.
//! * **ACLs.** A server drops a watch silently if the watcher may not read the node at the time of the event (ZooKeeper
//!   3.9.2 and later). After the permission to read a recipe's nodes was revoked and restored, its participants must
//!   reconnect. Until then they may miss changes that happened in between.
//! * **Errors.** Every error names the operation that failed. Its methods `kind`, `is_retryable` and `is_lost` help you
//!   decide how to handle it. A write without an answer is [`OutcomeUnknown`](ErrorKind::OutcomeUnknown), never a plain
//!   connection loss.
//! * **Cancellation.** Every future may be dropped at any await. The section `# Cancel safety` of each says what that
//!   means. A dropped future leaves no ephemeral node behind once the connection is back. A persistent node that it was
//!   about to create (a value, a number, a barrier, an item) may exist.
//!
//! # Feature flags
//!
//! | feature | default | what |
//! |---|---|---|
//! | `leader-latch` | yes | [`leader_latch`] |
//! | `leader-selector` | yes | [`leader_selector`] |
//! | `mutex` | yes | [`mutex`]; what the locks share is in [`lock`] |
//! | `read-write-lock` | yes | [`read_write_lock`] |
//! | `multi-lock` | yes | [`multi_lock`]; enables `mutex` |
//! | `semaphore` | yes | [`semaphore`] |
//! | `double-barrier` | yes | [`double_barrier`] |
//! | `barrier` | yes | [`barrier`] |
//! | `persistent-node` | yes | [`persistent_node`] |
//! | `queue` | yes | [`queue`] |
//! | `cache` | yes | [`cache`] |
//! | `group-member` | yes | [`group_member`]; enables `cache` and `persistent-node` |
//! | `service-discovery` | yes | [`service_discovery`]; enables `cache` and `persistent-node` |
//! | `shared-value` | yes | [`shared_value`]; enables `cache` |
//! | `atomic-long` | yes | [`atomic_long`]; enables `mutex` |
//! | `json` | yes | items of a queue, nodes of a cache and shared values as JSON |
//! | `throughput-balancer` | yes | [`throughput_balancer`]; enables `leader-latch` and `limiter` |
//! | `partition-assigner` | yes | [`partition_assigner`]; enables `leader-latch` |
//! | `limiter` | yes | [`limiter`]: a rate limiter for a share that changes |
//! | `inspect` | | [`inspect`]: lines of elections and locks, trees of nodes, and deadlocks, as values |
//! | `metrics` | | [`metrics`]: what clients and recipes do, as numbers, for Prometheus and others |
//! | `tower` | | the limiter as a `tower::Layer`; enables `limiter` |
//! | `serde` | | `serde::Serialize` for the values of a health page (see below) |
//! | `testing` | | [`testing`]: a ZooKeeper in memory for the tests of your own service |
//! | `backoff` | | converts a `backoff::ExponentialBackoff` into a [`RetryPolicy`] |
//! | `tls` | | encrypted connections |
//! | `sasl-digest-md5` | | authentication by user name and password |
//!
//! With `serde`, these implement `Serialize`: states and statuses, participants, members, shares, outcomes, events of
//! balancers, assigners, queues and watches, stats, shared values, request counts, results of an addition, lines and
//! deadlocks. A status is serialized as the text of its `Display`.
//!
//! The features `integration` and `interop` are for the tests of this crate.
//!
//! # Logs
//!
//! The library emits events through `tracing`, with targets under `zookeeper_recipes`:
//!
//! | event | fields |
//! |---|---|
//! | connection states | `session`, `state`; at the end of a session `reason`; of a lost one `places`, `users`, `out` |
//! | a session timeout other than the one asked for | `asked`, `granted` |
//! | leadership | `path`, `id`, `token`; at the end of a latch's term `why`, of a selector's `end` |
//! | locks and semaphores | `path`, `token`; of a semaphore `permits`; when a hold is lost `state` |
//! | items of a queue that fail or become dead letters | `path`, `item`, `reason` |
//! | persistent nodes | `path`, `state`, `czxid`; if another kind was adopted `mode`, `owner` |
//! | comparisons of a cache with the servers | `path`, `nodes`, `changes` |
//! | instances of a service that are down, and up again | `path` |
//! | shares | `path`, `member`, `throughput`, `epoch`, `sequence` |
//! | shares that a leader writes | `changed` |
//! | partitions of an assigner | `path`, `member`, `partitions`; of work that has ended `partition`, `reason` |
//! | deletes that are retried | `session`, `node` |
//! | every error that no caller awaits | `error`, `kind` |
//!
//! The field `event` has the name of the event. [`Client::last_error`] keeps the latest error that no caller awaits.
//!
//! The library also opens spans, at INFO. Your own events in a listener, handler or work are inside `term`, `delivery`
//! or `partition`, and carry its fields. The library's events are outside of these spans and have all their fields
//! themselves.
//!
//! | span | fields | around |
//! |---|---|---|
//! | `session` | `session` | the life of a session |
//! | `acquire` | `recipe`, `path`, `node`, `behind`, `token`, `outcome` | a call that acquires a lock or permits |
//! | `term` | `path`, `id`, `token`; of a latch `why` | a term of a latch; `take_leadership` of a selector's listener |
//! | `delivery` | `path`, `item`, `attempt`, `outcome` | a [`Delivery`](queue::Delivery) until settled; a handler |
//! | `partition` | `path`, `partition`, `token` | work of a [`PartitionAssigner`](partition_assigner) on a partition |
//! | `cache_resync` | `path`; at its end `nodes`, `changes` | a comparison of a cache with the servers |
//!
//! Some fields are recorded later: `node`, and `token` of a lock, once they are known; `behind` while another node is
//! ahead (the last value counts); the rest at the end. `node` and `behind` are names in the directory of `path`. With
//! an OpenTelemetry layer they show who waited for whom: the `behind` of one span is the `node` of the other.

// Without all features, some links are broken. docs.rs builds the pages with all features.
#![cfg_attr(
    not(all(
        feature = "leader-latch",
        feature = "leader-selector",
        feature = "mutex",
        feature = "read-write-lock",
        feature = "multi-lock",
        feature = "semaphore",
        feature = "double-barrier",
        feature = "barrier",
        feature = "persistent-node",
        feature = "queue",
        feature = "cache",
        feature = "group-member",
        feature = "service-discovery",
        feature = "shared-value",
        feature = "atomic-long",
        feature = "json",
        feature = "throughput-balancer",
        feature = "partition-assigner",
        feature = "limiter",
        feature = "tower",
        feature = "serde",
        feature = "backoff",
        feature = "tls",
        feature = "sasl-digest-md5",
        feature = "inspect",
        feature = "metrics",
        feature = "testing",
    )),
    // Recipes share code: what only some of them use is compiled for all, and is unused in other builds.
    allow(
        rustdoc::broken_intra_doc_links,
        dead_code,
        unreachable_code,
        unreachable_pub,
        unused_imports,
        unused_macros,
        unused_mut,
        unused_variables
    )
)]

mod client;
mod contender;
mod engine;
#[cfg(feature = "inspect")]
pub mod inspect;
mod layout;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
mod metrics;
// Some of the server's half is used only by tests.
#[cfg_attr(not(test), allow(dead_code, unused_imports))]
mod protocol;
mod recipes;
// The rig of the integration tests, for the tests of the engine.
#[cfg(all(test, feature = "integration"))]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(feature = "testing")]
pub mod testing;
mod util;

#[cfg(feature = "tls")]
pub use client::Tls;
pub use client::{
    BoxConnectionStateListener, Client, ClientBuilder, ConnectionState, ConnectionStateListener, ConnectionStates,
    Error, ErrorKind, ErrorPolicy, Fence, Heartbeat, InvalidRetryPolicy, Lagged, ListenerHandle, RequestCounts,
    RetryPolicy, Sasl, ServerList, Transaction, TransactionResult, WatchEvent, WatchEvents, WatchMode,
};
pub use engine::sasl::{SaslError, SaslExchange, SaslMechanism, SaslServer, SaslStep};
pub use recipes::*;
pub use util::state_receiver::{StateEnded, StateReceiver};
pub use util::znode::{Acl, CreateMode, Permissions, Stat};

/// Compiles the code of the README and of the guide.
#[cfg(all(
    doctest,
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "multi-lock",
    feature = "semaphore",
    feature = "double-barrier",
    feature = "barrier",
    feature = "queue",
    feature = "json",
    feature = "cache",
    feature = "persistent-node",
    feature = "group-member",
    feature = "shared-value",
    feature = "atomic-long",
    feature = "throughput-balancer",
    feature = "partition-assigner",
    feature = "limiter",
    feature = "testing",
    feature = "inspect",
    feature = "metrics",
    feature = "serde",
    feature = "tower",
    feature = "tls",
    feature = "sasl-digest-md5",
    feature = "backoff"
))]
mod guide {
    macro_rules! pages {
        ($($name:ident: $path:literal,)*) => {
            $(#[doc = include_str!(concat!("../docs/guide/src/", $path))] mod $name {})*
        };
    }

    #[doc = include_str!("../README.md")]
    mod readme {}

    pages! {
        connect: "connect.md",
        metadata: "metadata.md",
        what_do_i_hold: "what-do-i-hold.md",
        testing: "testing.md",
        migrate: "migrate.md",
        timeouts: "timeouts.md",
        security: "security.md",
        alerts: "alerts.md",
        logs: "logs.md",
        operate: "operate.md",
        postmortem: "postmortem.md",
        leader_latch: "recipes/leader-latch.md",
        leader_selector: "recipes/leader-selector.md",
        mutex: "recipes/mutex.md",
        read_write_lock: "recipes/read-write-lock.md",
        multi_lock: "recipes/multi-lock.md",
        semaphore: "recipes/semaphore.md",
        double_barrier: "recipes/double-barrier.md",
        barrier: "recipes/barrier.md",
        persistent_node: "recipes/persistent-node.md",
        group_member: "recipes/group-member.md",
        service_discovery: "recipes/service-discovery.md",
        cache: "recipes/cache.md",
        shared_value: "recipes/shared-value.md",
        atomic_long: "recipes/atomic-long.md",
        queue: "recipes/queue.md",
        throughput_balancer: "recipes/throughput-balancer.md",
        partition_assigner: "recipes/partition-assigner.md",
        limiter: "recipes/limiter.md",
    }
}
