//! Which records to write: what is to be handed over, and what may be granted because it is free.
//!
//! A partition is free if no record lists it, and no node shows that a session holds it. A record is written only at
//! the version that was read. So a member that takes, keeps or hands over a partition meanwhile makes the write fail.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::view::{Record, Standing, View};
use crate::partition_assigner::record::Assignment;

/// A write of a member's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) id: String,
    pub(super) change: Change,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Create(Assignment),
    /// At this version.
    Set(Assignment, i32),
    /// At this version.
    Delete(i32),
}

/// Returns the writes that bring the records closer to the targets.
pub(super) fn plan(view: &View) -> Vec<Write> {
    let free = Free::of(view);
    let mut wanted: BTreeMap<&str, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for (name, id) in &view.targets {
        wanted.entry(id).or_default().insert(name);
    }
    let nothing = BTreeSet::new();
    let wanted = |id: &str| wanted.get(id).unwrap_or(&nothing);
    let known = view.standings().filter(|(id, ..)| !view.unread.contains(*id));
    let known = known.filter_map(|(id, record, standing)| {
        let change = match standing {
            Standing::Followed => followed(record, wanted(id), &free),
            Standing::Returned if view.may_address(id) => returned(view, id, record, wanted(id), &free),
            // A registration that gets no record is like none: others get what the earlier one had.
            Standing::Returned | Standing::Abandoned => view.owned.as_ref().map(|_| Change::Delete(record.version)),
            Standing::Reserved => reserved(record),
        };
        Some(Write { id: id.clone(), change: change? })
    });
    let new = view.members().filter(|(id, _)| !view.records.contains_key(*id) && !view.unread.contains(*id));
    let new = new.filter(|(id, _)| view.may_address(id)).filter_map(|(id, _)| {
        let assigned = wanted(id).iter().filter(|name| free.contains(name)).map(|name| Arc::clone(name)).collect();
        let member = view.registration(id)?.to_owned();
        Some(Write { id: id.clone(), change: Change::Create(Assignment { member, assigned, ..Assignment::default() }) })
    });
    known.chain(new).collect()
}

/// A member keeps what it has of what it should have, and gets what is free.
fn followed(record: &Record, wanted: &BTreeSet<&Arc<str>>, free: &Free<'_>) -> Option<Change> {
    let before = &record.assignment;
    let assigned = wanted.iter().filter(|name| before.assigned.contains(**name) || free.contains(name));
    let assigned: BTreeSet<Arc<str>> = assigned.map(|name| Arc::clone(name)).collect();
    (assigned != before.assigned).then(|| Change::Set(Assignment { assigned, ..before.clone() }, record.version))
}

/// The record of an absent member shows later leaders since when it is absent: since it was written.
fn reserved(record: &Record) -> Option<Change> {
    let before = &record.assignment;
    (!before.absent).then(|| Change::Set(Assignment { absent: true, ..before.clone() }, record.version))
}

/// A member with a new registration gets what its earlier one had, once it is not held any more.
fn returned(view: &View, id: &str, record: &Record, wanted: &BTreeSet<&Arc<str>>, free: &Free<'_>) -> Option<Change> {
    let (owned, before) = (view.owned.as_ref()?, &record.assignment);
    let is_released = |name: &Arc<str>| {
        let is_listed = before.assigned.contains(name) || before.held.contains(name);
        is_listed && !owned.contains(name)
    };
    let assigned = wanted.iter().filter(|name| is_released(name) || free.contains(name));
    let assigned = assigned.map(|name| Arc::clone(name)).collect();
    let member = view.registration(id)?.to_owned();
    Some(Change::Set(Assignment { member, assigned, ..Assignment::default() }, record.version))
}

/// The partitions that may be granted.
struct Free<'a> {
    view: &'a View,
    /// What records list, collected when it is asked for: most plans need none of it.
    listed: OnceCell<HashSet<&'a Arc<str>>>,
}

impl<'a> Free<'a> {
    fn of(view: &'a View) -> Self {
        Free { view, listed: OnceCell::new() }
    }

    fn contains(&self, name: &Arc<str>) -> bool {
        self.view.proven.contains(name) && !self.listed.get_or_init(|| self.view.listed()).contains(name)
    }
}

impl View {
    /// Records that a write was carried out, and the version of the node since.
    pub(super) fn written(&mut self, write: Write, version: i32, now: tokio::time::Instant) {
        let before = self.records.get(&write.id).map(|record| record.assignment.clone());
        let (next, is_dissolved) = match write.change {
            Change::Create(next) => (Some(next), false),
            Change::Set(next, _) => {
                let is_dissolved = before.as_ref().is_some_and(|before| before.member != next.member);
                (Some(next), is_dissolved)
            }
            Change::Delete(_) => (None, true),
        };
        let owned = self.owned.take();
        if let Some(before) = before.filter(|_| is_dissolved) {
            // What nodes still show is held by a session that no record names any more.
            let names = before.assigned.iter().chain(&before.held);
            names.filter(|name| owned.as_ref().is_none_or(|owned| owned.contains(*name))).for_each(|name| {
                self.proven.remove(name);
            });
        }
        match next {
            Some(next) => {
                self.addressed(&write.id, &next.member);
                self.read(&write.id, next, version, now);
            }
            None => drop(self.records.remove(&write.id)),
        }
        // The leader's own write takes nothing from what the listing shows.
        self.owned = owned;
    }
}
