//! The nodes on the servers after every step, and the results that they allow a member to get.

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
    /// The nodes that existed when it opened, and those that joined later.
    members: BTreeSet<String>,
    /// None of these nodes exists any more.
    is_dead: bool,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    /// The names of the nodes that exist.
    there: BTreeSet<String>,
    rounds: BTreeMap<i64, Round>,
    /// The barrier's node when it was last checked: its latest change of children, and its data version.
    seen: Option<(i64, i32)>,
    violation: Option<String>,
}

/// A member's place in a round that it has entered.
#[derive(Debug, Clone)]
pub(super) struct Inside {
    round: i64,
    node: String,
}

/// Checks the servers after each step.
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

    /// Returns the nodes of a member that were created after the transaction `mark`.
    fn of<'a>(&'a self, member: &'a str, mark: i64) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.nodes.iter().filter(move |(_, node)| node.member == member && node.czxid > mark)
    }
}

impl Ledger {
    /// Starts to watch a world.
    pub(super) fn watch(&self, world: &World, threshold: usize) {
        *lock(&self.threshold) = threshold;
        *lock(&self.is_keeper) = world.dialect != Dialect::ZooKeeper;
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
    }

    /// Drops the world, which refers to this ledger.
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

    /// Checks the open round. `vanished` nodes have gone in this step, perhaps after the round opened.
    fn look_at_round(&self, state: &mut State, czxid: i64, joined: Vec<String>, vanished: usize, trace: &Trace) {
        if !state.rounds.contains_key(&czxid) {
            let there = state.there.iter().filter(|name| state.nodes[*name].czxid < czxid);
            let members: BTreeSet<String> = there.cloned().collect();
            let who: Vec<&str> = members.iter().map(|name| &*state.nodes[name].member).collect();
            trace.note(format_args!("round {czxid:x} opens with {who:?}"));
            let threshold = *lock(&self.threshold);
            if members.len() + vanished < threshold {
                state.object(format!("a round for {threshold} opened with only {members:?}"));
            }
            let old = state.rounds.values().flat_map(|round| &round.members);
            if let Some(inside) = old.into_iter().find(|name| state.is_there(name)).cloned() {
                state.object(format!("a round opened while {inside} of an earlier one was inside"));
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

    /// Returns the transaction of a member's newest node: later nodes belong to its next call.
    pub(super) fn mark(&self, member: &str) -> i64 {
        self.look();
        let state = lock(&self.state);
        state.of(member, i64::MIN).map(|(_, node)| node.czxid).max().unwrap_or(i64::MIN)
    }

    /// Returns whether a member has a node.
    pub(super) fn has_node(&self, member: &str) -> bool {
        self.look();
        lock(&self.state).of(member, i64::MIN).any(|(_, node)| node.gone.is_none())
    }

    /// Returns whether a member is in a round that has opened.
    pub(super) fn is_counted(&self, member: &str) -> bool {
        self.look();
        let state = lock(&self.state);
        let of = state.of(member, i64::MIN).filter(|(_, node)| node.gone.is_none());
        of.into_iter().any(|(name, _)| state.rounds.values().any(|round| round.members.contains(name)))
    }

    /// Checks that a member was right to enter, and returns its place if its node still exists. `heard_by` returns when
    /// the member must know of a deletion at the given time.
    pub(super) fn entered(&self, member: &str, mark: i64, heard_by: impl Fn(Instant) -> Instant) -> Option<Inside> {
        self.look();
        let ready = lock(&self.world).as_ref().and_then(|(server, _)| server.stat(READY)).map(|stat| stat.czxid);
        let mut state = lock(&self.state);
        // On Keeper a request of the previous session may be carried out late, and leave a newer node.
        let own = state.of(member, mark).max_by_key(|(name, node)| (self.may_be_own(name), node.czxid));
        let (name, node) = own.map(|(name, node)| (name.clone(), node.clone()))?;
        if let Some(gone) = node.gone {
            if Instant::now() > heard_by(gone) {
                state.object(format!("{member} entered {:?} after its node was gone", gone.elapsed()));
            }
            return None;
        }
        let round = ready.and_then(|czxid| Some((czxid, state.rounds.get(&czxid)?)));
        match round {
            Some((czxid, round)) if round.members.contains(&name) => Some(Inside { round: czxid, node: name }),
            Some((czxid, _)) => {
                state.object(format!("{member} entered, but is not in the round {czxid:x}"));
                None
            }
            None => {
                state.object(format!("{member} entered, but no round is open"));
                None
            }
        }
    }

    /// Checks that a member whose `enter` timed out was right to give up.
    pub(super) fn gave_up(&self, member: &str, mark: i64) {
        self.look();
        let mut state = lock(&self.state);
        let counted = state
            .of(member, mark)
            .filter(|(name, node)| node.gone.is_some() || self.may_be_own(name))
            .find(|(name, node)| !node.by_hand && state.rounds.values().any(|round| round.members.contains(*name)));
        let there = state.of(member, mark).find(|(name, node)| node.gone.is_none() && self.is_connected(name));
        let wrong = match (counted, there) {
            (Some((name, _)), _) => Some(format!("{member} has given up, but its node {name} was in a round")),
            (_, Some((name, _))) => Some(format!("{member} has given up, but its node {name} still exists")),
            _ => None,
        };
        if let Some(wrong) = wrong {
            state.object(wrong);
        }
    }

    /// Checks that a member has left as its call returned, and if `all`, that all others have.
    pub(super) fn left(&self, member: &str, inside: &Inside, all: bool) {
        self.look();
        let mut state = lock(&self.state);
        if state.is_there(&inside.node) {
            state.object(format!("{member} has left, but its node still exists"));
        }
        let others = state.rounds.get(&inside.round).into_iter().flat_map(|round| &round.members);
        if let Some(other) = others.into_iter().find(|name| all && state.is_there(name)).cloned() {
            let who = state.nodes[&other].member.clone();
            let text = format!("leave() of {member} returned that all have left, but {who} is inside with {other}");
            state.object(text);
        }
    }

    /// Returns whether a node may belong to its member's present session, which on Keeper is always connected.
    fn may_be_own(&self, name: &str) -> bool {
        !*lock(&self.is_keeper) || self.is_connected(name)
    }

    /// Returns whether the session of a node is connected. On Keeper a session cannot reconnect, and leaves its nodes
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
