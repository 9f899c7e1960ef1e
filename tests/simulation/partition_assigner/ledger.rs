//! Who holds which partition and who works on it, checked after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures::FutureExt;
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner};
use zookeeper_recipes::testing::TestingServer;

use crate::trace::Trace;
use crate::world::World;

pub(super) const BASE: &str = "/jobs";
/// Members write to this node under the fences of their partitions: the partition and the token.
pub(super) const STORE: &str = "/store";
/// How many holds are kept for later writes.
const KEPT: usize = 32;

/// A member, by the number of its handle: no two handles have the same one.
struct Member {
    assigner: Weak<PartitionAssigner>,
    id: String,
    client: usize,
}

/// A hold that was seen, and may have ended since.
#[derive(Clone)]
struct Hold {
    client: usize,
    owned: Owned,
}

/// Work that has begun and was not dropped.
struct Work {
    member: u64,
    client: usize,
    of: Client,
    session: Option<i64>,
    owned: Owned,
}

impl Work {
    /// Returns whether the member must not hand the partition over yet: it holds it, or it was asked to release it, its
    /// time is over, and its work has not been dropped. When a session is over, servers do not wait for work.
    fn counts(&self) -> bool {
        let has_session =
            || self.of.session_id() == self.session && self.of.remaining_lease().is_some_and(|left| !left.is_zero());
        let is_revoking = || matches!(self.owned.revoked().now_or_never(), Some(Some(_)));
        self.owned.is_held() || (is_revoking() && has_session())
    }
}

/// What a member that vanished has left for the time when it comes back.
struct Reserved {
    partitions: BTreeSet<String>,
    until: Instant,
    /// Its client, which is frozen. A fault may have been about to thaw it.
    of: Client,
    /// The nodes of the member then.
    nodes: BTreeSet<String>,
    /// A leader has noted that the member is absent.
    is_noted: bool,
}

impl Reserved {
    /// Forgets what the member was to hand over before a leader noted that it is absent: that is not reserved.
    fn look(&mut self, record: &[u8]) {
        let Ok(record) = serde_json::from_slice::<serde_json::Value>(record) else { return };
        if !self.is_noted {
            let assigned = record["assigned"].as_array().map_or(&[][..], Vec::as_slice);
            self.partitions.retain(|partition| assigned.iter().any(|name| name == partition.as_str()));
            self.is_noted = record["absent"] == true;
        }
    }
}

#[derive(Default)]
struct State {
    members: BTreeMap<u64, Member>,
    /// The holds that have not ended, by partition and member.
    holds: BTreeMap<(String, u64), Hold>,
    /// The greatest token of each partition, and its member.
    latest: BTreeMap<String, (i64, u64)>,
    works: BTreeMap<u64, Work>,
    last_work: u64,
    /// Holds that have ended, or will.
    kept: Vec<Hold>,
    /// Until when members of a client may not know that its session was ended by hand.
    excused: BTreeMap<usize, Instant>,
    reserved: BTreeMap<String, Reserved>,
    /// How often a partition was taken by another member than before.
    moves: u64,
    /// How many writes under fences were carried out.
    writes: u64,
    violation: Option<String>,
}

/// The record of a seed. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    world: Arc<OnceLock<(TestingServer, Trace)>>,
    state: Arc<Mutex<State>>,
}

/// Removes the work from the ledger when it is dropped.
pub(super) struct AtWork {
    ledger: Ledger,
    number: u64,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.ledger.state().works.remove(&self.number);
    }
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self, world: &World) {
        // It is set only once.
        let _ = self.world.set((world.server.clone(), world.trace.clone()));
        world.server.keep_versions(STORE);
    }

    pub(super) fn note(&self, what: impl fmt::Display) {
        if let Some((_, trace)) = self.world.get() {
            trace.note(what);
        }
    }

    /// Records a violation.
    pub(super) fn object(&self, violation: impl Into<String>) {
        let violation = violation.into();
        self.note(format_args!("VIOLATION: {violation}"));
        self.state().violation.get_or_insert(violation);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub(super) fn sit(&self, number: u64, id: &str, client: usize, assigner: &Arc<PartitionAssigner>) {
        let member = Member { assigner: Arc::downgrade(assigner), id: id.to_owned(), client };
        self.state().members.insert(number, member);
    }

    /// Notes that work on a partition begins.
    pub(super) fn works(&self, member: u64, client: usize, of: &Client, owned: &Owned) -> AtWork {
        let mut state = self.state();
        state.last_work += 1;
        let work = Work { member, client, of: of.clone(), session: of.session_id(), owned: owned.clone() };
        let other = state.works.values().find(|work| work.member == member && work.owned.id() == owned.id());
        if other.is_some() {
            let violation = format!("{member} works twice on {}", owned.id());
            state.violation.get_or_insert(violation);
        }
        let number = state.last_work;
        state.works.insert(number, work);
        AtWork { ledger: self.clone(), number }
    }

    /// Excuses the members of a client, whose session is ended by hand.
    pub(super) fn excuse(&self, client: usize, until: Instant) {
        self.state().excused.insert(client, until);
    }

    /// Notes that a member vanishes: no other member may take until then what it holds now, unless it comes back.
    pub(super) fn reserve(&self, number: u64, of: &Client, until: Instant) {
        let partitions: BTreeSet<String> = self.held_by(number).into_iter().collect();
        let mut state = self.state();
        let Some(id) = state.members.get(&number).map(|member| member.id.clone()) else { return };
        let nodes = self.nodes_of(&id);
        let config = self.world.get().and_then(|(server, _)| server.get(&format!("{BASE}/config"))).unwrap_or_default();
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
        if config["drained"].as_array().is_some_and(|drained| drained.contains(&id.as_str().into())) {
            // The leader may not have acted on it yet.
            return;
        }
        state.reserved.insert(id, Reserved { partitions, until, of: of.clone(), nodes, is_noted: false });
    }

    /// Notes that a member has come back, or has come back and left again: what it had may be divided again.
    pub(super) fn is_back(&self, id: &str) {
        self.state().reserved.remove(id);
    }

    /// Notes that something was done by hand that may move what is reserved.
    pub(super) fn unreserve(&self) {
        self.state().reserved.clear();
    }

    /// Returns the nodes that show that a member is present.
    fn nodes_of(&self, id: &str) -> BTreeSet<String> {
        let Some((server, _)) = self.world.get() else { return BTreeSet::new() };
        let names = server.children(&format!("{BASE}/members")).into_iter();
        names.filter(|name| name.rsplit_once('~').is_some_and(|(of, _)| of == id)).collect()
    }

    /// Returns the names of the partitions that a member holds at this moment.
    pub(super) fn held_by(&self, number: u64) -> Vec<String> {
        let state = self.state();
        let holds = state.holds.iter().filter(|((_, member), hold)| *member == number && hold.owned.is_held());
        holds.map(|((partition, _), _)| partition.clone()).collect()
    }

    /// Returns the members that hold each partition, by name.
    pub(super) fn owners(&self) -> BTreeMap<String, u64> {
        let state = self.state();
        let holds = state.holds.iter().filter(|(_, hold)| hold.owned.is_held());
        holds.map(|((partition, member), _)| (partition.clone(), *member)).collect()
    }

    /// Returns the holds of all members, in order.
    pub(super) fn holds(&self) -> Vec<Owned> {
        self.state().holds.values().map(|hold| hold.owned.clone()).collect()
    }

    /// Returns a hold, probably one that is over, and the client that it belongs to.
    pub(super) fn an_old_hold(&self, random: u64) -> Option<(usize, Owned)> {
        let state = self.state();
        let at = usize::try_from(random).unwrap_or(0).checked_rem(state.kept.len())?;
        state.kept.get(at).map(|hold| (hold.client, hold.owned.clone()))
    }

    pub(super) fn moves(&self) -> u64 {
        self.state().moves
    }

    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Returns how many futures work.
    pub(super) fn at_work(&self) -> usize {
        self.state().works.len()
    }

    /// Checks everything that must hold at each moment.
    pub(super) fn look(&self) {
        let state = &mut *self.state();
        let now = Instant::now();
        state.excused.retain(|_, until| now <= *until);
        if let Some((server, _)) = self.world.get() {
            state.reserved.retain(|_, reserved| server.is_frozen(&reserved.of));
            for (id, reserved) in &mut state.reserved {
                reserved.look(&server.get(&format!("{BASE}/assignments/{id}")).unwrap_or_default());
            }
        }
        self.look_at_holds(state, now);
        state.look_for_two();
        self.look_at_writes(state);
    }

    fn look_at_holds(&self, state: &mut State, now: Instant) {
        state.holds.retain(|_, hold| hold.owned.is_held());
        let mut seen = Vec::new();
        for (number, member) in &state.members {
            let Some(assigner) = member.assigner.upgrade() else { continue };
            seen.extend(assigner.assigned().into_iter().map(|owned| (*number, member.client, owned)));
        }
        for (number, client, owned) in seen {
            let key = (owned.id().to_owned(), number);
            let token = owned.fencing_token();
            if let Some(known) = state.holds.get(&key) {
                if known.owned.fencing_token() != token {
                    state.violation.get_or_insert(format!("{number} holds {} twice", owned.id()));
                }
                continue;
            }
            self.look_at_new(state, &key, client, token, now);
            if state.kept.len() == KEPT {
                state.kept.remove(usize::try_from(token).unwrap_or(0) % KEPT);
            }
            state.kept.push(Hold { client, owned: owned.clone() });
            state.holds.insert(key, Hold { client, owned });
        }
    }

    fn look_at_new(&self, state: &mut State, key: &(String, u64), client: usize, token: i64, now: Instant) {
        let (partition, number) = key;
        self.note(format_args!("{number} holds {partition} with token {token}"));
        if !state.excused.contains_key(&client) {
            let latest = state.latest.get(partition).copied();
            match latest {
                Some((greatest, last)) if token < greatest || (token == greatest && last != *number) => {
                    let violation =
                        format!("{number} holds {partition} with token {token}, but {last} held it with {greatest}");
                    state.violation.get_or_insert(violation);
                }
                Some((_, last)) => state.moves += u64::from(last != *number),
                None => {}
            }
            state.latest.insert(partition.clone(), (token, *number));
        }
        let Some(id) = state.members.get(number).map(|member| member.id.clone()) else { return };
        state.reserved.retain(|id, reserved| now <= reserved.until && self.nodes_of(id).is_subset(&reserved.nodes));
        let reserved =
            state.reserved.iter().find(|(of, reserved)| **of != id && reserved.partitions.contains(partition));
        if let Some((of, _)) = reserved {
            let violation = format!("{number}, {id}, holds {partition}, which is reserved for {of}");
            state.violation.get_or_insert(violation);
        }
    }

    /// Checks that each write was carried out under the latest hold of its partition.
    fn look_at_writes(&self, state: &mut State) {
        let Some((server, _)) = self.world.get() else { return };
        for (data, _) in server.take_versions().into_iter().flatten() {
            let text = String::from_utf8_lossy(&data);
            let Some((partition, token)) = text.split_once(' ') else { continue };
            let token = token.parse().unwrap_or(0);
            state.writes += 1;
            if let Some((greatest, last)) = state.latest.get(partition).filter(|(greatest, _)| token < *greatest) {
                let violation =
                    format!("a write to {partition} with token {token} was accepted after {last} held with {greatest}");
                state.violation.get_or_insert(violation);
            }
        }
    }

    /// Drops everything that belongs to clients.
    pub(super) fn release(&self) {
        let released = {
            let mut state = self.state();
            (
                std::mem::take(&mut state.members),
                std::mem::take(&mut state.holds),
                std::mem::take(&mut state.kept),
                std::mem::take(&mut state.works),
                std::mem::take(&mut state.reserved),
            )
        };
        drop(released);
    }
}

impl State {
    /// Checks that no partition has two owners, and that no two members work on one.
    fn look_for_two(&mut self) {
        let excused = &self.excused;
        let mut before: Option<(&str, u64)> = None;
        for ((partition, number), hold) in &self.holds {
            if excused.contains_key(&hold.client) || !hold.owned.is_held() {
                continue;
            }
            if let Some((_, other)) = before.filter(|(of, _)| of == partition) {
                self.violation.get_or_insert(format!("{other} and {number} hold {partition}"));
            }
            before = Some((partition, *number));
        }
        let mut at: BTreeMap<&str, u64> = BTreeMap::new();
        for work in self.works.values() {
            if excused.contains_key(&work.client) || !work.counts() {
                continue;
            }
            let partition = work.owned.id();
            if let Some(other) = at.insert(partition, work.member) {
                let violation = format!("{other} and {} work on {partition}", work.member);
                self.violation.get_or_insert(violation);
            }
        }
    }
}
