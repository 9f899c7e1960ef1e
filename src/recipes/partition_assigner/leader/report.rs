//! Reports what a leader finds.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::term::Term;
use super::view::{Overdue, Standing};
use crate::partition_assigner::events::Event;

/// How long a member may take to hand over before an event reports it: longer than the default grace period.
const UNRELEASED: Duration = Duration::from_secs(10);
/// How long partitions without a record may be held before an event reports it.
const ELSEWHERE: Duration = Duration::from_secs(5);

impl Term<'_> {
    /// Reports what is overdue, and that everything is settled, each once.
    pub(super) fn report(&mut self, now: Instant) {
        self.report_unreleased(now);
        self.report_elsewhere(now);
        if let Some(set) = &self.set {
            self.measured.look(&self.view, set, now);
        }
        let settled = self.settled();
        if let Some((members, partitions)) = settled
            && self.reported.settled != settled
        {
            self.leader.events.report(Event::Settled { members, partitions });
        }
        self.reported.settled = settled;
    }

    fn report_unreleased(&mut self, now: Instant) {
        for (id, record) in &mut self.view.records {
            let Some(overdue) = record.revoked.as_mut().filter(|overdue| !overdue.is_reported) else { continue };
            if now.saturating_duration_since(overdue.since) >= UNRELEASED {
                overdue.is_reported = true;
                let partitions = record.assignment.revoked().count();
                self.leader.events.report(Event::Unreleased { member: id.clone(), partitions });
            }
        }
    }

    /// Returns when the next event may be due.
    pub(super) fn next_report(&self, now: Instant) -> Option<Instant> {
        let unreleased = self.view.records.values().filter_map(|record| record.revoked);
        let waiting = unreleased.zip(std::iter::repeat(UNRELEASED));
        let waiting = waiting.chain(self.reported.elsewhere.map(|overdue| (overdue, ELSEWHERE)));
        let due =
            waiting.filter(|(overdue, _)| !overdue.is_reported).map(|(overdue, after)| overdue.since + after).min();
        due.filter(|due| *due > now)
    }

    fn report_elsewhere(&mut self, now: Instant) {
        let partitions = self.view.owned.as_ref().zip(self.set.as_ref()).map_or(0, |(owned, set)| {
            let listed = self.view.listed();
            owned.iter().filter(|name| set.contains(*name) && !listed.contains(name)).count()
        });
        if partitions == 0 {
            self.reported.elsewhere = None;
            return;
        }
        let overdue = self.reported.elsewhere.get_or_insert(Overdue { since: now, is_reported: false });
        if !overdue.is_reported && now.saturating_duration_since(overdue.since) >= ELSEWHERE {
            overdue.is_reported = true;
            self.leader.events.report(Event::HeldElsewhere { partitions });
        }
    }

    /// Returns how many members and partitions there are, if every partition that has a member is held by it.
    fn settled(&self) -> Option<(usize, usize)> {
        if !self.is_decided || !self.debounce.is_settled() || !self.view.unread.is_empty() {
            return None;
        }
        let mut held = BTreeSet::new();
        for (_, record, standing) in self.view.standings() {
            if standing != Standing::Followed || record.assignment.is_pending() {
                return None;
            }
            held.extend(&record.assignment.held);
        }
        let is_held = self.view.targets.keys().all(|name| held.contains(name));
        is_held.then(|| (self.view.members().count(), held.len()))
    }
}
