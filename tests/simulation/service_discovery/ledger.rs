//! The nodes on the servers after every step, and whose they are: each payload begins with the number of its
//! registration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use zookeeper_recipes::testing::TestingServer;

use crate::trace::Trace;
use crate::world::World;

pub(super) const BASE: &str = "/services";
pub(super) const SERVICES: [&str; 2] = ["x", "y"];
/// The ids for which several processes compete.
pub(super) const CONTESTED: [&str; 3] = ["a", "b", "c"];
/// A node that cannot be read.
pub(super) const FOREIGN: &str = "foreign";
/// The longest time that a message may be under way.
const MOST_DELAY: Duration = Duration::from_secs(30);

/// What the data of a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) payload: String,
    pub(super) is_enabled: bool,
}

impl Written {
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let record: Value = serde_json::from_slice(data).ok()?;
        let payload = record.get("payload")?.as_str()?.to_owned();
        Some(Written { payload, is_enabled: record.get("enabled") != Some(&Value::Bool(false)) })
    }

    /// Returns the number of the registration.
    fn number(&self) -> Option<usize> {
        self.payload.split('.').next()?.parse().ok()
    }
}

pub(super) fn path_of(service: &str, id: &str) -> String {
    format!("{BASE}/{service}/{id}")
}

/// A node at a contested path.
#[derive(Debug, Clone)]
struct Winner {
    czxid: i64,
    session: i64,
    /// The registration whose data it has.
    number: usize,
    version: i32,
}

impl Winner {
    fn identity(&self) -> (i64, usize) {
        (self.czxid, self.number)
    }
}

#[derive(Debug, Default)]
struct State {
    /// What the last check found: the newest change of each directory, and each contested path's creation and version.
    seen: Vec<Option<(i64, i32)>>,
    winners: BTreeMap<String, Winner>,
    by_hand: BTreeMap<String, Instant>,
    /// Nodes hit by a write that was under way at a deletion by hand, by the transactions that created the nodes.
    spoiled: BTreeSet<i64>,
    /// Every transaction that created a node.
    created: BTreeSet<i64>,
    hand_overs: u64,
    /// The client of each registration, by its number.
    clients: Vec<usize>,
    /// The client of each session that was seen.
    sessions: BTreeMap<i64, usize>,
    /// Registrations that were asked to end, or dropped.
    ending: BTreeSet<usize>,
    /// Registrations whose `unregister` has returned without an error.
    ended: BTreeSet<usize>,
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

fn contested() -> impl Iterator<Item = String> {
    SERVICES.into_iter().flat_map(|service| CONTESTED.into_iter().map(|id| path_of(service, id)))
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
        let of_directory = |service| server.stat(&format!("{BASE}/{service}")).map(|stat| (stat.pzxid, 0));
        let of_node = |path: String| server.stat(&path).map(|stat| (stat.czxid, stat.version));
        let seen: Vec<_> = SERVICES.into_iter().map(of_directory).chain(contested().map(of_node)).collect();
        let mut state = lock(&self.state);
        if seen != state.seen {
            state.seen = seen;
            state.look(server, trace, *timeout);
        }
    }

    /// Checks all nodes.
    pub(super) fn look(&self) {
        let world = lock(&self.world);
        let Some((server, trace, timeout)) = &*world else { return };
        lock(&self.state).look(server, trace, *timeout);
    }

    /// Returns whether a node may have other data, by a write that was under way at a deletion by hand.
    pub(super) fn is_spoiled(&self, czxid: i64) -> bool {
        lock(&self.state).spoiled.contains(&czxid)
    }

    /// Returns the number of the next registration of this client.
    pub(super) fn begins(&self, client: usize) -> usize {
        let mut state = lock(&self.state);
        state.clients.push(client);
        state.clients.len() - 1
    }

    /// Notes the session of a client.
    pub(super) fn session(&self, session: i64, client: usize) {
        lock(&self.state).sessions.insert(session, client);
    }

    /// Notes that a registration was asked to end, or dropped.
    pub(super) fn ends(&self, number: usize) {
        lock(&self.state).ending.insert(number);
    }

    /// Notes that `unregister` has returned without an error: from now on none of its nodes may exist.
    pub(super) fn ended(&self, number: usize) {
        lock(&self.state).ended.insert(number);
        self.look();
    }

    /// Deletes a node by hand, chosen by number; returns its path.
    pub(super) fn delete_by_hand(&self, server: &TestingServer, number: usize) -> Option<String> {
        let directory = format!("{BASE}/{}", SERVICES[number % SERVICES.len()]);
        let names = server.children(&directory);
        let path = format!("{directory}/{}", names.get(number / SERVICES.len() % names.len().max(1))?);
        lock(&self.state).by_hand.insert(path.clone(), Instant::now());
        // Its session may be ending at this moment.
        server.delete_by_hand(&path).ok()?;
        Some(path)
    }
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

    fn look(&mut self, server: &TestingServer, trace: &Trace, timeout: Duration) {
        for path in contested() {
            let now = server.stat(&path).and_then(|stat| {
                let number = Written::read(&server.get(&path)?)?.number()?;
                let (czxid, session, version) = (stat.czxid, stat.ephemeral_owner, stat.version);
                Some(Winner { czxid, session, number, version })
            });
            self.look_at_winner(server, trace, timeout, path, now);
        }
        for service in SERVICES {
            for name in server.children(&format!("{BASE}/{service}")) {
                self.look_at_node(server, &path_of(service, &name));
            }
        }
    }

    fn look_at_node(&mut self, server: &TestingServer, path: &str) {
        let (Some(stat), Some(data)) = (server.stat(path), server.get(path)) else { return };
        if path.ends_with(FOREIGN) || self.spoiled.contains(&stat.czxid) {
            return;
        }
        self.created.insert(stat.czxid);
        match Written::read(&data).and_then(|written| written.number()) {
            None => self.object(format!("{path} has data that no process wrote: {data:?}")),
            Some(number) if self.ended.contains(&number) => {
                self.object(format!("{number} is unregistered, but {path} exists: {stat:?}"));
            }
            Some(_) => {}
        }
    }

    fn look_at_winner(
        &mut self,
        server: &TestingServer,
        trace: &Trace,
        timeout: Duration,
        path: String,
        now: Option<Winner>,
    ) {
        let before = self.winners.get(&path).cloned();
        if before.as_ref().map(Winner::identity) == now.as_ref().map(Winner::identity) {
            return;
        }
        let excused = self.was_deleted_by_hand(&path, timeout);
        if let Some(before) = &before {
            let is_same_node = now.as_ref().is_some_and(|now| now.czxid == before.czxid);
            let has_ended = !server.sessions().iter().any(|session| session.id == before.session);
            if is_same_node && excused {
                // The node still belongs to the registration that created it.
                self.spoiled.insert(before.czxid);
                return;
            }
            if is_same_node {
                self.object(format!("{path} of {before:?} was overwritten: {now:?}"));
            }
            if !is_same_node && !has_ended && !self.ending.contains(&before.number) && !excused {
                self.object(format!("{path} of {before:?} was deleted by another process"));
            }
        }
        match now {
            // It was created and hit within one step, so its data does not show whose it is.
            Some(now) if self.spoiled.contains(&now.czxid) || excused && now.version > 0 => {
                self.spoiled.insert(now.czxid);
                self.winners.remove(&path);
            }
            Some(now) => {
                trace.note(format_args!("{path} is {}'s", now.number));
                self.hand_overs += u64::from(before.is_none_or(|before| before.number != now.number));
                let owner = self.sessions.get(&now.session);
                if owner.is_some_and(|owner| self.clients.get(now.number) != Some(owner)) {
                    self.object(format!("{path} has the data of {}, but is client {owner:?}'s", now.number));
                }
                self.winners.insert(path, now);
            }
            None => drop(self.winners.remove(&path)),
        }
    }
}
