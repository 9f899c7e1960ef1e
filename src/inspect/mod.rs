//! Shows operators the lines of elections and locks: who holds, who waits, and which sessions wait for each other. Also
//! shows everything at a path and below, with the recipe that each directory belongs to.
//!
//! It understands the nodes of this library, of Curator and of kazoo: elections, mutexes, read-write locks, the locks
//! of a multi-lock, and the line of a semaphore (`locks` below its path). It only reads. It needs READ on the
//! directories and on the nodes: without READ on a node it reports the place, but not the owner.
//!
//! ```no_run
//! use zookeeper_recipes::{Client, inspect};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let line = inspect::line(&client, "/my-service/report").await?;
//! println!("{line}");
//! for place in line.waiting() {
//!     println!("{place}");
//! }
//! println!("{}", inspect::deadlocks(&client, "/my-service/locks").await?);
//! println!("{}", inspect::tree(&client, "/my-service").await?);
//! # Ok(())
//! # }
//! ```
//!
//! What was before, and how it ended, is told by [`postmortem`], from the servers' own files.
//!
//! The results are plain values. They are not a snapshot: each node is read by a separate request. With the feature
//! `serde` they can be serialized.
//!
//! Nodes with other names are not recognized, such as those of a mutex that is configured to count further names. A
//! directory with the name of a contender's node is not a contender once it has children.
//!
//! # What a directory is
//!
//! A node does not say which recipe created it. [`tree()`] decides by the names of the nodes, by whether they are
//! ephemeral, and by whether they have children. A node with children is never taken for a contender, a lease, a member
//! or another node of a recipe. Nodes named like an item of a queue (`queue-0000000042`), a dead letter or an
//! acknowledgement are an exception: they are not read, because there may be very many, so what is below one of them is
//! not found. To see it, call `tree` with its own path.
//!
//! | recipe | what decides |
//! |---|---|
//! | [`ThroughputBalancer`] | `global-config/max-throughput`; or `client/client-N` and `leader`, `ack` or `epoch` |
//! | [`PartitionAssigner`] | `members` and `assignments`, and `owned` or `epoch` |
//! | [`KazooSetPartitioner`] | `party` and `locks`, and in them a member of a `ShallowParty`, or kazoo's lock of a |
//! | | partition; these locks are lines below it |
//! | [`Semaphore`] | `leases/…lease-N`; or both `locks` and `leases`; of kazoo, ephemeral nodes named by a |
//! | | UUID, and `<path>-__lock__` beside it |
//! | [`Queue`] | `queue-N`, or `entry-P-N` of kazoo, also in `entries`; or beside it, in `<path>-claims`, |
//! | | `<path>-producers` or `<path>-dead`, nodes with the names and owners of claims, producers and dead letters |
//! | [`Line`] | nodes that have a [`Role`] |
//! | [`Service`] | the data of a node is an instance in Curator's JSON, whose `name` is that of the directory, and |
//! | | whose `id` is the name of the node, or in it if it is sequential; then every remaining ephemeral node |
//! | [`DoubleBarrier`] | every remaining ephemeral node is named by a UUID; or there is a persistent node `ready`, |
//! | | and either at least one such node or nothing else |
//! | [`Group`] | any other ephemeral node |
//!
//! A node belongs to the first recipe in this order that matches. So some recipes cannot be distinguished:
//!
//! * A sequential instance whose id ends like the name of a contender without its number, such as `web-lock-`, is in a
//!   line. One whose id is `queue-` looks like an item.
//! * A persistent node that cannot be read as an instance is a plain node, even in the directory of a service.
//! * An instance whose name or id is not that of its place is shown as unreadable, though those who look for the
//!   service find it.
//! * A group whose ids are all UUIDs looks like a double barrier that waits.
//! * Any ephemeral node, such as one of another program, looks like the member of a group.
//! * Items are not read. So if consumers have a lock path of their own, as Curator's do, their locks look like the
//!   items of another queue. The same applies to claims if the tree begins at their directory.
//! * A semaphore of kazoo without leases is a plain node, with a line beside it if a client asks for a lease.
//! * A mutex, an election and a read-write lock in the same directory are one line.
//! * The locks of a multi-lock are lines. Shared values, numbers with the nodes of their handles, barriers and the
//!   nodes of other programs are plain. The handles of a number that was never written look like a double barrier.
//!
//! The directories beside a queue or a semaphore of kazoo are read even if the tree begins at that queue or semaphore.
//!
//! # What it costs
//!
//! [`line()`] sends one request for the list and one for each contender. [`lines`] and [`deadlocks`] send one for each
//! node and contender at the path and below, but none for items named `queue-N`. [`deadlocks`] sends two more for each
//! session in a circle.
//!
//! [`tree()`] sends one request for each node, but none for items of queues, dead letters, acknowledgements of members
//! of a balancer, and partitions that members of an assigner hold: those are in the list of their directory. It sends a
//! second one for an ephemeral node that is not named like a contender, lease, claim, producer, or member of a barrier,
//! balancer or assigner, and for a node that has such a name and children. It sends one more for the oldest item of
//! each queue.
//!
//! Persistent instances of a service ([`ServiceType::Static`]) are found by their data. In each directory with an
//! instance, it reads every persistent node without children that has enough data to be an instance. In others that
//! contain no directory it reads only the first such node by name, and the rest if that one is an instance.
//!
//! If the tree begins at a queue or at a node without children, it sends three more, for the directories that a queue
//! has beside it; at a semaphore or a double barrier of kazoo it sends one more. It reads the data of ephemeral nodes,
//! of nodes with such a name, of `max-throughput`, of what may be an instance, and of the `members`, `assignments` and
//! `config` of what may be an assigner, and no other data.
//!
//! At most 64 requests are under way at a time. No watch is set.

mod deadlock;
mod line;
pub mod postmortem;
mod read;
mod role;
#[cfg(feature = "serde")]
mod text;
mod tree;

use std::collections::HashSet;
use std::fmt;

pub use self::deadlock::{Deadlock, Wait};
pub use self::line::{Line, Owner, Place};
pub use self::role::Role;
pub use self::tree::{AssignerMember, BalancerMember, DoubleBarrier, Entry, Group, Instance, Item};
pub use self::tree::{KazooSetPartitioner, Node, NodeStat, PartitionAssigner, Queue, Recipe, Semaphore, Service};
pub use self::tree::{ThroughputBalancer, Tree, UnreadableInstance, UnreadableRecord};
use crate::client::{Client, Error};
pub use crate::layout::service_discovery::ServiceType;

/// All lines at a path and below, as [`lines`] finds them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Lines {
    /// The lines that have a contender, sorted by path.
    pub lines: Vec<Line>,
    /// The directories that this client may not list, and the nodes of lines that it may not read, sorted by path.
    /// There may be lines in and below them.
    pub denied: Vec<String>,
}

/// Reads the line of the election or lock in the directory at `path`. It is empty if there is no contender.
///
/// # Errors
/// [`NoNode`](crate::ErrorKind::NoNode) if the directory does not exist; [`NoAuth`](crate::ErrorKind::NoAuth) if it may
/// not be listed; [`InvalidPath`](crate::ErrorKind::InvalidPath). A loss of the connection is retried as the client's
/// [`RetryPolicy`](crate::RetryPolicy) allows.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn line(client: &Client, path: &str) -> Result<Line, Error> {
    read::line(client, path).await
}

/// Reads all lines at `path` and below.
///
/// # Errors
/// As [`line()`], but what may not be listed or read is in [`Lines::denied`].
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn lines(client: &Client, path: &str) -> Result<Lines, Error> {
    read::lines(client, path).await
}

/// Reads everything at `path` and below, and decides which recipe each directory belongs to: see the [module](self).
///
/// ```no_run
/// # async fn example(client: zookeeper_recipes::Client) -> Result<(), zookeeper_recipes::Error> {
/// use zookeeper_recipes::inspect::{self, Recipe};
///
/// for node in inspect::tree(&client, "/my-service").await?.nodes {
///     for recipe in &node.recipes {
///         if let Recipe::Queue(queue) = recipe {
///             println!("{}: {} items, {} dead", node.path, queue.depth, queue.dead_letters.len());
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// This is not a snapshot: each node is read by a separate request, and a node that has disappeared meanwhile is left
/// out.
///
/// # Errors
/// As [`line()`], but what may not be listed or read is in [`Tree::denied`].
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn tree(client: &Client, path: &str) -> Result<Tree, Error> {
    tree::read(client, path).await
}

/// The circles that [`deadlocks`] has found.
#[must_use = "the deadlocks are reported only in this value"]
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Deadlocks {
    /// The circles: one for each group of sessions that wait for each other.
    pub found: Vec<Deadlock>,
    /// The nodes that could not be read, as in [`Lines::denied`]. Further circles may be hidden there.
    pub denied: Vec<String>,
}

/// Finds the circles of sessions that wait for each other in the locks at `path` and below. All nodes of a circle
/// existed at the same moment, as the server saw it, which may be some seconds late. See [`Deadlock`] for what this
/// means if many tasks share a client, and for the role of elections.
///
/// A session that waits for a permit of a semaphore counts by its place in the line; its wait for the leases of others
/// does not count.
///
/// # Errors
/// As [`lines`].
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn deadlocks(client: &Client, path: &str) -> Result<Deadlocks, Error> {
    let Lines { mut lines, denied } = read::lines(client, path).await?;
    loop {
        let found = Deadlock::detect(&lines);
        // Each node existed when it was read. So all nodes that still exist now existed together, between the last of
        // those reads and the first of these checks.
        let gone = read::gone(client, nodes(&found, &lines)).await?;
        if gone.is_empty() {
            return Ok(Deadlocks { found, denied });
        }
        // There may still be another circle of the same sessions.
        lines.iter_mut().for_each(|line| line.remove(&gone));
    }
}

/// Returns the nodes in these circles, with the transactions that created them.
fn nodes(circles: &[Deadlock], lines: &[Line]) -> Vec<(String, i64)> {
    let paths: HashSet<&str> = circles.iter().flat_map(Deadlock::nodes).collect();
    let places = lines.iter().flat_map(|line| &line.places).filter(|place| paths.contains(place.path.as_str()));
    places.filter_map(|place| Some((place.path.clone(), place.owner.as_ref()?.fencing_token))).collect()
}

impl fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found[..] {
            [] => f.write_str("no deadlock")?,
            [first, others @ ..] => {
                write!(f, "{first}")?;
                others.iter().try_for_each(|other| write!(f, "\n{other}"))?;
            }
        }
        self.denied.iter().try_for_each(|path| write!(f, "\nnot readable: {path}"))
    }
}
