//! Leads: reads everything, decides, writes and waits, until something fails.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::time::Instant;

use super::Leader;
use super::plan;
use super::term::{Maximum, Term};
use super::view::Candidate;
use super::writer::{self, Preconditions, Write};
use crate::client::session::Session;
use crate::engine::Op;
use crate::layout::throughput_balancer::Decision;
use crate::metrics::{Label, table};
use crate::recipes::elected::{End, take_over};
use crate::throughput_balancer::allocation::{AllocationError, Shortfall};
use crate::throughput_balancer::events::Event;
use crate::util::wait::sleep_until_opt;

impl<'a> Term<'a> {
    /// Takes over and leads, until something fails.
    pub(super) async fn run(leader: &'a Leader, session: &Arc<Session>, fence: Op) -> Result<Infallible, End> {
        let registrar = &leader.registrar;
        let create = || registrar.directories(session);
        let epoch = take_over(session, &fence, &registrar.paths.epoch, leader.latch.id(), create).await?;
        leader.events.report(Event::TookOver { epoch: epoch.number });
        let mut term = Term::new(leader, session, fence, epoch);
        // What is read after the answer to the take-over is not older than the take-over.
        loop {
            term.look().await?;
            term.read_members().await?;
            let now = Instant::now();
            term.report_overdue(now);
            let withheld = term.view.withheld(now);
            if withheld != term.withheld {
                term.withheld = withheld;
                term.debounce.disturb(now);
            }
            if term.debounce.is_over(now) {
                term.decide(now);
            }
            // Reads again at once after a write, or if the maximum has no watch because it was created between two
            // reads.
            if !term.write_changes(now).await? && term.watches.maximum.is_some() {
                term.wait(now).await;
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
                self.report_without_share(value, &shares);
                self.view.set_targets(&shares);
                let members = candidates.iter().map(|candidate| &candidate.member);
                if let Some(shortfall) = Shortfall::of(members.zip(shares)) {
                    self.leader.events.report(Event::Shortfall { shortfall });
                }
            }
            Err(error) => self.leader.events.report(Event::NotDivided { error }),
        }
    }

    /// Divides what may be given. A slow member keeps what it holds, and the others divide the rest.
    fn divide(&self, maximum: u64, candidates: &[Candidate]) -> Result<Vec<u64>, AllocationError> {
        let divide = |withheld: u64, is_included: fn(&&Candidate) -> bool| -> Result<_, AllocationError> {
            let members = candidates.iter().filter(is_included).map(|candidate| candidate.member.clone());
            let members: Vec<_> = members.collect();
            Ok(self.leader.options.allocation.divide(maximum.saturating_sub(withheld), &members)?.shares)
        };
        let mut shares = divide(self.view.held_elsewhere().known, |_| true)?;
        if candidates.iter().any(|candidate| candidate.is_slow) {
            let mut rest = divide(self.withheld.known, |candidate| !candidate.is_slow)?.into_iter();
            for (share, candidate) in shares.iter_mut().zip(candidates) {
                let slow = candidate.is_slow.then_some(candidate.held.min(*share));
                *share = slow.or_else(|| rest.next()).unwrap_or(0);
            }
        }
        Ok(shares)
    }

    /// Writes what may be written now. Returns whether there was anything to write.
    async fn write_changes(&mut self, now: Instant) -> Result<bool, End> {
        let Maximum::Good { value, version } = self.maximum else { return Ok(false) };
        let (names, members) = self.view.planned();
        let elsewhere = self.view.held_elsewhere();
        let credit = if elsewhere.is_unknown { 0 } else { plan::credit(value, &members, elsewhere.known) };
        let more_credit_comes = self.view.awaits_soon(now);
        let changes = plan::plan(&members, credit, more_credit_comes);
        self.report_progress(value, &members, elsewhere, changes.is_empty());
        if changes.is_empty() {
            return Ok(false);
        }
        self.sequence += 1;
        let decision = Decision { epoch: self.epoch.number, sequence: self.sequence };
        let writes = changes.iter().filter_map(|change| self.view.next_write(&names[change.member], change, decision));
        let writes = writes.collect();
        self.write(writes, version).await.map(|()| true)
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
            "writing new shares"
        );
        registrar.core.meter().count(&table::BALANCER_DECISIONS, &[Label::Path(&registrar.paths.base)], 1);
        let (written, outcome) = writer::write(&self.session, &registrar.paths, &preconditions, writes, limit).await;
        for (write, version) in written.done {
            self.view.set_written(&write.name, write.record, version);
        }
        if let Some(name) = written.stale {
            self.view.mark_unread(&name);
        }
        for (name, why) in written.refused {
            self.view.mark_refused(&name, why);
        }
        if written.is_maximum_stale {
            self.watches.maximum = None;
        }
        outcome
    }

    /// Waits until something has changed or is due.
    async fn wait(&mut self, now: Instant) {
        // Without a maximum there is nothing to decide.
        let decision = self.debounce.due().filter(|_| matches!(self.maximum, Maximum::Good { .. }));
        let due = decision.into_iter().chain(self.view.next_check(now)).min();
        let nap = sleep_until_opt(due);
        tokio::select! {
            biased;
            () = self.watches.changed() => {}
            () = nap => {}
        }
    }
}
