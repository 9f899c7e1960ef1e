//! Decides which nodes belong to partition assigners, and which directories to kazoo's `SetPartitioner`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::line::Line;
use super::super::role::Role;
use super::found::{Content, Found};
use super::lines::line_or_empty;
use super::value::{AssignerMember, Entry, KazooSetPartitioner, PartitionAssigner, UnreadableRecord};
use crate::layout::kazoo::is_shallow_member;
use crate::layout::partition_assigner::{
    ASSIGNMENTS, Assignment, CONFIG, Config, EPOCH, KAZOO, LEADER, MEMBERS, OWNED, Presence, read_member, read_owned,
};
use crate::util::natural::{natural, sorted};
use crate::util::path::join;

/// Why a node that was found was not read.
const NO_PERMISSION: &str = "no permission to read it";

/// Takes the nodes of an assigner. `None` if there is none.
pub(super) fn assigner(found: &mut Found, path: &str) -> Option<PartitionAssigner> {
    let [members, assignments, owned, epoch] = [MEMBERS, ASSIGNMENTS, OWNED, EPOCH].map(|name| join(path, name));
    let is_assigner = found.has(&members) && found.has(&assignments) && (found.has(&owned) || found.has(&epoch));
    if !is_assigner {
        return None;
    }
    let mut unreadable = Vec::new();
    let config = config(found, path, &mut unreadable);
    let mut partitions: BTreeSet<Arc<str>> = config.pins.keys().cloned().collect();
    let mut all: BTreeMap<String, AssignerMember> = BTreeMap::new();
    for (id, member) in present(found, &members, &mut unreadable) {
        all.entry(id).or_default().nodes.push(member);
    }
    for (id, entry, assignment) in assigned(found, &assignments, &mut unreadable) {
        let member = all.entry(id).or_default();
        partitions.extend(assignment.assigned.union(&assignment.held).cloned());
        let is_named = |node: &Entry| read_member(node.name()).is_some_and(|(_, now)| now == assignment.member);
        // Of what an unreadable one says, nothing is known.
        member.is_returning =
            !assignment.member.is_empty() && !member.nodes.is_empty() && !member.nodes.iter().any(is_named);
        (member.assigned, member.held) = (sorted(&assignment.assigned), sorted(&assignment.held));
        member.assignment = Some(entry);
    }
    let claims = found.leaves(&owned, |name, content| read_owned(name).is_some() && *content == Content::Unread);
    for name in &claims {
        partitions.extend(read_owned(name).map(|(partition, _)| partition.into()));
        found.take(&join(&owned, name));
    }
    if !found.leaves(path, |name, _| name == EPOCH).is_empty() {
        found.take(&epoch);
    }
    for (id, member) in &mut all {
        (member.id, member.is_drained) = (id.clone(), config.drained.contains(id));
    }
    let leader: Line = line_or_empty(found, &join(path, LEADER));
    let mut members: Vec<_> = all.into_values().collect();
    members.sort_by(|one, other| natural(&one.id, &other.id));
    Some(PartitionAssigner { leader, members, partitions: partitions.len(), owned: claims.len(), unreadable })
}

/// Takes what operators have set.
fn config(found: &mut Found, path: &str, unreadable: &mut Vec<UnreadableRecord>) -> Config {
    if found.leaves(path, |name, _| name == CONFIG).is_empty() {
        return Config::default();
    }
    let path = join(path, CONFIG);
    let content = found.take(&path);
    let reason = match content {
        Some(Content::Read { data, .. }) => match Config::parse(&data) {
            Ok(config) => return config,
            Err(why) => why,
        },
        Some(Content::Unread | Content::Denied) | None => NO_PERMISSION.to_owned(),
    };
    unreadable.push(UnreadableRecord { path, reason });
    Config::default()
}

/// Takes the nodes of the members that are present, oldest first, each with the id of its member.
fn present(found: &mut Found, members: &str, unreadable: &mut Vec<UnreadableRecord>) -> Vec<(String, Entry)> {
    let is_member = |name: &str, content: &Content| {
        read_member(name).is_some() && (content.is_ephemeral() || *content == Content::Denied)
    };
    let names = found.leaves(members, is_member);
    let mut present = Vec::new();
    for entry in found.entries(members, names) {
        let Some((id, _)) = read_member(entry.name()) else { continue };
        let reason = match &entry.owner {
            Some(owner) => Presence::parse(&owner.data).err(),
            None => Some(NO_PERMISSION.to_owned()),
        };
        unreadable.extend(reason.map(|reason| UnreadableRecord { path: entry.path.clone(), reason }));
        present.push((id.to_owned(), entry));
    }
    present
}

/// Takes the assignments of all members, each with the id of its member.
fn assigned(
    found: &mut Found,
    assignments: &str,
    unreadable: &mut Vec<UnreadableRecord>,
) -> Vec<(String, Entry, Assignment)> {
    let names = found.leaves(assignments, |_, content| *content != Content::Unread && !content.is_ephemeral());
    let mut all = Vec::new();
    for entry in found.entries(assignments, names) {
        let assignment = match &entry.owner {
            Some(owner) => Assignment::parse(&owner.data),
            None => Err(NO_PERMISSION.to_owned()),
        };
        let assignment = assignment.unwrap_or_else(|reason| {
            unreadable.push(UnreadableRecord { path: entry.path.clone(), reason });
            Assignment::default()
        });
        all.push((entry.name().to_owned(), entry, assignment));
    }
    all
}

/// Takes the members of kazoo's `SetPartitioner`. Its locks are left: each is a line of its own. `None` if there is
/// none.
pub(super) fn kazoo_partitioner(found: &mut Found, path: &str) -> Option<KazooSetPartitioner> {
    let [locks, party] = KAZOO.map(|name| join(path, name));
    if !found.has(&locks) || !found.has(&party) {
        return None;
    }
    let members = found.leaves(&party, |name, content| is_shallow_member(name) && content.is_ephemeral());
    let partitions: Vec<String> = found.children(&locks).map(|name| join(&locks, name)).collect();
    let is_lock = |name: &str, _: &Content| Role::of(name) == Some(Role::KazooLock);
    let held = partitions.iter().filter(|partition| !found.leaves(partition, is_lock).is_empty()).count();
    if members.is_empty() && held == 0 {
        return None;
    }
    Some(KazooSetPartitioner { members: found.entries(&party, members), partitions: partitions.len(), held })
}
