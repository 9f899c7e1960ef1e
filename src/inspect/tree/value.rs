//! What [`tree`](crate::inspect::tree()) finds, as values.

use std::collections::HashSet;
use std::time::SystemTime;

use super::super::line::{Line, Owner, is_session, time_of};
use crate::layout::service_discovery::ServiceType;
use crate::util::path::split;

/// Everything at a path and below, as [`tree`](crate::inspect::tree()) finds it.
///
/// Each node that was found appears once: as one of [`nodes`](Self::nodes), or in a recipe of its directory. The
/// directories that a recipe creates for its nodes, such as `leases` of a semaphore, are not among the nodes, unless
/// they contain something else.
///
/// The nodes are a flat list, not nested values, so that any depth can be read, shown and serialized.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Tree {
    /// The nodes, each before those below it. The first one is at the path that was asked for.
    pub nodes: Vec<Node>,
    /// The directories that this client may not list, and the nodes that it may not read, sorted by path. There may be
    /// more below them.
    pub denied: Vec<String>,
}

/// A node that is not part of a recipe of its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Node {
    /// Its path.
    pub path: String,
    /// How many levels it is below the first node.
    pub depth: usize,
    /// What the servers report about it. `None` if this client may not read it, if its name made a read unnecessary, or
    /// if it does not exist: the servers delete the empty directory of a Curator queue, while its dead letters remain.
    pub stat: Option<NodeStat>,
    /// The recipes whose nodes are in this directory: none for a plain node, one for the directory of a recipe, and
    /// more if several of them share it.
    pub recipes: Vec<Recipe>,
}

/// What the servers report about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NodeStat {
    /// The session that owns it, if it is ephemeral.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::inspect::text::session_opt"))]
    pub session_id: Option<i64>,
    /// When it was created, in milliseconds since 1970, by the clock of the server that led then.
    pub created_ms: i64,
    /// When its data was last written, by the same kind of clock. For an item of a queue, this is when a consumer of
    /// this library last claimed it.
    pub modified_ms: i64,
    /// The number of bytes of its data.
    pub data_length: u32,
    /// The number of its children, including those that are in recipes.
    pub num_children: u32,
}

/// What the nodes in a directory are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Recipe {
    /// An election, a lock or a read-write lock. The nodes in [`Line::others`] are also nodes of the tree.
    Line(Line),
    /// A semaphore.
    Semaphore(Semaphore),
    /// A double barrier.
    DoubleBarrier(DoubleBarrier),
    /// A queue.
    Queue(Queue),
    /// A throughput balancer.
    ThroughputBalancer(ThroughputBalancer),
    /// A partition assigner.
    PartitionAssigner(PartitionAssigner),
    /// Kazoo's `SetPartitioner`. Its locks are lines below it.
    KazooSetPartitioner(KazooSetPartitioner),
    /// A service.
    Service(Service),
    /// A group.
    Group(Group),
}

/// A node of a recipe, and who owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Entry {
    /// The path of the node.
    pub path: String,
    /// What only the node itself contains; `None` if this client may not read it.
    pub owner: Option<Owner>,
}

/// The permits of a semaphore that are taken, and who waits for permits. The nodes do not show how many permits there
/// are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Semaphore {
    /// The line in `locks`, or in kazoo's `<path>-__lock__`. The first contender is the next to get permits.
    pub line: Line,
    /// The leases, oldest first. Each is a permit that is taken, or that the first in the line asks for.
    pub leases: Vec<Entry>,
}

/// The members of a double barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DoubleBarrier {
    /// The node `ready`, which exists from when all have entered until all have left.
    pub ready: Option<Entry>,
    /// The members that have entered and have not left, oldest first.
    pub members: Vec<Entry>,
}

/// A queue. Its items are counted by their names; only the oldest one is read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Queue {
    /// The number of its items, including those that are claimed, and those of Curator's other kinds of queue.
    pub depth: usize,
    /// The item that has been ready for the longest time, according to the names: the one that was put first, or whose
    /// delay ends first.
    pub oldest: Option<Item>,
    /// The claims on items in `<path>-claims`, or in `taken` of kazoo's `LockingQueue`, oldest first. A claim has the
    /// name of its item.
    pub claims: Vec<Entry>,
    /// The producers in `<path>-producers`, oldest first.
    pub producers: Vec<Entry>,
    /// The names of the dead letters in `<path>-dead`, oldest first.
    pub dead_letters: Vec<String>,
}

/// An item of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Item {
    /// The path of the node.
    pub path: String,
    /// When its delay ends, in milliseconds since 1970, if its name has one, as in Curator's `DistributedDelayQueue`.
    pub delayed_until_ms: Option<i64>,
    /// What the servers report about it. `None` if a consumer has taken it meanwhile, or if this client may not read
    /// it.
    pub stat: Option<NodeStat>,
}

/// A throughput balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ThroughputBalancer {
    /// The maximum that is divided; `None` if none was set, or if its node cannot be read as a number.
    pub maximum: Option<u64>,
    /// The election of the leader, which divides the maximum.
    pub leader: Line,
    /// The members, oldest first.
    pub members: Vec<BalancerMember>,
}

/// A member of a throughput balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BalancerMember {
    /// The id of the member, which it also has in the election; `None` if its record cannot be read.
    pub id: Option<String>,
    /// Its share; `None` if its record cannot be read.
    pub throughput: Option<u64>,
    /// Its node. The data is the whole record, in JSON.
    pub entry: Entry,
}

/// A partition assigner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PartitionAssigner {
    /// The election of the leader, which assigns the partitions.
    pub leader: Line,
    /// The members that are present or have an assignment, sorted by id; numbers in ids count by their value.
    pub members: Vec<AssignerMember>,
    /// The number of partitions that a member holds, has been assigned, or is pinned to.
    pub partitions: usize,
    /// The number of nodes for partitions that are held. A node is left over if its partition is not held.
    pub owned: usize,
    /// The nodes that cannot be read, or do not contain what they should.
    pub unreadable: Vec<UnreadableRecord>,
}

/// A member of a partition assigner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AssignerMember {
    /// Its id.
    pub id: String,
    /// Its nodes while it is present, oldest first: two if its former session is not over yet.
    pub nodes: Vec<Entry>,
    /// The node with its assignment, if it has one. The data is the whole record, in JSON.
    pub assignment: Option<Entry>,
    /// Whether it is present, and its assignment is from before it went away.
    pub is_returning: bool,
    /// Whether operators have drained it.
    pub is_drained: bool,
    /// The partitions that it should hold; while it is away or returning, those that are reserved for it.
    pub assigned: Vec<String>,
    /// The partitions that it says it holds.
    pub held: Vec<String>,
}

/// A node of a partition assigner that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UnreadableRecord {
    /// The path of the node.
    pub path: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// Kazoo's `SetPartitioner`. Each of its partitions that was ever held is a line in `locks` below it, and is a node of
/// the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KazooSetPartitioner {
    /// Its members in `party`, oldest first. The id of each is in the name of its node, after the first hyphen.
    pub members: Vec<Entry>,
    /// The number of partitions that were ever held.
    pub partitions: usize,
    /// The number of partitions with a lock: a member holds them or waits for them.
    pub held: usize,
}

/// A service with its instances: those of a `ServiceDiscovery` of this library, of Curator, or of another program that
/// writes Curator's format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Service {
    /// The instances that can be read, sorted by the names of their nodes.
    pub instances: Vec<Instance>,
    /// The ephemeral nodes that cannot be read as instances of this service, sorted by name.
    pub unreadable: Vec<UnreadableInstance>,
}

/// An instance of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Instance {
    /// Its id. Several instances may share one if they are sequential.
    pub id: String,
    /// Its address: a host name, or an IP address.
    pub address: Option<String>,
    /// Its port.
    pub port: Option<u16>,
    /// Its port for TLS.
    pub ssl_port: Option<u16>,
    /// Whether it accepts work.
    pub enabled: bool,
    /// How long it stays registered.
    pub service_type: ServiceType,
    /// Its node. The data is the whole record, in JSON.
    pub entry: Entry,
}

/// An ephemeral node in the directory of a service that cannot be read as an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UnreadableInstance {
    /// Why it cannot be read.
    pub reason: String,
    /// The node.
    pub entry: Entry,
}

/// Processes that are alive, each with its data: a `GroupMember` of this library or of Curator, a party of kazoo, or
/// anything else that keeps an ephemeral node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Group {
    /// The members, sorted by name.
    pub members: Vec<Entry>,
}

impl Node {
    /// Returns the last element of its path.
    pub fn name(&self) -> &str {
        split(&self.path).1
    }
}

impl NodeStat {
    /// Returns when the node was created, by the clock of the server that led then.
    pub fn created(&self) -> SystemTime {
        time_of(self.created_ms)
    }

    /// Returns when its data was last written, by the clock of the server that led then.
    pub fn modified(&self) -> SystemTime {
        time_of(self.modified_ms)
    }
}

impl Entry {
    /// Returns the last element of its path.
    pub fn name(&self) -> &str {
        split(&self.path).1
    }

    /// Returns the session that owns the node; `None` if it is not known, or if there is none.
    pub fn session_id(&self) -> Option<i64> {
        self.owner.as_ref().map(|owner| owner.session_id).filter(|&id| is_session(id))
    }

    /// Returns whether the node is known to have no session, such as a lease or a claim that stays until it is deleted
    /// by hand.
    pub fn is_orphan(&self) -> bool {
        self.owner.as_ref().is_some_and(Owner::is_orphan)
    }
}

impl Item {
    /// Returns the last element of its path.
    pub fn name(&self) -> &str {
        split(&self.path).1
    }

    /// Returns since when a consumer may take it, if that is known: its creation, by the clock of the server that led
    /// then, or the end of the delay in its name, which may be in the future.
    pub fn ready_since(&self) -> Option<SystemTime> {
        let created = self.stat?.created();
        Some(self.delayed_until_ms.map_or(created, |delayed| created.max(time_of(delayed))))
    }
}

impl Semaphore {
    /// Returns the leases without a session. Each takes a permit until it is deleted by hand.
    pub fn orphans(&self) -> impl Iterator<Item = &Entry> {
        self.leases.iter().filter(|lease| lease.is_orphan())
    }
}

impl AssignerMember {
    /// Returns whether it is present: a session owns a node of it.
    pub fn is_present(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Returns the partitions that it holds and has to hand over.
    pub fn handing_over(&self) -> impl Iterator<Item = &str> {
        let assigned: HashSet<&String> = self.assigned.iter().collect();
        self.held.iter().filter(move |name| !assigned.contains(name)).map(String::as_str)
    }
}

impl Instance {
    /// Returns the address and the port, such as `10.0.0.1:80` or `[fe80::1]:80`, as far as the instance has them.
    pub fn endpoint(&self) -> String {
        let address = match self.address.as_deref().unwrap_or_default() {
            address if address.contains(':') && !address.starts_with('[') => format!("[{address}]"),
            address => address.to_owned(),
        };
        self.port.map_or(address.clone(), |port| format!("{address}:{port}"))
    }
}

impl DoubleBarrier {
    /// Returns whether all have entered, so that each member may leave.
    pub fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_ready_when_it_is_there_and_its_delay_is_over() {
        let stat = NodeStat { session_id: None, created_ms: 7, modified_ms: 9, data_length: 0, num_children: 0 };
        let item =
            |delayed_until_ms| Item { path: "/q/queue-0000000000".to_owned(), delayed_until_ms, stat: Some(stat) };
        let ready = [None, Some(3), Some(8)].map(|delayed| item(delayed).ready_since());
        assert_eq!(ready, [7, 7, 8].map(|ms| Some(time_of(ms))));
        assert_eq!(Item { stat: None, ..item(Some(8)) }.ready_since(), None);
    }
}
