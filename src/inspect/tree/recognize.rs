//! Decides which node belongs to which recipe. No I/O.

use std::collections::{BTreeMap, HashMap};

use super::super::line::is_session;
use super::super::role::Role;
use super::found::{Content, Found, Place, is_at_or_below};
use super::lines::{line, line_or_empty};
use super::partitions::{assigner, kazoo_partitioner};
use super::queues::queues;
use super::services::service;
use super::value::{
    BalancerMember, DoubleBarrier, Entry, Group, Node, NodeStat, Recipe, Semaphore, ThroughputBalancer,
};
use crate::layout::double_barrier::READY;
use crate::layout::kazoo::{self, SEMAPHORE_LINE};
use crate::layout::parts::{is_hex_uuid, is_uuid};
use crate::layout::throughput_balancer::{ACKS, CONFIG, EPOCH, LEADER, MAXIMUM, MEMBERS};
use crate::layout::{latch, partition_assigner, semaphore, throughput_balancer};
use crate::util::path::join;
use crate::util::znode::Stat;

/// The directories of an assigner.
const DIRECTORIES_OF_ASSIGNER: [&str; 4] = [
    partition_assigner::LEADER,
    partition_assigner::MEMBERS,
    partition_assigner::ASSIGNMENTS,
    partition_assigner::OWNED,
];

/// The length of the data of an atomic number.
const ATOMIC_NUMBER_BYTES: i32 = 8;

/// Returns the nodes at `root` and below with their recipes. Each node that was found is one of these, or part of a
/// recipe, or a directory of a recipe that contains nothing else.
///
/// Recipes with directories below their path are recognized first, because these directories could also be recipes of
/// their own.
pub(super) fn nodes(root: &str, contents: HashMap<String, Content>) -> Vec<Node> {
    let mut found = Found::new(contents);
    let mut recipes: BTreeMap<Place, Vec<Recipe>> = BTreeMap::new();
    let mut used = Vec::new();
    for path in parents(&found) {
        if let Some(balancer) = balancer(&mut found, &path) {
            used.extend([CONFIG, LEADER, MEMBERS, ACKS].map(|name| join(&path, name)));
            recipes.entry(Place(path.clone())).or_default().push(Recipe::ThroughputBalancer(balancer));
        }
        if let Some(assigner) = assigner(&mut found, &path) {
            used.extend(DIRECTORIES_OF_ASSIGNER.map(|name| join(&path, name)));
            recipes.entry(Place(path.clone())).or_default().push(Recipe::PartitionAssigner(assigner));
        }
        if let Some(partitioner) = kazoo_partitioner(&mut found, &path) {
            used.extend(partition_assigner::KAZOO.map(|name| join(&path, name)));
            recipes.entry(Place(path.clone())).or_default().push(Recipe::KazooSetPartitioner(partitioner));
        }
        if let Some(semaphore) = semaphore(&mut found, &path) {
            used.extend([semaphore::LINE, semaphore::LEASES].map(|name| join(&path, name)));
            recipes.entry(Place(path)).or_default().push(Recipe::Semaphore(semaphore));
        }
    }
    for path in kazoo_semaphores(&found) {
        if let Some(semaphore) = kazoo_semaphore(&mut found, &path) {
            used.push(format!("{path}{SEMAPHORE_LINE}"));
            recipes.entry(Place(path)).or_default().push(Recipe::Semaphore(semaphore));
        }
    }
    let (of_queues, beside) = queues(root, &mut found);
    used.extend(beside);
    let mut directories = found.directories();
    // If the tree begins at a node of a recipe, its directory was not read.
    directories.retain(|path| found.has(path));
    let in_directories =
        directories.into_iter().flat_map(|path| single_directory_recipes(&mut found, &path)).collect::<Vec<_>>();
    for (path, recipe) in of_queues.into_iter().chain(in_directories) {
        recipes.entry(Place(path)).or_default().push(recipe);
    }
    for directory in used {
        if directory != root && !recipes.contains_key(&Place(directory.clone())) && found.is_used_up(&directory) {
            found.take(&directory);
        }
    }
    in_order(root, found, recipes)
}

/// Returns the directories whose children may be directories of a recipe.
fn parents(found: &Found) -> Vec<String> {
    let names = [semaphore::LINE, semaphore::LEASES, MEMBERS, CONFIG, partition_assigner::MEMBERS];
    let is_parent = |path: &String| found.children(path).any(|name| names.contains(&name));
    found.directories().into_iter().filter(is_parent).collect()
}

/// Takes the nodes of the recipes that use only this directory.
fn single_directory_recipes(found: &mut Found, path: &str) -> Vec<(String, Recipe)> {
    let line = line(found, path).map(Recipe::Line);
    let service = service(found, path).map(Recipe::Service);
    let mut recipes = vec![line, service];
    if !is_number(found, path) {
        recipes.push(double_barrier(found, path).map(Recipe::DoubleBarrier));
        recipes.push(group(found, path).map(Recipe::Group));
    }
    recipes.into_iter().flatten().map(|recipe| (path.to_owned(), recipe)).collect()
}

fn semaphore(found: &mut Found, path: &str) -> Option<Semaphore> {
    let [locks, leases] = [semaphore::LINE, semaphore::LEASES].map(|name| join(path, name));
    let names = found.leaves(&leases, |name, _| semaphore::is_lease(name));
    if names.is_empty() && !(found.has(&locks) && found.has(&leases)) {
        return None;
    }
    Some(Semaphore { line: line_or_empty(found, &locks), leases: found.entries(&leases, names) })
}

/// Returns the paths beside which kazoo's semaphores have their lines.
fn kazoo_semaphores(found: &Found) -> Vec<String> {
    let directories = found.directories();
    let paths = directories.iter().flat_map(|path| found.children(path).map(|name| join(path, name)));
    paths.filter_map(|path| kazoo::semaphore_of(&path).map(str::to_owned)).collect()
}

fn kazoo_semaphore(found: &mut Found, path: &str) -> Option<Semaphore> {
    let names = found.leaves(path, |name, content| is_hex_uuid(name) && content.is_ephemeral());
    if names.is_empty() {
        return None;
    }
    Some(Semaphore {
        line: line_or_empty(found, &format!("{path}{SEMAPHORE_LINE}")),
        leases: found.entries(path, names),
    })
}

fn balancer(found: &mut Found, path: &str) -> Option<ThroughputBalancer> {
    let [config, leader, members, acks, epoch] = [CONFIG, LEADER, MEMBERS, ACKS, EPOCH].map(|name| join(path, name));
    let has_maximum = !found.leaves(&config, |name, _| name == MAXIMUM).is_empty();
    let names = found.leaves(&members, |name, _| throughput_balancer::is_member(name));
    let has_members = !names.is_empty() && [&leader, &acks, &epoch].iter().any(|path| found.has(path));
    if !has_maximum && !has_members {
        return None;
    }
    let maximum = if has_maximum { found.take(&join(&config, MAXIMUM)) } else { None };
    for name in found.leaves(&acks, |name, content| throughput_balancer::is_ack(name) && *content == Content::Unread) {
        found.take(&join(&acks, &name));
    }
    if !found.leaves(path, |name, _| name == EPOCH).is_empty() {
        found.take(&epoch);
    }
    Some(ThroughputBalancer {
        maximum: maximum.and_then(|content| number_in(&content)),
        leader: line_or_empty(found, &leader),
        members: found.entries(&members, names).into_iter().map(member).collect(),
    })
}

fn number_in(content: &Content) -> Option<u64> {
    match content {
        Content::Read { data, .. } => std::str::from_utf8(data).ok()?.trim().parse().ok(),
        Content::Unread | Content::Denied => None,
    }
}

fn member(entry: Entry) -> BalancerMember {
    let record = entry.owner.as_ref().and_then(|owner| serde_json::from_slice(&owner.data).ok());
    let record: serde_json::Value = record.unwrap_or_default();
    let id = record.get("id").and_then(|id| id.as_str()).map(str::to_owned);
    BalancerMember { id, throughput: record.get("throughput").and_then(|share| share.as_u64()), entry }
}

/// Returns whether the node is an atomic number: each handle of this library that writes one has a node below it, and
/// some have the line of their lock there.
fn is_number(found: &Found, path: &str) -> bool {
    found.stat(path).is_some_and(|stat| stat.data_length == ATOMIC_NUMBER_BYTES)
        && found.children(path).all(|name| is_uuid(name) || Role::of(name).is_some())
}

/// Takes a double barrier, whose members are all named by UUIDs. If there is a node `ready`, one such name is enough,
/// because every other node counts as a member.
fn double_barrier(found: &mut Found, path: &str) -> Option<DoubleBarrier> {
    let is_ready = |name: &str, content: &Content| {
        name == READY && matches!(content, Content::Read { stat, .. } if !is_session(stat.ephemeral_owner))
    };
    let ready = !found.leaves(path, is_ready).is_empty();
    let names = found.leaves(path, |_, content| content.is_ephemeral());
    let uuids = names.iter().filter(|name| is_uuid(name)).count();
    let is_barrier =
        if ready { uuids > 0 || found.children(path).count() == 1 } else { uuids > 0 && uuids == names.len() };
    is_barrier.then(|| DoubleBarrier {
        ready: if ready { found.entry(join(path, READY)) } else { None },
        members: found.entries(path, names),
    })
}

fn group(found: &mut Found, path: &str) -> Option<Group> {
    let names = found.leaves(path, |name, content| content.is_ephemeral() && !latch::is_request(name));
    let members: Vec<_> = names.iter().filter_map(|name| found.entry(join(path, name))).collect();
    (!members.is_empty()).then_some(Group { members })
}

/// Returns the remaining nodes, and those that have recipes, each before those below it.
fn in_order(root: &str, found: Found, recipes: BTreeMap<Place, Vec<Recipe>>) -> Vec<Node> {
    let with_recipes = recipes.into_iter().map(|(place, recipes)| (place, (None, recipes)));
    let mut nodes: BTreeMap<Place, (Option<NodeStat>, Vec<Recipe>)> = with_recipes.collect();
    for (path, content) in found.into_rest() {
        let stat = match content {
            Content::Read { stat, .. } => Some(summary(&stat)),
            Content::Unread | Content::Denied => None,
        };
        nodes.entry(Place(path)).or_default().0 = stat;
    }
    let nodes = nodes.into_iter().filter(|(Place(path), _)| is_at_or_below(path, root));
    nodes.map(|(Place(path), (stat, recipes))| Node { depth: depth(root, &path), path, stat, recipes }).collect()
}

pub(super) fn summary(stat: &Stat) -> NodeStat {
    NodeStat {
        session_id: Some(stat.ephemeral_owner).filter(|&id| is_session(id)),
        created_ms: stat.ctime,
        modified_ms: stat.mtime,
        data_length: stat.data_length.try_into().unwrap_or_default(),
        num_children: stat.num_children.try_into().unwrap_or_default(),
    }
}

fn depth(root: &str, path: &str) -> usize {
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or_default();
    below.split('/').filter(|name| !name.is_empty()).count()
}

#[cfg(test)]
mod tests;
