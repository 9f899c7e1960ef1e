//! Reports what a leader finds: as events, and as metrics.

use tokio::time::Instant;

use super::holding::Held;
use super::plan::PlannedMember;
use super::term::Term;
use crate::throughput_balancer::events::Event;

impl Term<'_> {
    /// Reports members and nodes that are overdue.
    pub(super) fn report_overdue(&mut self, now: Instant) {
        self.view.overdue(now).into_iter().for_each(|event| self.leader.events.report(event));
    }

    /// Reports members whose decided share is 0, if their number has changed.
    pub(super) fn report_without_share(&mut self, maximum: u64, shares: &[u64]) {
        let members = if maximum == 0 { 0 } else { shares.iter().filter(|share| **share == 0).count() };
        if members != self.reported.without_share && members > 0 {
            self.leader.events.report(Event::WithoutShare { maximum, members });
        }
        self.reported.without_share = members;
    }

    /// Reports by how much the maximum is exceeded, and that everything is settled, each only if it has changed.
    pub(super) fn report_progress(
        &mut self,
        maximum: u64,
        members: &[PlannedMember],
        elsewhere: Held,
        nothing_to_write: bool,
    ) {
        let held = members.iter().map(|member| u128::from(member.held)).sum::<u128>() + u128::from(elsewhere.known);
        self.gauges.maximum.set(maximum as f64);
        self.gauges.applied.set(held as f64);
        self.gauges.members.set(members.len() as f64);
        let excess = u64::try_from(held.saturating_sub(u128::from(maximum))).unwrap_or(u64::MAX);
        if excess != self.reported.exceeded && excess > 0 {
            self.leader.events.report(Event::Exceeded { maximum, by: excess });
        }
        self.reported.exceeded = excess;
        // Nothing is settled before the first decision.
        let is_settled = nothing_to_write
            && self.is_divided
            && self.debounce.is_settled()
            && !elsewhere.is_unknown
            && excess == 0
            && !self.view.awaits()
            && self.view.unread().is_empty()
            && members.iter().all(|member| member.target == member.throughput);
        let shared = || members.iter().map(|member| member.throughput).sum();
        let settled = is_settled.then(|| (maximum, members.len(), shared()));
        if let Some((maximum, members, shared)) = settled
            && self.reported.settled != settled
        {
            self.leader.events.report(Event::Settled { maximum, members, shared });
        }
        self.reported.settled = settled;
    }
}
