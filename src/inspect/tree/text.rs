//! A tree as indented text.

use std::fmt;

use super::value::{AssignerMember, BalancerMember, DoubleBarrier, Entry, Group, Instance, KazooSetPartitioner, Node};
use super::value::{NodeStat, PartitionAssigner, Queue, Recipe, Semaphore, Service, ThroughputBalancer, Tree};
use super::value::{UnreadableInstance, UnreadableRecord};
use crate::util::path::{quoted, split};

/// How far each level is indented.
const INDENT: usize = 2;
/// How many levels are indented. Deeper nodes are shown with their full paths.
const MOST_LEVELS: usize = 32;

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            let is_named = (1..=MOST_LEVELS).contains(&node.depth);
            let width = node.depth.min(MOST_LEVELS) * INDENT;
            write!(f, "{:width$}{}", "", if is_named { node.name() } else { &node.path })?;
            for (at, line) in node.to_string().lines().enumerate() {
                if at == 0 {
                    write!(f, ": {line}")?;
                } else {
                    write!(f, "\n{:width$}  {line}", "")?;
                }
            }
        }
        self.denied.iter().try_for_each(|path| write!(f, "\nnot readable: {path}"))
    }
}

/// Shows what the node is, without its path; then its contents, each on a separate line.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.recipes[..], &self.stat) {
            ([], Some(stat)) => write!(f, "{stat}"),
            ([], None) => f.write_str("not read"),
            ([first, others @ ..], _) => {
                write!(f, "{first}")?;
                others.iter().try_for_each(|recipe| write!(f, "\n{recipe}"))
            }
        }
    }
}

impl fmt::Display for NodeStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} children", self.data_length, self.num_children)?;
        self.session_id.iter().try_for_each(|id| write!(f, ", session {id:#x}"))
    }
}

/// Shows what the recipe is; then its contents, each on a separate line.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipe::Line(line) => {
                let (hold, wait, left) = (line.holders().count(), line.waiting().count(), line.sequence_numbers_left);
                write!(f, "line, {hold} hold, {wait} wait, {left} numbers left")?;
                each(f, "", &line.places)
            }
            Recipe::Semaphore(semaphore) => write!(f, "{semaphore}"),
            Recipe::DoubleBarrier(barrier) => write!(f, "{barrier}"),
            Recipe::Queue(queue) => write!(f, "{queue}"),
            Recipe::ThroughputBalancer(balancer) => write!(f, "{balancer}"),
            Recipe::PartitionAssigner(assigner) => write!(f, "{assigner}"),
            Recipe::KazooSetPartitioner(partitioner) => write!(f, "{partitioner}"),
            Recipe::Service(service) => write!(f, "{service}"),
            Recipe::Group(group) => write!(f, "{group}"),
        }
    }
}

impl fmt::Display for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (leases, wait) = (self.leases.len(), self.line.places.len());
        write!(f, "semaphore, {leases} leases, {wait} wait")?;
        each(f, "lease ", &self.leases)?;
        for place in &self.line.places {
            write!(f, "\n{} waits", place.name())?;
            match &place.owner {
                Some(owner) => write!(f, ", {owner}")?,
                None => f.write_str(", not readable")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for DoubleBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = if self.is_ready() { "ready" } else { "not ready" };
        write!(f, "double barrier, {} members, {ready}", self.members.len())?;
        each(f, "member ", &self.members)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (claims, producers, letters) = (self.claims.len(), self.producers.len(), self.dead_letters.len());
        write!(f, "queue, {} items, {claims} claims, {producers} producers, {letters} dead letters", self.depth)?;
        each(f, "claim ", &self.claims)?;
        each(f, "producer ", self.producers.iter().map(WithoutData))?;
        each(f, "dead letter ", &self.dead_letters)
    }
}

impl fmt::Display for ThroughputBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.len();
        match self.maximum {
            Some(maximum) => write!(f, "throughput balancer, maximum {maximum}, {members} members")?,
            None => write!(f, "throughput balancer, no maximum, {members} members")?,
        }
        each(f, "", &self.members)?;
        each(f, "", &self.leader.places)
    }
}

impl fmt::Display for BalancerMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.id, self.throughput) {
            (Some(id), Some(throughput)) => write!(f, "{} has {throughput}", quoted(id))?,
            _ => f.write_str("no record")?,
        }
        write!(f, ", {}", WithoutData(&self.entry))
    }
}

impl fmt::Display for PartitionAssigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.members.iter().filter(|member| member.is_present()).count();
        let (away, partitions) = (self.members.len() - present, self.partitions);
        write!(f, "partition assigner, {present} present, {away} away, {partitions} partitions, {} held", self.owned)?;
        each(f, "member ", &self.members)?;
        each(f, "unreadable ", &self.unreadable)?;
        each(f, "", &self.leader.places)
    }
}

impl fmt::Display for AssignerMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (assigned, held, handing_over) = (self.assigned.len(), self.held.len(), self.handing_over().count());
        write!(f, "{} ", quoted(&self.id))?;
        match (self.is_present(), self.is_returning) {
            (false, _) => write!(f, "away, {assigned} reserved")?,
            (true, true) => write!(f, "returning, {assigned} reserved")?,
            (true, false) => write!(f, "present, {assigned} assigned, {held} held, {handing_over} handing over")?,
        }
        if self.is_drained {
            f.write_str(", drained")?;
        }
        self.nodes.iter().try_for_each(|node| write!(f, ", {}", WithoutData(node)))
    }
}

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (directory, name) = split(&self.path);
        write!(f, "{}/{name}: {}", split(directory).1, self.reason)
    }
}

impl fmt::Display for KazooSetPartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (members, partitions) = (self.members.len(), self.partitions);
        write!(f, "kazoo set partitioner, {members} members, {partitions} partitions, {} held", self.held)?;
        each(f, "member ", &self.members)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service, {} instances, {} unreadable", self.instances.len(), self.unreadable.len())?;
        each(f, "instance ", &self.instances)?;
        each(f, "unreadable ", &self.unreadable)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", WithoutData(&self.entry), quoted(&self.endpoint()))?;
        self.ssl_port.iter().try_for_each(|port| write!(f, ", TLS port {port}"))?;
        write!(f, ", {}{}", self.service_type, if self.enabled { "" } else { ", disabled" })
    }
}

impl fmt::Display for UnreadableInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", WithoutData(&self.entry), self.reason)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group, {} members", self.members.len())?;
        each(f, "member ", &self.members)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Some(owner) => write!(f, "{}, {owner}", self.name()),
            None => write!(f, "{}, not readable", self.name()),
        }
    }
}

/// Shows an entry without its data, which is a number or a record for programs.
struct WithoutData<'a>(&'a Entry);

impl fmt::Display for WithoutData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        match (&self.0.owner, self.0.session_id()) {
            (None, _) => write!(f, "{name}, not readable"),
            (Some(owner), Some(session)) => write!(f, "{name}, session {session:#x}, token {}", owner.fencing_token),
            (Some(owner), None) => write!(f, "{name}, no session, token {}", owner.fencing_token),
        }
    }
}

fn each<T: fmt::Display>(f: &mut fmt::Formatter<'_>, what: &str, all: impl IntoIterator<Item = T>) -> fmt::Result {
    all.into_iter().try_for_each(|one| write!(f, "\n{what}{one}"))
}
