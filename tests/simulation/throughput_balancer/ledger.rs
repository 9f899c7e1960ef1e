//! The shares that members apply, checked after each step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zookeeper_recipes::StateReceiver;
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::Share;

pub(crate) const MAXIMUM: &str = "/throughput/global-config/max-throughput";
const EPOCH: &str = "/throughput/epoch";
const MEMBERS: &str = "/throughput/client";

/// How a member applies its share.
#[derive(Debug)]
enum Applied {
    /// It reads its share whenever it does something.
    Asked(StateReceiver<Share>),
    /// Like `Asked`, but it chooses what it applies without a lease and comes back with: no bound holds for it.
    AskedWithRest(StateReceiver<Share>),
    /// It uses the number that it was last given, until it is given the next one or the lease ends.
    Told(Share, u64),
    /// Its limiter applies the share.
    Limited(ShareLimiter),
}

impl Applied {
    fn throughput(&self) -> u64 {
        match self {
            Applied::Asked(share) | Applied::AskedWithRest(share) => share.get().throughput(),
            Applied::Told(share, number) => {
                if share.is_current() {
                    *number
                } else {
                    0
                }
            }
            Applied::Limited(limiter) => limiter.rate(),
        }
    }

    /// Returns the throughput that counts against the bound.
    fn bounded(&self) -> u64 {
        match self {
            Applied::AskedWithRest(_) => 0,
            bounded => bounded.throughput(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    members: BTreeMap<u64, Applied>,
    /// The largest total that may be applied: the maximum, or an older one until all have followed.
    bound: u64,
    violation: Option<String>,
}

/// The record of all members. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    server: Arc<OnceLock<TestingServer>>,
    state: Arc<Mutex<State>>,
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, server: &TestingServer) {
        // It is set only once.
        let _ = self.server.set(server.clone());
    }

    pub(crate) fn asks(&self, member: u64, share: StateReceiver<Share>) {
        self.state().members.insert(member, Applied::Asked(share));
    }

    pub(crate) fn asks_with_rest(&self, member: u64, share: StateReceiver<Share>) {
        self.state().members.insert(member, Applied::AskedWithRest(share));
    }

    pub(crate) fn is_told(&self, member: u64, share: Share) {
        let number = share.throughput();
        self.state().members.insert(member, Applied::Told(share, number));
    }

    pub(crate) fn is_limited(&self, member: u64, limiter: ShareLimiter) {
        self.state().members.insert(member, Applied::Limited(limiter));
    }

    pub(crate) fn forget(&self, member: u64) {
        self.state().members.remove(&member);
    }

    /// Returns the maximum in its node.
    pub(crate) fn maximum(&self) -> Option<u64> {
        let data = self.server.get()?.get(MAXIMUM)?;
        String::from_utf8(data).ok()?.parse().ok()
    }

    /// Notes that a leader has reported that all members follow this maximum.
    pub(crate) fn settled(&self, maximum: u64) {
        if self.maximum() == Some(maximum) {
            self.state().bound = maximum;
        }
    }

    pub(crate) fn applied(&self) -> Vec<(u64, u64)> {
        self.state().members.iter().map(|(member, applied)| (*member, applied.throughput())).collect()
    }

    /// Checks the bound after each step.
    pub(crate) fn look(&self) {
        let Some(maximum) = self.maximum() else { return };
        let mut state = self.state();
        state.bound = state.bound.max(maximum);
        let sum: u64 = state.members.values().map(Applied::bounded).sum();
        if sum > state.bound && state.violation.is_none() {
            let bound = state.bound;
            let all = state.members.iter().map(|(member, applied)| (member, applied, applied.throughput()));
            let all: Vec<_> = all.collect();
            let violation = format!("{sum} of {bound} are applied (the maximum is {maximum}): {all:?}");
            state.violation = Some(violation);
        }
    }

    /// Checks that every write to a member's node since the last take-over comes from the leader that took over.
    pub(crate) fn look_for_late_writes(&self) {
        let Some(server) = self.server.get() else { return };
        let Some(taken_over) = server.stat(EPOCH).map(|stat| stat.mzxid) else { return };
        for name in server.children(MEMBERS) {
            let node = format!("{MEMBERS}/{name}");
            let (Some(stat), Some(record)) = (server.stat(&node), server.get(&node)) else { continue };
            let record = String::from_utf8_lossy(&record);
            if stat.version > 0 && stat.mzxid > taken_over && !record.contains(&format!(r#""epoch":{taken_over},"#)) {
                let violation = format!("after {taken_over} took over, another leader has written {record} to {name}");
                self.state().violation.get_or_insert(violation);
            }
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    /// Drops all members.
    pub(crate) fn release(&self) {
        self.state().members.clear();
    }
}
