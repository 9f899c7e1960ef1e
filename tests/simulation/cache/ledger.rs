//! What caches have shown, checked against the history of the servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;
use zookeeper_recipes::cache::Snapshot;
use zookeeper_recipes::testing::TestingServer;

use super::history::{History, Id, Ids, Part, ids};
use crate::trace::Trace;

/// What one cache has shown.
#[derive(Debug, Default)]
struct Shown {
    /// The newest version of each path, and whether it was there in the last snapshot.
    nodes: BTreeMap<String, (Id, bool)>,
    zxid: i64,
    last: Option<Instant>,
}

/// The counts of all caches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) synced: u64,
    pub(crate) compared: u64,
    pub(crate) cancelled: u64,
    pub(crate) lagged: u64,
    pub(crate) changes: u64,
    pub(crate) snapshots: u64,
    pub(crate) unsettled: u64,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    shown: BTreeMap<u64, Shown>,
    counts: Counts,
    deposed_until: Option<Instant>,
    violation: Option<String>,
}

/// The record of all caches. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    server: Arc<OnceLock<(TestingServer, Trace)>>,
    state: Arc<Mutex<Option<State>>>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Ledger { server: Arc::default(), state: Arc::new(Mutex::new(Some(State::default()))) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act`, unless the ledger was released.
    fn with<R: Default>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        self.lock().as_mut().map(act).unwrap_or_default()
    }

    pub(crate) fn watch(&self, server: &TestingServer, trace: &Trace) {
        // It is set only once.
        let _ = self.server.set((server.clone(), trace.clone()));
    }

    /// Notes what the servers have; called after each step.
    pub(crate) fn look(&self) {
        if let Some((server, _)) = self.server.get() {
            self.with(|state| state.history.look(server));
        }
    }

    pub(crate) fn note(&self, what: impl std::fmt::Display) {
        if let Some((_, trace)) = self.server.get() {
            trace.note(what);
        }
    }

    pub(crate) fn object(&self, violation: String) {
        self.note(format_args!("VIOLATION: {violation}"));
        self.with(|state| {
            state.violation.get_or_insert(violation);
        });
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.with(|state| state.violation.clone())
    }

    /// Notes until when a deposed leader may answer syncs by itself.
    pub(crate) fn deposed_until(&self, until: Option<Instant>) {
        self.with(|state| state.deposed_until = state.deposed_until.max(until));
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        self.with(|state| count(&mut state.counts));
    }

    pub(crate) fn counts(&self) -> Counts {
        self.with(|state| state.counts)
    }

    /// Returns the number of the present moment.
    pub(crate) fn now(&self) -> usize {
        self.look();
        self.with(|state| state.history.now())
    }

    /// Returns what the servers have in this part.
    pub(crate) fn present(&self, part: &Part) -> Ids {
        self.look();
        self.with(|state| state.history.present(part))
    }

    /// Returns when the last snapshot of the cache was seen.
    pub(crate) fn last_snapshot(&self, cache: u64) -> Option<Instant> {
        self.with(|state| state.shown.get(&cache).and_then(|shown| shown.last))
    }

    /// Checks a new snapshot of a cache.
    pub(crate) fn shows(&self, cache: u64, part: &Part, with_data: bool, snapshot: &Snapshot<Vec<u8>>) {
        self.look();
        let violation = self.with(|state| {
            let ids = ids(snapshot);
            state.counts.snapshots += 1;
            state.counts.unsettled += u64::from(!snapshot.is_settled());
            let shown = state.shown.entry(cache).or_default();
            shown.last = Some(Instant::now());
            let violation = shown.goes_back(snapshot.zxid(), &ids).or_else(|| {
                let stranger = ids.keys().find(|path| !part.contains(path));
                stranger.map(|path| format!("{path} is not part of it"))
            });
            let violation = violation.or_else(|| state.history.wrong(snapshot, with_data));
            violation.or_else(|| {
                let is_wrong = snapshot.is_settled() && !state.history.was_once(part, &ids);
                is_wrong.then(|| format!("settled, but was never so: {ids:?}; now {}", state.history.describe_last()))
            })
        });
        if let Some(violation) = violation {
            self.object(format!("cache {cache}: {violation}"));
        }
    }

    /// Checks that a snapshot has everything committed by that moment, unless a deposed leader may have answered.
    pub(crate) fn contains(&self, cache: u64, part: &Part, since: usize, asked: Instant, snapshot: &Snapshot<Vec<u8>>) {
        let violation = self.with(|state| {
            if state.deposed_until.is_some_and(|until| asked <= until) {
                return None;
            }
            state.history.older(since, part, &ids(snapshot))
        });
        if let Some(violation) = violation {
            self.object(format!("cache {cache}: synced, but {violation}"));
        }
    }

    /// Checks the age of a snapshot: it must have everything that was committed that long ago.
    pub(crate) fn is_of_that_age(&self, cache: u64, part: &Part, snapshot: &Snapshot<Vec<u8>>) {
        let Some(at) = Instant::now().checked_sub(snapshot.age()) else { return };
        self.look();
        let violation = self.with(|state| {
            if state.deposed_until.is_some_and(|until| at <= until) {
                return None;
            }
            let since = state.history.before(at)?;
            state.history.older(since, part, &ids(snapshot))
        });
        if let Some(violation) = violation {
            self.object(format!("cache {cache}: its age is {:?}, but {violation}", snapshot.age()));
        }
    }

    /// Drops everything.
    pub(crate) fn release(&self) {
        *self.lock() = None;
    }
}

impl Shown {
    /// Describes what became older.
    fn goes_back(&mut self, zxid: i64, ids: &Ids) -> Option<String> {
        if zxid < self.zxid {
            return Some(format!("zxid {zxid} after {}", self.zxid));
        }
        self.zxid = zxid;
        for (path, (id, is_there)) in &mut self.nodes {
            match ids.get(path) {
                None => *is_there = false,
                // A deleted node never comes back; another one may be created.
                Some(now) if now.0 < id.0 || now < id || (!*is_there && now.0 == id.0) => {
                    return Some(format!("{path} is {now:?} after {id:?}"));
                }
                Some(now) => (*id, *is_there) = (*now, true),
            }
        }
        for (path, id) in ids {
            self.nodes.entry(path.clone()).or_insert((*id, true));
        }
        None
    }
}
