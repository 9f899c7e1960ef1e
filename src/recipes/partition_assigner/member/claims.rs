//! The partitions that a member has a node for, and what is to be done about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use crate::layout::partition_assigner::Assignment;
use crate::partition_assigner::owned::{Owned, Phase};
use crate::util::clock;

/// How many partitions one transaction changes at most.
pub(super) const MOST_AT_ONCE: usize = 1_000;

/// A partition that the member has a node for.
#[derive(Debug)]
pub(super) struct Claim {
    /// The node.
    pub(super) path: Arc<str>,
    /// The transaction that created it.
    pub(super) token: i64,
    /// When the member took the partition.
    pub(super) since: clock::Instant,
    /// The latest hold, if there was one.
    pub(super) hold: Option<Owned>,
    /// The hold ended with the lease, and the node may still exist: the member may hold again.
    pub(super) lapsed: bool,
}

impl Claim {
    pub(super) fn new(path: Arc<str>, token: i64, since: clock::Instant) -> Self {
        Claim { path, token, since, hold: None, lapsed: false }
    }

    /// Returns whether no work is left on the partition.
    fn is_over(&self) -> bool {
        self.hold.as_ref().is_none_or(|hold| hold.phase() == Phase::Ended && hold.is_idle())
    }

    /// Returns whether the member may begin to hold the partition, or hold it again after a lapse.
    pub(super) fn may_hold(&self) -> bool {
        self.hold.is_none() || (self.lapsed && self.is_over())
    }

    /// Returns whether the member waits for the lease: to hold the partition, or to end a hold whose lease has lapsed.
    pub(super) fn wants_lease(&self) -> bool {
        self.may_hold() || self.hold.as_ref().is_some_and(|hold| hold.phase() != Phase::Ended && !hold.has_lease())
    }

    /// Returns whether the holder has released the partition by itself.
    fn is_released(&self) -> bool {
        self.hold.is_some() && !self.lapsed && self.is_over()
    }
}

/// All claims of one registration.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) all: BTreeMap<Arc<str>, Claim>,
}

/// A transaction of which no answer has come yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// The nodes that it creates.
    pub(super) taken: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) given: Vec<Arc<str>>,
}

/// What one transaction changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) give: Vec<Arc<str>>,
    pub(super) take: Vec<Arc<str>>,
}

impl Claims {
    /// Ends the holds whose lease is over, and those whose time is.
    pub(super) fn end_overdue(&mut self, now: Instant, is_valid: impl Fn(&Owned) -> bool) {
        for claim in self.all.values_mut() {
            let Some(hold) = &claim.hold else { continue };
            if !is_valid(hold) {
                // The holder may have seen it first, and have ended its work by itself.
                claim.lapsed = true;
                hold.end();
            } else if matches!(hold.phase(), Phase::Revoking(by) if now >= by) && hold.is_idle() {
                hold.end();
            }
        }
    }

    /// Asks for the release of everything that is not assigned.
    pub(super) fn revoke(&self, assigned: &BTreeSet<Arc<str>>, by: Instant, path: &str) {
        for (partition, claim) in self.all.iter().filter(|(name, _)| !assigned.contains(*name)) {
            if claim.hold.as_ref().is_some_and(|hold| hold.revoke(by)) {
                tracing::debug!(event = "partition_revoked", path, %partition, "the partition is to be handed over");
            }
        }
    }

    /// Ends all holds at once.
    pub(super) fn end_all(&self) {
        self.all.values().filter_map(|claim| claim.hold.as_ref()).for_each(Owned::end);
    }

    /// Returns whether no work is left on any partition.
    pub(super) fn are_idle(&self) -> bool {
        self.all.values().filter_map(|claim| claim.hold.as_ref()).all(Owned::is_idle)
    }

    /// Returns the claims on which no work is left, and which the member should not or does not want to keep.
    pub(super) fn over(&self, assigned: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
        let over = self.all.iter().filter(
            |(name, claim)| {
                if assigned.contains(*name) { claim.is_released() } else { claim.is_over() }
            },
        );
        over.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns what the next transaction should change; `None` if the record shows what is so.
    pub(super) fn step(
        &self,
        record: &Assignment,
        assigned: &BTreeSet<Arc<str>>,
        most: usize,
        is_leaving: bool,
        may_take: impl Fn(&Arc<str>) -> bool,
    ) -> Option<Step> {
        let mut give = self.over(assigned);
        let mut take: Vec<Arc<str>> =
            assigned.iter().filter(|name| !self.all.contains_key(*name) && may_take(name)).cloned().collect();
        let is_recorded = record.leaving == is_leaving
            && give.is_empty()
            && take.is_empty()
            && record.held.iter().eq(self.all.keys());
        give.truncate(most);
        take.truncate(most - give.len());
        (!is_recorded).then_some(Step { give, take })
    }

    /// Returns the names of all claims after a step.
    pub(super) fn after(&self, step: &Step) -> BTreeSet<Arc<str>> {
        let given: BTreeSet<&Arc<str>> = step.give.iter().collect();
        let kept = self.all.keys().filter(|name| !given.contains(name));
        kept.chain(&step.take).cloned().collect()
    }

    /// Returns the holds that have not ended.
    pub(super) fn holds(&self) -> BTreeMap<Arc<str>, Owned> {
        let live = self.all.iter().filter_map(|(name, claim)| Some((name, claim.hold.as_ref()?)));
        let live = live.filter(|(_, hold)| hold.phase() != Phase::Ended);
        live.map(|(name, hold)| (Arc::clone(name), hold.clone())).collect()
    }

    /// Returns the earliest time at which a holder has to have released.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let holds = self.all.values().filter_map(|claim| claim.hold.as_ref()).filter(|hold| hold.is_idle());
        let deadline = |hold: &Owned| if let Phase::Revoking(by) = hold.phase() { Some(by) } else { None };
        holds.filter_map(deadline).min()
    }
}
