//! What has changed between two looks at an assigner.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use zookeeper_recipes::partition_assigner::{AssignerState, MemberInfo, PartitionInfo, UnreadableNode};

use crate::output::count;

/// A change of an assigner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The first look: how much there is.
    Watching { members: usize, partitions: usize, leader: Option<String> },
    /// A member is present.
    Joined { member: String },
    /// A member is not present any more.
    Left { member: String },
    /// A member is present again, and nothing of what it had before is confirmed yet.
    Rejoined { member: String },
    /// Operators have drained a member.
    Drained { member: String },
    /// Operators let a member have partitions again.
    Undrained { member: String },
    /// Another member leads, or none.
    Leader { from: Option<String>, to: Option<String> },
    /// Another member holds a partition, or none; or the same one has taken it again, with another token.
    Partition { partition: String, from: Option<String>, to: Option<String>, token: Option<i64> },
    /// Operators have pinned a partition.
    Pinned { partition: String, member: String },
    /// Operators have unpinned a partition.
    Unpinned { partition: String },
    /// Operators have asked to move what absent members had.
    Rebalance,
    /// A node cannot be read.
    Unreadable { node: String, why: String },
    /// A node can be read again, or is gone.
    NotUnreadable { node: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leader = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".to_owned());
        let owner = |id: &Option<String>| id.clone().unwrap_or_else(|| "unowned".to_owned());
        match self {
            Change::Watching { members, partitions, leader: id } => {
                let (members, partitions) =
                    (count(*members, "member", "members"), count(*partitions, "partition", "partitions"));
                write!(f, "watching: {members} present, {partitions}, leader {}", leader(id))
            }
            Change::Joined { member } => write!(f, "member {member} joined"),
            Change::Left { member } => write!(f, "member {member} left"),
            Change::Rejoined { member } => write!(f, "member {member} left and joined again"),
            Change::Drained { member } => write!(f, "member {member} drained"),
            Change::Undrained { member } => write!(f, "member {member} undrained"),
            Change::Leader { from, to } => write!(f, "leader: {} -> {}", leader(from), leader(to)),
            Change::Partition { partition, from, to, .. } => {
                write!(f, "partition {partition}: {} -> {}", owner(from), owner(to))
            }
            Change::Pinned { partition, member } => write!(f, "partition {partition} pinned to {member}"),
            Change::Unpinned { partition } => write!(f, "partition {partition} unpinned"),
            Change::Rebalance => f.write_str("rebalance asked for"),
            Change::Unreadable { node, why } => write!(f, "unreadable: {node}: {why}"),
            Change::NotUnreadable { node } => write!(f, "not unreadable any more: {node}"),
        }
    }
}

/// Returns what there is at the first look.
pub fn first(state: &AssignerState) -> Vec<Change> {
    let watching = Change::Watching {
        members: state.members.iter().filter(|member| member.is_present).count(),
        partitions: state.partitions.len(),
        leader: state.leader.clone(),
    };
    std::iter::once(watching).chain(unreadable(&AssignerState::default(), state)).collect()
}

/// Returns what is different in `now`: first the members, then what operators have set, then the partitions.
pub fn between(before: &AssignerState, now: &AssignerState) -> Vec<Change> {
    let mut changes: Vec<Change> =
        both(&before.members, &now.members, |member| &member.id).flat_map(of_member).collect();
    if before.leader != now.leader {
        changes.push(Change::Leader { from: before.leader.clone(), to: now.leader.clone() });
    }
    if before.rebalances < now.rebalances {
        changes.push(Change::Rebalance);
    }
    changes.extend(both(&before.partitions, &now.partitions, |partition| &partition.name).flat_map(of_partition));
    changes.extend(unreadable(before, now));
    changes
}

fn of_member((before, now): (Option<&MemberInfo>, Option<&MemberInfo>)) -> Vec<Change> {
    let Some(member) = now.or(before).map(|member| member.id.clone()) else { return Vec::new() };
    let is = |of: fn(&MemberInfo) -> bool| [before, now].map(|member| member.is_some_and(of));
    let presence = match is(|member| member.is_present) {
        [false, true] => Some(Change::Joined { member: member.clone() }),
        [true, false] => Some(Change::Left { member: member.clone() }),
        [true, true] if is(|member| member.is_returning) == [false, true] => {
            Some(Change::Rejoined { member: member.clone() })
        }
        _ => None,
    };
    let drained = match is(|member| member.is_drained) {
        [false, true] => Some(Change::Drained { member }),
        [true, false] => Some(Change::Undrained { member }),
        _ => None,
    };
    presence.into_iter().chain(drained).collect()
}

fn of_partition((before, now): (Option<&PartitionInfo>, Option<&PartitionInfo>)) -> Vec<Change> {
    let Some(partition) = now.or(before).map(|partition| partition.name.clone()) else { return Vec::new() };
    let [from, to] = [before, now].map(|one| one.and_then(|one| one.owner.clone()));
    let [pinned_before, pinned] = [before, now].map(|one| one.and_then(|one| one.pinned.clone()));
    let [token_before, token] = [before, now].map(|one| one.and_then(|one| one.token));
    let pin = (pinned_before != pinned).then(|| match pinned {
        Some(member) => Change::Pinned { partition: partition.clone(), member },
        None => Change::Unpinned { partition: partition.clone() },
    });
    let moved = (from != to || token_before != token).then_some(Change::Partition { partition, from, to, token });
    pin.into_iter().chain(moved).collect()
}

fn unreadable(before: &AssignerState, now: &AssignerState) -> Vec<Change> {
    let change = |(before, now): (Option<&UnreadableNode>, Option<&UnreadableNode>)| match (before, now) {
        (_, Some(now)) if before != Some(now) => {
            Some(Change::Unreadable { node: now.node.clone(), why: now.why.clone() })
        }
        (Some(before), None) => Some(Change::NotUnreadable { node: before.node.clone() }),
        _ => None,
    };
    both(&before.unreadable, &now.unreadable, |node| &node.node).filter_map(change).collect()
}

/// Returns each pair with the same name, in the order of `now`; what is in `before` alone comes first.
fn both<'a, T>(
    before: &'a [T],
    now: &'a [T],
    name: fn(&T) -> &String,
) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)> {
    let mut rest: BTreeMap<&String, &T> = before.iter().map(|one| (name(one), one)).collect();
    let pairs: Vec<_> = now.iter().map(|one| (rest.remove(name(one)), Some(one))).collect();
    let gone = before.iter().filter(move |one| rest.contains_key(name(one)));
    gone.map(|one| (Some(one), None)).chain(pairs)
}
