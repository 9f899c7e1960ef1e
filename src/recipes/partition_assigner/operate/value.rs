//! The state of an assigner, as values.

use std::collections::BTreeMap;
use std::fmt;

/// An assigner, as its nodes describe it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use zookeeper_recipes::Client;
/// # let client = Client::builder("localhost:2181").connect().await?;
/// use zookeeper_recipes::partition_assigner::state;
///
/// let state = state(&client, "/my-service/jobs").await?;
/// for member in &state.members {
///     println!("{member}");
/// }
/// for partition in state.partitions.iter().filter(|partition| partition.owner.is_none()) {
///     println!("no member holds {}", partition.name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AssignerState {
    /// The id of the member that is first in the election of the leader; `None` if there is none.
    pub leader: Option<String>,
    /// The members: those that are present, those that partitions are reserved for, and those that are drained.
    /// Sorted by id; numbers in ids count by their value.
    pub members: Vec<MemberInfo>,
    /// The partitions that a member holds, has been assigned, or is pinned to, sorted by name likewise. What no leader
    /// has assigned yet is not among them.
    pub partitions: Vec<PartitionInfo>,
    /// How often [`rebalance`](super::rebalance) was called.
    pub rebalances: u64,
    /// The nodes that could not be read. What is in them is missing from the other fields.
    pub unreadable: Vec<UnreadableNode>,
}

/// A member of an assigner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemberInfo {
    /// Its id.
    pub id: String,
    /// How much it counts compared with the others; `None` if it is away, or its node cannot be read.
    pub weight: Option<u64>,
    /// The most partitions that it takes; `None` if there is no limit, or it is not known.
    pub capacity: Option<usize>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether its node exists: its session is alive.
    pub is_present: bool,
    /// Whether `assigned` and `held` are from before it went away, although it is present again: the leader has not
    /// given it anything since.
    pub is_returning: bool,
    /// Whether operators have [drained](super::drain) it.
    pub is_drained: bool,
    /// The partitions that it should hold; while it is away or returning, those that are reserved for it.
    pub assigned: Vec<String>,
    /// The partitions that it says it holds; while it is away or returning, those that it held last.
    pub held: Vec<String>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PartitionInfo {
    /// Its name.
    pub name: String,
    /// The member that holds it; `None` if no member does.
    pub owner: Option<String>,
    /// The fencing token of the holder; `None` if no member holds it, or its node may not be read.
    pub token: Option<i64>,
    /// Whether the holder has to hand it over. Which member gets it is decided once it is free.
    pub is_revoked: bool,
    /// The present member that should hold it and does not hold it yet.
    pub moving_to: Option<String>,
    /// The absent member that it is reserved for.
    pub reserved_for: Option<String>,
    /// The member that operators have [pinned](super::pin) it to.
    pub pinned: Option<String>,
}

/// A node that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UnreadableNode {
    /// Its path below the base, such as `assignments/worker-1`.
    pub node: String,
    /// Why it could not be read.
    pub why: String,
}

impl MemberInfo {
    /// Returns whether it is present, and nothing is reserved for it from before.
    fn is_settled(&self) -> bool {
        self.is_present && !self.is_returning
    }
}

impl fmt::Display for MemberInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let presence = match (self.is_present, self.is_returning) {
            (false, _) => "away",
            (true, true) => "returning",
            (true, false) => "present",
        };
        write!(f, "{}: {presence}", self.id)?;
        if self.is_drained {
            f.write_str(", drained")?;
        }
        match self.is_settled() {
            true => write!(f, ", holds {} of {} assigned", self.held.len(), self.assigned.len()),
            false => write!(f, ", {} reserved", self.assigned.len()),
        }
    }
}

impl fmt::Display for PartitionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match (&self.owner, self.token) {
            (Some(owner), Some(token)) => write!(f, "{owner} (token {token})")?,
            (Some(owner), None) => f.write_str(owner)?,
            (None, _) => f.write_str("unowned")?,
        }
        match (&self.moving_to, self.is_revoked) {
            (Some(to), _) => write!(f, " -> {to}")?,
            (None, true) => f.write_str(", revoked")?,
            (None, false) => {}
        }
        self.reserved_for.iter().try_for_each(|member| write!(f, ", reserved for {member}"))?;
        self.pinned.iter().try_for_each(|member| write!(f, ", pinned to {member}"))
    }
}

impl fmt::Display for UnreadableNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.why)
    }
}
