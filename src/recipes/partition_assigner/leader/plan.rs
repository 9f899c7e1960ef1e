//! Which records to write: what is to be handed over, and what may be granted because it is free.
//!
//! A partition is free if no record lists it, and no node shows that a session holds it. A record is written only at
//! the version that was read. So a member that takes, keeps or hands over a partition meanwhile makes the write fail.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::view::{Record, Standing, View};
use crate::layout::partition_assigner::Assignment;

/// A record with more versions is created again. A version of -1 means any version, and would come after 2^32 writes.
const MOST_VERSION: i32 = 1 << 30;

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
    /// At this version, in a new node.
    Renew(Assignment, i32),
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
            Standing::Returned | Standing::Abandoned => view.owned.as_ref().and_then(|_| dissolved(record)),
            Standing::Reserved => reserved(view, record),
        };
        Some(Write { id: id.clone(), change: change? })
    });
    let new = view.members().filter(|(id, _)| !view.records.contains_key(*id) && !view.unread.contains(*id));
    let new = new.filter(|(id, _)| view.may_address(id)).filter_map(|(id, _)| {
        let assigned = wanted(id).iter().filter(|name| free.contains(name));
        Some(Write { id: id.clone(), change: Change::Create(first(view, id, assigned, wanted(id))?) })
    });
    known.chain(new).collect()
}

/// A member keeps what it has of what it should have, and gets what is free.
fn followed(record: &Record, wanted: &BTreeSet<&Arc<str>>, free: &Free<'_>) -> Option<Change> {
    let before = &record.assignment;
    let assigned = wanted.iter().filter(|name| before.assigned.contains(**name) || free.contains(name));
    let assigned: BTreeSet<Arc<str>> = assigned.map(|name| Arc::clone(name)).collect();
    let partial = assigned.len() < wanted.len();
    let is_old = record.version > MOST_VERSION && !record.is_kept;
    // That there is more to come is not worth a write.
    let is_due = is_old || assigned != before.assigned || (before.partial && !partial);
    is_due.then(|| {
        let next = Assignment { assigned, partial, ..before.clone() };
        if is_old { Change::Renew(next, record.version) } else { Change::Set(next, record.version) }
    })
}

/// A record that cannot be deleted lists nothing instead.
fn dissolved(record: &Record) -> Option<Change> {
    if !record.is_kept {
        return Some(Change::Delete(record.version));
    }
    let nothing = Assignment::default();
    (record.assignment != nothing).then_some(Change::Set(nothing, record.version))
}

/// The record of an absent member shows later leaders since when it is absent: since it was written. What the member
/// was to hand over is not reserved for it, and is free when its session is over.
fn reserved(view: &View, record: &Record) -> Option<Change> {
    let before = &record.assignment;
    let may_be_held = |name: &&Arc<str>| view.owned.as_ref().is_none_or(|owned| owned.contains(*name));
    let is_kept = |name: &&Arc<str>| before.assigned.contains(*name) || may_be_held(name);
    let held: BTreeSet<Arc<str>> = before.held.iter().filter(is_kept).cloned().collect();
    let is_due = !before.absent || held != before.held;
    is_due.then(|| Change::Set(Assignment { absent: true, held, ..before.clone() }, record.version))
}

/// A member with a new registration gets what its earlier one had, once it is not held any more.
fn returned(view: &View, id: &str, record: &Record, wanted: &BTreeSet<&Arc<str>>, free: &Free<'_>) -> Option<Change> {
    let (owned, before) = (view.owned.as_ref()?, &record.assignment);
    let is_released = |name: &Arc<str>| {
        let is_listed = before.assigned.contains(name) || before.held.contains(name);
        is_listed && !owned.contains(name)
    };
    let assigned = wanted.iter().filter(|name| is_released(name) || free.contains(name));
    Some(Change::Set(first(view, id, assigned, wanted)?, record.version))
}

/// Returns the first record of the registration that counts.
fn first<'a>(
    view: &View,
    id: &str,
    assigned: impl Iterator<Item = &'a &'a Arc<str>>,
    wanted: &BTreeSet<&Arc<str>>,
) -> Option<Assignment> {
    let assigned: BTreeSet<_> = assigned.map(|name| Arc::clone(name)).collect();
    let (member, partial) = (view.registration(id)?.to_owned(), assigned.len() < wanted.len());
    Some(Assignment { member, assigned, partial, ..Assignment::default() })
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
            Change::Set(next, _) | Change::Renew(next, _) => {
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
