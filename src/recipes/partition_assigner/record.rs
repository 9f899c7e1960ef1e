//! The data of a member's two nodes: its presence, which it writes, and its assignment, which it and the leader write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::strategy;
use crate::util::path::quoted_bytes;

/// The longest id of a member. Each leader reads the nodes of all members.
pub(super) const MOST_ID_BYTES: usize = 256;

/// The options of a member, in the node that shows that it is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Presence {
    #[serde(default = "one")]
    pub(super) weight: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

fn one() -> u64 {
    1
}

impl Presence {
    /// Parses the data of a node. The error says why it is not valid.
    pub(super) fn parse(data: &[u8]) -> Result<Self, String> {
        let presence: Presence = parse(data)?;
        if presence.weight == 0 {
            return Err("weight 0; must be at least 1".into());
        }
        Ok(presence)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Returns the member as a strategy sees it.
    pub(super) fn member(&self, id: &str) -> strategy::Member {
        let member = strategy::Member::new(id).weight(self.weight);
        let member = self.capacity.into_iter().fold(member, strategy::Member::capacity);
        self.labels.iter().fold(member, |member, (key, value)| member.label(key, value))
    }
}

/// A member's assignment. The leader and the member write it in turn, each at the version that it has read. So the
/// acknowledgement of a member that hands a partition over, and the next grant, are versions of one node.
///
/// A partition is free if no member has it `assigned` or `held`, and no node in `owned` is for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// The registration of the member. Nothing is assigned here to another registration of the same member.
    pub(super) member: String,
    /// What the member should hold. Only the leader changes it.
    #[serde(default)]
    pub(super) assigned: BTreeSet<Arc<str>>,
    /// What the member holds or takes, with a node in `owned` for each. Only the member adds to it.
    #[serde(default)]
    pub(super) held: BTreeSet<Arc<str>>,
    /// The member leaves: it wants to hand everything over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) leaving: bool,
    /// A leader has noticed that the member is absent, when it wrote this. Since then the partitions are reserved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) absent: bool,
    /// The member's count of its claims, which is part of the names of these nodes.
    #[serde(default)]
    pub(super) claims: u64,
}

impl Assignment {
    /// Parses the data of a node. The error says why it is not valid.
    pub(super) fn parse(data: &[u8]) -> Result<Self, String> {
        parse(data)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Returns the partitions that the member holds and has to hand over.
    pub(super) fn revoked(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held.difference(&self.assigned)
    }

    /// Returns whether the member has to answer: it holds what it should not, or not yet what it should.
    pub(super) fn is_pending(&self) -> bool {
        self.assigned != self.held
    }
}

/// What operators have set, for all leaders.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Config {
    /// The member that should have a partition while it is present.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pins: BTreeMap<Arc<str>, String>,
    /// The members that get nothing.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) drained: BTreeSet<String>,
    /// Counts the requests to move at once what absent members had.
    #[serde(default)]
    pub(super) rebalances: u64,
    /// Fields that this version does not know. They are written back unchanged.
    #[serde(flatten)]
    pub(super) others: serde_json::Map<String, serde_json::Value>,
}

impl Config {
    /// Parses the data of the node, which is empty until an operator sets something.
    pub(super) fn parse(data: &[u8]) -> Result<Self, String> {
        if data.is_empty() { Ok(Config::default()) } else { parse(data) }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|error| format!("{}: {error}", quoted_bytes(data)))
}

fn bytes(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_default()
}
