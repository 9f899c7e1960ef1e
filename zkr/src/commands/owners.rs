//! Who owns the nodes in what was found.

use zookeeper_recipes::inspect::{
    DoubleBarrier, Entry, KazooSetPartitioner, Line, Owner, Place, Queue, Recipe, Semaphore, Service, Tree,
};

/// Returns the owners of all nodes of a line, as far as they could be read.
pub fn of_line(line: &Line) -> impl Iterator<Item = &Owner> {
    line.places.iter().filter_map(|place: &Place| place.owner.as_ref())
}

/// Returns the owners of all nodes that belong to recipes, as far as they could be read.
pub fn of_tree(tree: &Tree) -> impl Iterator<Item = &Owner> {
    tree.nodes.iter().flat_map(|node| &node.recipes).flat_map(of_recipe)
}

fn of_recipe(recipe: &Recipe) -> Vec<&Owner> {
    let (lines, entries): (Option<&Line>, Vec<&Entry>) = match recipe {
        Recipe::Line(line) => (Some(line), Vec::new()),
        Recipe::Semaphore(Semaphore { line, leases, .. }) => (Some(line), leases.iter().collect()),
        Recipe::DoubleBarrier(DoubleBarrier { ready, members, .. }) => (None, ready.iter().chain(members).collect()),
        Recipe::Queue(Queue { claims, producers, .. }) => (None, claims.iter().chain(producers).collect()),
        Recipe::ThroughputBalancer(balancer) => {
            (Some(&balancer.leader), balancer.members.iter().map(|member| &member.entry).collect())
        }
        Recipe::PartitionAssigner(assigner) => {
            (Some(&assigner.leader), assigner.members.iter().flat_map(|member| &member.nodes).collect())
        }
        Recipe::KazooSetPartitioner(KazooSetPartitioner { members, .. }) => (None, members.iter().collect()),
        Recipe::Service(Service { instances, unreadable, .. }) => {
            let unreadable = unreadable.iter().map(|instance| &instance.entry);
            (None, instances.iter().map(|instance| &instance.entry).chain(unreadable).collect())
        }
        Recipe::Group(group) => (None, group.members.iter().collect()),
        // Nothing is known about a recipe of a later version.
        _ => (None, Vec::new()),
    };
    lines.into_iter().flat_map(of_line).chain(entries.into_iter().filter_map(|entry| entry.owner.as_ref())).collect()
}
