//! The nodes on the servers after every step, and the results that a member may get because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use zookeeper_recipes::testing::{Dialect, TestingServer};

use crate::trace::Trace;
use crate::world::World;

pub(super) const PATH: &str = "/barrier";
const READY: &str = "/barrier/ready";

/// A node that a member has, or had.
#[derive(Debug, Clone)]
struct Node {
    member: String,
    czxid: i64,
    gone: Option<Instant>,
    /// It was deleted by hand.
    by_hand: bool,
}

/// A round, by the transaction that opened it.
#[derive(Debug, Default)]
struct Round {
    /// Those who were there when it opened, and those who joined.
    members: BTreeSet<String>,
    /// None of them is there any more.
    is_dead: bool,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    /// The names of the nodes that exist.
    there: BTreeSet<String>,
    rounds: BTreeMap<i64, Round>,
    /// The barrier's node as last looked at: its newest child or loss of one, and its data version.
    seen: Option<(i64, i32)>,
    violation: Option<String>,
}

/// A member's place in a round, when it was let in.
#[derive(Debug, Clone)]
pub(super) struct Inside {
    round: i64,
    node: String,
}

/// Looks at the servers after each step.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    threshold: Mutex<usize>,
    is_keeper: Mutex<bool>,
    state: Mutex<State>,
    world: Mutex<Option<(TestingServer, Trace)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn object(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn is_there(&self, name: &str) -> bool {
        self.there.contains(name)
    }

    /// The nodes of a member that were made after the transaction `mark`.
    fn of<'a>(&'a self, member: &'a str, mark: i64) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.nodes.iter().filter(move |(_, node)| node.member == member && node.czxid > mark)
    }
}

impl Ledger {
    /// From now on there is a world to watch.
    pub(super) fn watch(&self, world: &World, threshold: usize) {
        *lock(&self.threshold) = threshold;
        *lock(&self.is_keeper) = world.dialect != Dialect::ZooKeeper;
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
    }

    /// Lets go of the world, which holds this ledger.
    pub(super) fn release(&self) {
        *lock(&self.world) = None;
    }

    pub(super) fn violation(&self) -> Option<String> {
        lock(&self.state).violation.clone()
    }

    pub(super) fn rounds(&self) -> u64 {
        lock(&self.state).rounds.len() as u64
    }

    pub(super) fn object(&self, what: String) {
        lock(&self.state).object(what);
    }

    /// Called after each step: checks whether a member has joined or left.
    pub(super) fn glance(&self) {
        let seen = lock(&self.world).as_ref().and_then(|(server, _)| server.stat(PATH));
        if seen.map(|stat| (stat.pzxid, stat.version)) != lock(&self.state).seen {
            self.look();
        }
    }

    fn look(&self) {
        let world = lock(&self.world);
        let Some((server, trace)) = &*world else { return };
        let mut state = lock(&self.state);
        state.seen = server.stat(PATH).map(|stat| (stat.pzxid, stat.version));
        let names = server.children(PATH);
        let vanished: Vec<String> = state.there.iter().filter(|name| !names.contains(name)).cloned().collect();
        for name in &vanished {
            state.there.remove(name);
            if let Some(node) = state.nodes.get_mut(name) {
                node.gone = Some(Instant::now());
            }
        }
        let mut joined = Vec::new();
        for name in names.iter().filter(|name| *name != "ready") {
            let path = format!("{PATH}/{name}");
            let Some(stat) = server.stat(&path) else { continue };
            if stat.version > 0 {
                joined.push(name.clone());
            }
            if !state.nodes.contains_key(name) {
                let member = String::from_utf8_lossy(&server.get(&path).unwrap_or_default()).into_owned();
                let node = Node { member, czxid: stat.czxid, gone: None, by_hand: false };
                state.nodes.insert(name.clone(), node);
                state.there.insert(name.clone());
            }
        }
        if let Some(ready) = server.stat(READY) {
            self.look_at_round(&mut state, ready.czxid, joined, vanished.len(), trace);
        }
    }

    /// `vanished`: so many have gone in this step, perhaps after the round opened.
    fn look_at_round(&self, state: &mut State, czxid: i64, joined: Vec<String>, vanished: usize, trace: &Trace) {
        if !state.rounds.contains_key(&czxid) {
            let there = state.there.iter().filter(|name| state.nodes[*name].czxid < czxid);
            let members: BTreeSet<String> = there.cloned().collect();
            let who: Vec<&str> = members.iter().map(|name| &*state.nodes[name].member).collect();
            trace.note(format_args!("round {czxid:x} opens with {who:?}"));
            let threshold = *lock(&self.threshold);
            if members.len() + vanished < threshold {
                state.object(format!("a round for {threshold} opened with {members:?} alone"));
            }
            let old = state.rounds.values().flat_map(|round| &round.members);
            if let Some(inside) = old.into_iter().find(|name| state.is_there(name)).cloned() {
                state.object(format!("a round opened while {inside} of the one before was inside"));
            }
            state.rounds.insert(czxid, Round { members, is_dead: false });
        }
        let Some(mut round) = state.rounds.remove(&czxid) else { return };
        for name in joined {
            if round.is_dead && !round.members.contains(&name) {
                state.object(format!("{name} joined a round whose members had all left"));
            }
            round.members.insert(name);
        }
        round.is_dead |= !round.members.iter().any(|name| state.is_there(name));
        state.rounds.insert(czxid, round);
    }

    /// The newest node of a member: later ones belong to its next call.
    pub(super) fn mark(&self, member: &str) -> i64 {
        self.look();
        let state = lock(&self.state);
        state.of(member, i64::MIN).map(|(_, node)| node.czxid).max().unwrap_or(i64::MIN)
    }

    /// Whether a member waits with a node.
    pub(super) fn has_node(&self, member: &str) -> bool {
        self.look();
        lock(&self.state).of(member, i64::MIN).any(|(_, node)| node.gone.is_none())
    }

    /// A member that is in a round that has opened.
    pub(super) fn is_counted(&self, member: &str) -> bool {
        self.look();
        let state = lock(&self.state);
        let of = state.of(member, i64::MIN).filter(|(_, node)| node.gone.is_none());
        of.into_iter().any(|(name, _)| state.rounds.values().any(|round| round.members.contains(name)))
    }

    /// A member was let in; its place, if its node still exists. `heard_by` returns when it must know of a deletion
    /// at the given time.
    pub(super) fn entered(&self, member: &str, mark: i64, heard_by: impl Fn(Instant) -> Instant) -> Option<Inside> {
        self.look();
        let ready = lock(&self.world).as_ref().and_then(|(server, _)| server.stat(READY)).map(|stat| stat.czxid);
        let mut state = lock(&self.state);
        // On Keeper a request of the session before may be carried out late, and leave a newer node.
        let own = state.of(member, mark).max_by_key(|(name, node)| (self.may_be_own(name), node.czxid));
        let (name, node) = own.map(|(name, node)| (name.clone(), node.clone()))?;
        if let Some(gone) = node.gone {
            if Instant::now() > heard_by(gone) {
                state.object(format!("{member} was let in {:?} after its node had gone", gone.elapsed()));
            }
            return None;
        }
        let round = ready.and_then(|czxid| Some((czxid, state.rounds.get(&czxid)?)));
        match round {
            Some((czxid, round)) if round.members.contains(&name) => Some(Inside { round: czxid, node: name }),
            Some((czxid, _)) => {
                state.object(format!("{member} was let in, and is not in the round {czxid:x}"));
                None
            }
            None => {
                state.object(format!("{member} was let in, and no round is open"));
                None
            }
        }
    }

    /// A member was told that its time was over.
    pub(super) fn gave_up(&self, member: &str, mark: i64) {
        self.look();
        let mut state = lock(&self.state);
        let counted = state
            .of(member, mark)
            .filter(|(name, node)| node.gone.is_some() || self.may_be_own(name))
            .find(|(name, node)| !node.by_hand && state.rounds.values().any(|round| round.members.contains(*name)));
        let there = state.of(member, mark).find(|(name, node)| node.gone.is_none() && self.is_connected(name));
        let wrong = match (counted, there) {
            (Some((name, _)), _) => Some(format!("{member} was told that no round opened, and {name} was in one")),
            (_, Some((name, _))) => Some(format!("{member} has given up, and {name} is there still")),
            _ => None,
        };
        if let Some(wrong) = wrong {
            state.object(wrong);
        }
    }

    /// A member was told that it has left; `all` that all have.
    pub(super) fn left(&self, member: &str, inside: &Inside, all: bool) {
        self.look();
        let mut state = lock(&self.state);
        if state.is_there(&inside.node) {
            state.object(format!("{member} has left, and its node is there still"));
        }
        let others = state.rounds.get(&inside.round).into_iter().flat_map(|round| &round.members);
        if let Some(other) = others.into_iter().find(|name| all && state.is_there(name)).cloned() {
            let who = state.nodes[&other].member.clone();
            let text = format!("{member} was told that all have left, and {who} is inside with {other}");
            state.object(text);
        }
    }

    /// Whether a node may be of its member's present session. On Keeper that is one that has a connection.
    fn may_be_own(&self, name: &str) -> bool {
        !*lock(&self.is_keeper) || self.is_connected(name)
    }

    /// Whether the session of a node has a connection. On Keeper one that lost it has no other, and leaves its nodes
    /// for a while.
    fn is_connected(&self, name: &str) -> bool {
        let world = lock(&self.world);
        let Some((server, _)) = &*world else { return false };
        let owner = server.stat(&format!("{PATH}/{name}")).map(|stat| stat.ephemeral_owner);
        server.sessions().iter().any(|session| Some(session.id) == owner && session.connected)
    }

    /// Deletes a node by hand, chosen by number; returns its name.
    pub(super) fn delete_by_hand(&self, server: &TestingServer, number: usize) -> Option<String> {
        self.look();
        let mut state = lock(&self.state);
        let name = state.there.iter().nth(number % state.there.len().max(1))?.clone();
        // Its session may be ending at this moment.
        server.delete_by_hand(&format!("{PATH}/{name}")).ok()?;
        state.nodes.get_mut(&name)?.by_hand = true;
        Some(name)
    }
}
