//! The nodes on the servers after every step, and whose they are: the data of each begins with the number of its
//! instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::testing::TestingServer;

use crate::trace::Trace;
use crate::world::World;

pub(super) const DIR: &str = "/nodes";
/// The paths for which several processes compete.
pub(super) const CONTESTED: [&str; 3] = ["/nodes/same-0", "/nodes/same-1", "/nodes/same-2"];

/// A node at a contested path.
#[derive(Debug, Clone)]
struct Winner {
    czxid: i64,
    session: i64,
    /// The instance whose data it has.
    instance: u64,
    version: i32,
}

impl Winner {
    fn identity(&self) -> (i64, u64) {
        (self.czxid, self.instance)
    }
}

#[derive(Debug, Default)]
struct State {
    /// What the last check found: the directory's newest change, and each contested path's creation and version.
    seen: Vec<Option<(i64, i32)>>,
    winners: BTreeMap<&'static str, Winner>,
    by_hand: BTreeMap<String, Instant>,
    /// Nodes hit by a write that was under way at a deletion by hand, by the transactions that created the nodes.
    spoiled: BTreeSet<i64>,
    /// Every transaction that created a node.
    created: BTreeSet<i64>,
    hand_overs: u64,
    /// Instances that were asked to close, or dropped.
    closing: BTreeSet<u64>,
    /// Instances whose close has returned without an error.
    closed: BTreeSet<u64>,
    violation: Option<String>,
}

/// Checks the servers after each step.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
    world: Mutex<Option<(TestingServer, Trace, Duration)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest time that a message may be under way.
const MOST_DELAY: Duration = Duration::from_secs(30);

/// Returns the number of the instance whose data this is.
fn instance_of(data: &[u8]) -> Option<u64> {
    std::str::from_utf8(data).ok()?.split(':').next()?.parse().ok()
}

impl State {
    fn object(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Returns whether a request under way at a deletion by hand may hit the next node at that path: a server compares
    /// only versions. A message can be delayed beyond the session that sent it.
    fn was_deleted_by_hand(&self, path: &str, timeout: Duration) -> bool {
        self.by_hand.get(path).is_some_and(|at| at.elapsed() < timeout * 3 + MOST_DELAY)
    }
}

impl Ledger {
    /// Starts to watch a world.
    pub(super) fn watch(&self, world: &World) {
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone(), world.timeout));
    }

    /// Drops the world, which refers to this ledger.
    pub(super) fn release(&self) {
        *lock(&self.world) = None;
    }

    pub(super) fn violation(&self) -> Option<String> {
        lock(&self.state).violation.clone()
    }

    pub(super) fn creations(&self) -> u64 {
        lock(&self.state).created.len() as u64
    }

    pub(super) fn hand_overs(&self) -> u64 {
        lock(&self.state).hand_overs
    }

    pub(super) fn object(&self, what: String) {
        lock(&self.state).object(what);
    }

    /// Called after each step: checks all nodes if anything has changed.
    pub(super) fn glance(&self) {
        let world = lock(&self.world);
        let Some((server, trace, timeout)) = &*world else { return };
        let stat = |path| server.stat(path);
        let dir = stat(DIR).map(|stat| (stat.pzxid, 0));
        let contested = CONTESTED.into_iter().map(|path| stat(path).map(|stat| (stat.czxid, stat.version)));
        let seen: Vec<_> = std::iter::once(dir).chain(contested).collect();
        let mut state = lock(&self.state);
        if seen != state.seen {
            state.seen = seen;
            state.look(server, trace, *timeout);
        }
    }

    /// Returns whether a node may have another instance's data, by a write that was under way at a deletion by hand.
    pub(super) fn is_spoiled(&self, czxid: i64) -> bool {
        lock(&self.state).spoiled.contains(&czxid)
    }

    /// Notes that an instance was asked to close, or dropped.
    pub(super) fn closes(&self, instance: u64) {
        lock(&self.state).closing.insert(instance);
    }

    /// Notes that the close of an instance has returned without an error: from now on none of its nodes may exist.
    pub(super) fn closed(&self, instance: u64) {
        let world = lock(&self.world);
        let Some((server, trace, timeout)) = &*world else { return };
        let mut state = lock(&self.state);
        state.closed.insert(instance);
        state.look(server, trace, *timeout);
    }

    /// Deletes a node by hand, chosen by number; returns its path.
    pub(super) fn delete_by_hand(&self, server: &TestingServer, number: usize) -> Option<String> {
        let names = server.children(DIR);
        let path = format!("{DIR}/{}", names.get(number % names.len().max(1))?);
        lock(&self.state).by_hand.insert(path.clone(), Instant::now());
        // Its session may be ending at this moment.
        server.delete_by_hand(&path).ok()?;
        Some(path)
    }
}

impl State {
    fn look(&mut self, server: &TestingServer, trace: &Trace, timeout: Duration) {
        for path in CONTESTED {
            let now = server.stat(path).and_then(|stat| {
                let instance = instance_of(&server.get(path)?)?;
                let (czxid, session, version) = (stat.czxid, stat.ephemeral_owner, stat.version);
                Some(Winner { czxid, session, instance, version })
            });
            self.look_at_winner(server, trace, timeout, path, now);
        }
        for name in server.children(DIR) {
            let path = format!("{DIR}/{name}");
            let (Some(stat), Some(data)) = (server.stat(&path), server.get(&path)) else { continue };
            self.created.insert(stat.czxid);
            if self.spoiled.contains(&stat.czxid) {
                continue;
            }
            match instance_of(&data) {
                None => self.object(format!("{path} has foreign data {data:?}")),
                Some(instance) if self.closed.contains(&instance) => {
                    self.object(format!("{instance} is closed, but {path} exists: {stat:?}"));
                }
                Some(_) => {}
            }
        }
    }

    fn look_at_winner(
        &mut self,
        server: &TestingServer,
        trace: &Trace,
        timeout: Duration,
        path: &'static str,
        now: Option<Winner>,
    ) {
        let before = self.winners.get(path).cloned();
        if before.as_ref().map(Winner::identity) == now.as_ref().map(Winner::identity) {
            return;
        }
        let excused = self.was_deleted_by_hand(path, timeout);
        if let Some(before) = &before {
            let is_same_node = now.as_ref().is_some_and(|now| now.czxid == before.czxid);
            let has_ended = !server.sessions().iter().any(|session| session.id == before.session);
            if is_same_node && excused {
                // The node still belongs to the instance that created it.
                self.spoiled.insert(before.czxid);
                return;
            }
            if is_same_node {
                self.object(format!("{path} of {before:?} was overwritten: {now:?}"));
            }
            if !is_same_node && !has_ended && !self.closing.contains(&before.instance) && !excused {
                self.object(format!("{path} of {before:?} was deleted by another process"));
            }
        }
        match now {
            // It was created and hit within one step, so its data does not show which instance created it.
            Some(now) if self.spoiled.contains(&now.czxid) || excused && now.version > 0 => {
                self.spoiled.insert(now.czxid);
                self.winners.remove(path);
            }
            Some(now) => {
                trace.note(format_args!("{path} is {}'s", now.instance));
                self.hand_overs += u64::from(before.is_none_or(|before| before.instance != now.instance));
                self.winners.insert(path, now);
            }
            None => drop(self.winners.remove(path)),
        }
    }
}
