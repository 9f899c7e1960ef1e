//! The data of the nodes: the presence of a member, which it writes; its assignment, which it and the leader write; and
//! what operators have set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::util::path::quoted_bytes;

/// The options of a member, in the node that shows that it is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    #[serde(default = "one")]
    pub(crate) weight: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
}

fn one() -> u64 {
    1
}

impl Presence {
    /// Parses the data of a node. The error says why it is not valid.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, String> {
        let presence: Presence = parse(data)?;
        if presence.weight == 0 {
            return Err("weight 0; must be at least 1".into());
        }
        Ok(presence)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

/// A member's assignment. The leader and the member write it in turn, each at the version that it has read. So the
/// acknowledgement of a member that hands a partition over, and the next grant, are versions of one node.
///
/// A partition is free if no member has it `assigned` or `held`, and no node in `owned` is for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The registration of the member. Nothing is assigned here to another registration of the same member.
    pub(crate) member: String,
    /// What the member should hold. Only the leader changes it.
    #[serde(default)]
    pub(crate) assigned: BTreeSet<Arc<str>>,
    /// What the member holds or takes, with a node in `owned` for each. Only the member adds to it.
    #[serde(default)]
    pub(crate) held: BTreeSet<Arc<str>>,
    /// The leader is to assign more, once others have handed it over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// The member leaves: it wants to hand everything over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) leaving: bool,
    /// A leader has noticed that the member is absent, when it wrote this. Since then the partitions are reserved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) absent: bool,
    /// The member's count of its claims, which is part of the names of these nodes.
    #[serde(default)]
    pub(crate) claims: u64,
}

impl Assignment {
    /// Parses the data of a node. The error says why it is not valid.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, String> {
        parse(data)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Returns the partitions that the member holds and has to hand over.
    pub(crate) fn revoked(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held.difference(&self.assigned)
    }

    /// Returns whether the member has to answer: it holds what it should not, or not yet what it should.
    pub(crate) fn is_pending(&self) -> bool {
        self.assigned != self.held
    }
}

/// What operators have set, for all leaders.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Config {
    /// The member that should have a partition while it is present.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) pins: BTreeMap<Arc<str>, String>,
    /// The members that get nothing.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) drained: BTreeSet<String>,
    /// Counts the requests to move at once what absent members had.
    #[serde(default)]
    pub(crate) rebalances: u64,
    /// Fields that this version does not know. They are written back unchanged.
    #[serde(flatten)]
    pub(crate) others: serde_json::Map<String, serde_json::Value>,
}

impl Config {
    /// Parses the data of the node, which is empty until an operator sets something.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, String> {
        if data.is_empty() { Ok(Config::default()) } else { parse(data) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|error| format!("{}: {error}", quoted_bytes(data)))
}

fn bytes(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_default()
}
