//! What the leader knows of the members and their records.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::layout::partition_assigner::{Assignment, Presence};
use crate::partition_assigner::partitions::Names;

/// A registration of a member that is present.
#[derive(Debug, Clone)]
pub(super) struct Present {
    /// The transaction that created its node. The oldest of a member counts.
    pub(super) created: i64,
    /// A leader has addressed a record to it. If that record is gone, there is no other: its version would start again,
    /// and a late write of the member could fit it.
    pub(super) has_record: bool,
    /// Its options; the error says why they are not valid.
    pub(super) presence: Result<Presence, String>,
}

/// The record of a member, as it was read or written last.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) assignment: Assignment,
    pub(super) version: i32,
    /// When it was written, by the servers' clock in milliseconds; 0 if this leader has written it.
    pub(super) modified: i64,
    /// Since when it has been waiting for the member to hand over.
    pub(super) revoked: Option<Overdue>,
    /// It cannot be deleted: there are nodes below it.
    pub(super) is_kept: bool,
}

/// Since when the leader has been waiting for something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overdue {
    pub(super) since: Instant,
    pub(super) is_reported: bool,
}

/// Whose record it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// A registration that is present follows it.
    Followed,
    /// The member is present with another registration, which waits for a record of its own.
    Returned,
    /// The member is absent, and its partitions are reserved for it.
    Reserved,
    /// The member is absent, and others are to get its partitions.
    Abandoned,
}

#[derive(Debug, Default)]
pub(super) struct View {
    /// All registrations, by the id of the member and the registration.
    pub(super) present: BTreeMap<String, BTreeMap<String, Present>>,
    pub(super) records: BTreeMap<String, Record>,
    /// The records that must be read again.
    pub(super) unread: BTreeSet<String>,
    /// Since when members that have records are absent; `None` if they are not waited for any more.
    pub(super) absent: BTreeMap<String, Option<Instant>>,
    /// The partitions that no member holds unless a record says so. All that records list are among them.
    pub(super) proven: BTreeSet<Arc<str>>,
    /// The partitions for which there were nodes in the latest listing. `None` if a record or a member was read since.
    pub(super) owned: Option<BTreeSet<Arc<str>>>,
    /// The member that each partition is to go to, as decided.
    pub(super) targets: BTreeMap<Arc<str>, String>,
}

impl View {
    /// Returns the registration of a member that counts: the one that its record names, or else the oldest.
    pub(super) fn registration(&self, id: &str) -> Option<&str> {
        let all = self.present.get(id)?;
        let named = self.records.get(id).and_then(|record| all.get_key_value(&record.assignment.member));
        let counts = named.or_else(|| all.iter().min_by_key(|(_, present)| present.created));
        counts.map(|(registration, _)| registration.as_str())
    }

    /// Returns whether the registration of a member that counts can be read, and never had a record.
    pub(super) fn may_address(&self, id: &str) -> bool {
        let registration = self.registration(id);
        let present = registration.and_then(|registration| self.present.get(id)?.get(registration));
        present.is_some_and(|present| !present.has_record && present.presence.is_ok())
    }

    /// Records that a leader has addressed a record to this registration.
    pub(super) fn addressed(&mut self, id: &str, registration: &str) {
        let present = self.present.get_mut(id).and_then(|all| all.get_mut(registration));
        if let Some(present) = present {
            present.has_record = true;
        }
    }

    /// Returns whether the registration of a member that counts has said that it leaves.
    fn is_leaving(&self, id: &str, registration: &str) -> bool {
        let record = self.records.get(id).map(|record| &record.assignment);
        record.is_some_and(|assignment| assignment.leaving && assignment.member == registration)
    }

    /// Returns the members that take part, with their options.
    pub(super) fn members(&self) -> impl Iterator<Item = (&String, &Presence)> {
        let stays = |id: &&String| self.registration(id).is_some_and(|registration| !self.is_leaving(id, registration));
        self.present.keys().filter(stays).filter_map(|id| {
            let all = self.present.get(id)?;
            let presence = all.get(self.registration(id)?)?.presence.as_ref();
            Some((id, presence.ok()?))
        })
    }

    pub(super) fn standing(&self, id: &str, record: &Record) -> Standing {
        match self.registration(id) {
            Some(registration) if registration == record.assignment.member => Standing::Followed,
            Some(_) => Standing::Returned,
            None if self.absent.get(id).is_some_and(Option::is_some) => Standing::Reserved,
            None => Standing::Abandoned,
        }
    }

    pub(super) fn standings(&self) -> impl Iterator<Item = (&String, &Record, Standing)> {
        self.records.iter().map(|(id, record)| (id, record, self.standing(id, record)))
    }

    /// Notes the time at which members became absent. An earlier leader may have noted it in the record, before this
    /// one took over at `began` by the servers' clock. Returns the members that are absent for the first time, and how
    /// many partitions each has.
    pub(super) fn note_absent(&mut self, now: Instant, began: i64, is_waited_for: bool) -> Vec<(String, usize)> {
        let (records, present) = (&self.records, &self.present);
        self.absent.retain(|id, _| records.contains_key(id) && !present.contains_key(id));
        let absent = records.iter().filter(|(id, _)| !present.contains_key(*id));
        let mut new = Vec::new();
        for (id, record) in absent {
            if !self.absent.contains_key(id) {
                let waited = if record.assignment.absent && record.modified > 0 { began - record.modified } else { 0 };
                let waited = Duration::from_millis(u64::try_from(waited).unwrap_or(0));
                let since = now.checked_sub(waited).unwrap_or(now);
                let is_waited_for = is_waited_for && !record.assignment.leaving;
                self.absent.insert(id.clone(), is_waited_for.then_some(since));
                new.push((id.clone(), record.assignment.assigned.len()));
            }
        }
        new
    }

    /// Stops waiting for absent members that get nothing anyway.
    pub(super) fn give_up(&mut self, is_drained: impl Fn(&str) -> bool) {
        let drained = self.absent.iter_mut().filter(|(id, _)| is_drained(id));
        drained.for_each(|(_, since)| *since = None);
    }

    /// Stops waiting for members that became absent at or before `until`. Returns whether there was one.
    pub(super) fn abandon(&mut self, until: Instant) -> bool {
        let waited = self.absent.values_mut().filter(|since| since.is_some_and(|since| since <= until));
        waited.map(|since| *since = None).count() > 0
    }

    /// Records what a record contains. A partition that a record lists is held by no one else.
    pub(super) fn read(&mut self, id: &str, assignment: Assignment, version: i32, now: Instant) {
        self.unread.remove(id);
        self.owned = None;
        self.proven.extend(assignment.assigned.iter().chain(&assignment.held).cloned());
        let is_revoked = assignment.revoked().next().is_some();
        let before = self.records.get(id);
        let is_kept = before.is_some_and(|before| before.is_kept);
        // A member that has handed one over is not waited for longer than one that is to hand over its first.
        let is_stuck = |before: &&Record| before.assignment.revoked().all(|name| assignment.held.contains(name));
        let before = before.filter(is_stuck).and_then(|before| before.revoked);
        let revoked = before.or(Some(Overdue { since: now, is_reported: false })).filter(|_| is_revoked);
        self.records.insert(id.to_owned(), Record { assignment, version, modified: 0, revoked, is_kept });
    }

    /// Notes that a record cannot be deleted.
    pub(super) fn keep(&mut self, id: &str) {
        if let Some(record) = self.records.get_mut(id) {
            record.is_kept = true;
        }
    }

    /// Notes that a record is gone: who holds what it listed is not known, and an earlier listing does not prove it.
    /// Returns whether the record was known.
    pub(super) fn lose(&mut self, id: &str) -> bool {
        self.unread.remove(id);
        let Some(record) = self.records.remove(id) else { return false };
        self.owned = None;
        for name in record.assignment.assigned.iter().chain(&record.assignment.held) {
            self.proven.remove(name);
        }
        true
    }

    /// Returns all partitions that records list, followed or not.
    pub(super) fn listed(&self) -> HashSet<&Arc<str>> {
        let records = self.records.values();
        records.flat_map(|record| record.assignment.assigned.iter().chain(&record.assignment.held)).collect()
    }

    /// Notes that the set is another one. What records list stays proven.
    pub(super) fn forget_all_but(&mut self, set: &Names) {
        self.owned = None;
        let listed: HashSet<Arc<str>> = self.listed().into_iter().cloned().collect();
        self.proven.retain(|name| set.contains(name) || listed.contains(name));
    }

    /// Returns whether the leader must know who holds partitions that no followed record lists.
    pub(super) fn needs_proof(&self, set: &Names) -> bool {
        let dissolves = |id: &str, record: &Record, standing| match standing {
            Standing::Followed => false,
            Standing::Reserved => record.assignment.revoked().next().is_some(),
            Standing::Returned if self.may_address(id) => true,
            Standing::Returned | Standing::Abandoned => !record.is_kept || record.assignment != Assignment::default(),
        };
        if self.standings().any(|(id, record, standing)| dissolves(id, record, standing)) {
            return true;
        }
        let mut unproven = set.iter().filter(|name| !self.proven.contains(*name)).peekable();
        unproven.peek().is_some() && {
            let listed = self.listed();
            unproven.any(|name| !listed.contains(name))
        }
    }

    /// Records the partitions for which a listing has nodes. All records were read before it.
    pub(super) fn list_owned(&mut self, owned: BTreeSet<Arc<str>>, set: &Names) {
        let listed: HashSet<Arc<str>> = self.listed().into_iter().cloned().collect();
        let unlisted = set.iter().filter(|name| !listed.contains(*name) && !owned.contains(*name));
        self.proven.extend(unlisted.cloned());
        self.owned = Some(owned);
    }
}
