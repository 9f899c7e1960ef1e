//! What members apply, looked at after each step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::Share;

pub(crate) const MAXIMUM: &str = "/throughput/global-config/max-throughput";

/// How a member applies its share.
#[derive(Debug)]
enum Applied {
    /// It asks whenever it does something.
    Asked(watch::Receiver<Share>),
    /// It goes by what it was last told, until it has been told the next.
    Told(Share),
}

#[derive(Debug, Default)]
struct State {
    members: BTreeMap<u64, Applied>,
    /// What may be applied: the maximum, or an older one until all have followed.
    bound: u64,
    violation: Option<String>,
}

/// All members. Clones look at the same ones.
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
        // There is one.
        let _ = self.server.set(server.clone());
    }

    pub(crate) fn asks(&self, member: u64, share: watch::Receiver<Share>) {
        self.state().members.insert(member, Applied::Asked(share));
    }

    pub(crate) fn is_told(&self, member: u64, share: Share) {
        self.state().members.insert(member, Applied::Told(share));
    }

    pub(crate) fn forget(&self, member: u64) {
        self.state().members.remove(&member);
    }

    /// The maximum that stands in the node.
    pub(crate) fn maximum(&self) -> Option<u64> {
        let data = self.server.get()?.get(MAXIMUM)?;
        String::from_utf8(data).ok()?.parse().ok()
    }

    /// A leader says that all follow this maximum.
    pub(crate) fn settled(&self, maximum: u64) {
        if self.maximum() == Some(maximum) {
            self.state().bound = maximum;
        }
    }

    pub(crate) fn applied(&self) -> Vec<(u64, u64)> {
        let state = self.state();
        let applied = state.members.iter().map(|(member, applied)| {
            let throughput = match applied {
                Applied::Asked(share) => share.borrow().throughput(),
                Applied::Told(share) => share.throughput(),
            };
            (*member, throughput)
        });
        applied.collect()
    }

    /// The check after each step.
    pub(crate) fn look(&self) {
        let Some(maximum) = self.maximum() else { return };
        let applied = self.applied();
        let sum: u64 = applied.iter().map(|(_, throughput)| throughput).sum();
        let mut state = self.state();
        state.bound = state.bound.max(maximum);
        if sum > state.bound && state.violation.is_none() {
            let bound = state.bound;
            state.violation = Some(format!("{sum} of {bound} are applied (the maximum is {maximum}): {applied:?}"));
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    /// Lets go of everything.
    pub(crate) fn release(&self) {
        self.state().members.clear();
    }
}
