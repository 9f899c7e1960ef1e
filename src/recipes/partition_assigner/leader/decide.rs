//! Decides which member each partition goes to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::term::Term;
use super::view::Standing;
use crate::partition_assigner::events::Event;
use crate::partition_assigner::strategy::{self, Partition};

impl Term<'_> {
    /// Notes which members are absent, and gives up those that have been absent for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        // A new leader decides at once, and waits only for absent members: after an outage that ends all sessions,
        // members come back one after the other.
        let is_waited_for = !self.leader.options.rebalance_delay.is_zero() || !self.is_decided;
        for (member, partitions) in self.view.note_absent(now, self.epoch.began, is_waited_for) {
            self.leader.events.report(Event::Absent { member, partitions });
            self.debounce.disturb(now);
        }
        let is_drained = |id: &str| self.config.as_ref().is_some_and(|config| config.drained.contains(id));
        self.view.give_up(is_drained);
        if std::mem::take(&mut self.is_rebalance_due) {
            self.view.abandon(now);
        }
        if let Some(until) = now.checked_sub(self.delay())
            && self.view.abandon(until)
        {
            // The delay was longer than any debounce.
            self.debounce.skip();
        }
    }

    /// Returns how long absent members are waited for, if they are.
    fn delay(&self) -> Duration {
        self.leader.options.rebalance_delay.max(self.leader.options.quiet)
    }

    /// Returns when the next member is given up.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let since = self.view.absent.values().filter_map(|since| *since).min()?;
        since.checked_add(self.delay())
    }

    /// Decides which member each partition goes to. If the strategy fails, everything stays.
    pub(super) fn decide(&mut self) {
        let (Some(set), Some(config)) = (&self.set, &self.config) else { return };
        self.debounce.settle();
        let members: Vec<strategy::Member> = self
            .view
            .members()
            .filter(|(id, _)| !config.drained.contains(*id))
            .map(|(id, presence)| strategy::Member::of(id, presence))
            .collect();
        let index: BTreeMap<&str, usize> =
            members.iter().enumerate().map(|(index, member)| (member.id.as_str(), index)).collect();
        let Owners { of: owners, reserved } = self.owners();
        let pinned = |name: &Arc<str>| {
            let id = config.pins.get(name)?;
            index.get(id.as_str()).copied()
        };
        let partition = |name: &Arc<str>| Partition {
            name: Arc::clone(name),
            owner: owners.get(name).and_then(|id| index.get(id)).copied(),
            pinned: pinned(name),
        };
        let partitions: Vec<Partition> =
            set.iter().filter(|name| !reserved.contains_key(name)).map(partition).collect();
        let assigned = match self.leader.options.strategy.assign(&partitions, &members) {
            Ok(assigned) => assigned,
            Err(error) => return self.leader.events.report(Event::NotAssigned { error }),
        };
        let targets = partitions.iter().zip(assigned);
        let mut targets: BTreeMap<Arc<str>, String> = targets
            .filter_map(|(partition, member)| Some((Arc::clone(&partition.name), members.get(member?)?.id.clone())))
            .collect();
        let unassigned = partitions.len() - targets.len();
        let reserved = reserved.into_iter().filter(|(name, _)| set.contains(*name));
        targets.extend(reserved.map(|(name, id)| (Arc::clone(name), id.to_owned())));
        if unassigned != self.reported.unassigned && unassigned > 0 {
            self.leader.events.report(Event::Unassigned { partitions: unassigned });
        }
        self.reported.unassigned = unassigned;
        (self.view.targets, self.is_decided) = (targets, true);
    }

    /// Returns the members that have partitions, or were to get them.
    fn owners(&self) -> Owners<'_> {
        let targets = self.view.targets.iter().map(|(name, id)| (Arc::clone(name), id.as_str()));
        let mut owners = Owners { of: targets.collect(), reserved: BTreeMap::new() };
        for (id, record, standing) in self.view.standings() {
            let assignment = &record.assignment;
            match standing {
                Standing::Followed | Standing::Returned => {
                    owners.of.extend(assignment.assigned.iter().map(|name| (Arc::clone(name), id.as_str())));
                }
                Standing::Reserved => {
                    // What it was to hand over is not reserved.
                    owners.reserved.extend(assignment.assigned.iter().map(|name| (name, id.as_str())));
                }
                Standing::Abandoned => {}
            }
        }
        owners
    }
}

/// Who has partitions, before a decision.
struct Owners<'a> {
    /// The member that each partition is assigned to, or was to go to.
    of: BTreeMap<Arc<str>, &'a str>,
    /// What is left out of the decision, with the member that it is for.
    reserved: BTreeMap<&'a Arc<str>, &'a str>,
}
