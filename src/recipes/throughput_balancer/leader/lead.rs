//! Leads: reads everything, decides, writes and waits, until something fails.

use std::convert::Infallible;

use tokio::time::Instant;

use super::holding::Held;
use super::plan::{self, Change, PlannedMember};
use super::term::{End, Maximum, Term};
use super::view::{Candidate, Late};
use super::writer::{self, Preconditions, Stopped, Write};
use crate::layout::throughput_balancer::Decision;
use crate::metrics::{Label, table};
use crate::throughput_balancer::allocation::{AllocationError, Shortfall};
use crate::throughput_balancer::events::Event;
use crate::util::wait::sleep_until_opt;

impl Term<'_> {
    pub(super) async fn run(mut self) -> End {
        match self.lead().await {
            Ok(never) => match never {},
            Err(over) => over,
        }
    }

    async fn lead(&mut self) -> Result<Infallible, End> {
        // What is read after the answer to the take-over is not older than the take-over.
        loop {
            self.look().await?;
            self.read_members().await?;
            let now = Instant::now();
            self.tell_late(now);
            let withheld = self.view.withheld(now);
            if withheld != self.withheld {
                self.withheld = withheld;
                self.debounce.disturb(now);
            }
            if self.debounce.is_over(now) {
                self.decide(now);
            }
            // Without a watch on the maximum (it was created between two looks) there is nothing to wait for.
            if !self.act(now).await? && self.watches.maximum.is_some() {
                self.wait(now).await;
            }
        }
    }

    /// Decides what each member gets from now on.
    fn decide(&mut self, now: Instant) {
        let Maximum::Good { value, .. } = self.maximum else { return };
        self.debounce.settle();
        let candidates = self.view.candidates(now);
        let divided = self.divide(value, &candidates);
        self.is_divided = divided.is_ok();
        match divided {
            Ok(shares) => {
                self.tell_without_share(value, &shares);
                self.view.aim(&shares);
                let members = candidates.iter().map(|candidate| &candidate.member);
                if let Some(shortfall) = Shortfall::of(members.zip(shares)) {
                    self.leader.events.tell(Event::Shortfall { shortfall });
                }
            }
            Err(error) => self.leader.events.tell(Event::NotDivided { error }),
        }
    }

    /// Divides what may be given. A slow member keeps what it holds, and the others divide the rest.
    fn divide(&self, maximum: u64, candidates: &[Candidate]) -> Result<Vec<u64>, AllocationError> {
        let all: Vec<&Candidate> = candidates.iter().collect();
        let elsewhere = self.view.held_elsewhere().known;
        let mut shares = self.divide_among(maximum.saturating_sub(elsewhere), &all)?;
        let prompt: Vec<&Candidate> = candidates.iter().filter(|candidate| !candidate.is_slow).collect();
        if prompt.len() < all.len() {
            let rest = self.divide_among(maximum.saturating_sub(self.withheld.known), &prompt)?;
            let mut rest = rest.into_iter();
            for (share, candidate) in shares.iter_mut().zip(candidates) {
                let slow = candidate.is_slow.then_some(candidate.held.min(*share));
                *share = slow.or_else(|| rest.next()).unwrap_or(0);
            }
        }
        Ok(shares)
    }

    fn divide_among(&self, maximum: u64, candidates: &[&Candidate]) -> Result<Vec<u64>, AllocationError> {
        let members: Vec<_> = candidates.iter().map(|candidate| candidate.member.clone()).collect();
        Ok(self.leader.options.allocation.divide(maximum, &members)?.shares)
    }

    /// Writes what may be written now. Returns whether there was something to write, in which case everything is read
    /// again.
    async fn act(&mut self, now: Instant) -> Result<bool, End> {
        let Maximum::Good { value, version } = self.maximum else { return Ok(false) };
        let (names, members) = self.view.planned();
        let elsewhere = self.view.held_elsewhere();
        let credit = if elsewhere.is_unknown { 0 } else { plan::credit(value, &members, elsewhere.known) };
        let more_credit_comes = self.view.awaits_soon(now);
        let changes = plan::plan(&members, credit, more_credit_comes);
        self.tell_progress(value, &members, elsewhere, changes.is_empty());
        if changes.is_empty() {
            return Ok(false);
        }
        self.sequence += 1;
        let decision = Decision { epoch: self.epoch.number, sequence: self.sequence };
        let writes = changes.iter().filter_map(|change| self.write_of(&names[change.member], change, decision));
        let writes = writes.collect();
        self.write(writes, version).await?;
        Ok(true)
    }

    fn write_of(&self, name: &str, change: &Change, decision: Decision) -> Option<Write> {
        let (record, version) = self.view.next_record(name, change, decision)?;
        Some(Write { name: name.to_owned(), record, version })
    }

    async fn write(&mut self, writes: Vec<Write>, maximum: i32) -> Result<(), End> {
        let registrar = &self.leader.registrar;
        let preconditions = Preconditions { fence: self.fence.clone(), epoch: self.epoch.version, maximum };
        let limit = registrar.core.config.max_request_bytes;
        tracing::debug!(
            event = "rebalancing",
            path = registrar.paths.base,
            epoch = self.epoch.number,
            sequence = self.sequence,
            changed = writes.len(),
            "new shares are written"
        );
        let label = [Label::Path(&registrar.paths.base)];
        registrar.core.meter().count(&table::BALANCER_DECISIONS, &label, 1);
        let (written, outcome) = writer::write(&self.session, &registrar.paths, &preconditions, writes, limit).await;
        for (write, version) in written.done {
            self.view.wrote(&write.name, write.record, version);
        }
        if let Some(name) = written.stale {
            self.view.doubt(&name);
        }
        for (name, why) in written.refused {
            self.view.refuse(&name, why);
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(Stopped::Fenced) => Err(End::Fenced),
            Err(Stopped::Epoch) => Err(End::Again),
            Err(Stopped::Maximum) => {
                self.watches.maximum = None;
                Ok(())
            }
            Err(Stopped::Failed(error)) => Err(End::Failed(error)),
        }
    }

    /// Waits until something has changed or is due.
    async fn wait(&mut self, now: Instant) {
        // Without a maximum there is nothing to decide.
        let decision = self.debounce.due().filter(|_| matches!(self.maximum, Maximum::Good { .. }));
        let due = decision.into_iter().chain(self.view.next_look(now)).min();
        let nap = sleep_until_opt(due);
        tokio::select! {
            biased;
            () = self.watches.changed() => {}
            () = nap => {}
        }
    }

    /// Reports members and nodes that are overdue.
    fn tell_late(&mut self, now: Instant) {
        for (member, late) in self.view.late(now) {
            self.leader.events.tell(match late {
                Late::Unacked { held } => Event::Unacked { member, held },
                Late::Ignored { held, why } => Event::MemberIgnored { member, held, why },
            });
        }
    }

    fn tell_without_share(&mut self, maximum: u64, shares: &[u64]) {
        let members = if maximum == 0 { 0 } else { shares.iter().filter(|share| **share == 0).count() };
        if members != self.told.without_share && members > 0 {
            self.leader.events.tell(Event::WithoutShare { maximum, members });
        }
        self.told.without_share = members;
    }

    /// Reports what has changed: by how much the maximum is exceeded, and that there is nothing left to do.
    fn tell_progress(&mut self, maximum: u64, members: &[PlannedMember], elsewhere: Held, nothing_to_write: bool) {
        let held = members.iter().map(|member| u128::from(member.held)).sum::<u128>() + u128::from(elsewhere.known);
        self.measured.tell(maximum, held, members.len());
        let excess = u64::try_from(held.saturating_sub(u128::from(maximum))).unwrap_or(u64::MAX);
        if excess != self.told.exceeded && excess > 0 {
            self.leader.events.tell(Event::Exceeded { maximum, by: excess });
        }
        self.told.exceeded = excess;
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
            && self.told.settled != settled
        {
            self.leader.events.tell(Event::Settled { maximum, members, shared });
        }
        self.told.settled = settled;
    }
}
