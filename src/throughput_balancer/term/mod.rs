//! One look at everything, and then every change of it, for as long as nothing goes wrong.

mod aside;
mod look;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::aside::Aside;
use super::events::Event;
use super::known::Content;
use super::leader::{Epoch, Leader};
use super::member::fired;
use super::plan::{self, Change, Seat, Transition, Wave};
use super::quiet::Quiet;
use super::record::Stamp;
use super::reserve::Reserve;
use super::view::{Late, View};
use super::writer::{self, Conditions, Stopped, Write};
use crate::backend::{self, Op, Watch};
use crate::client::session::Session;

/// Acknowledgements come in a bunch: so long they are gathered before they are listed.
const GATHER: Duration = Duration::from_millis(10);
/// So long a wave of raises waits for the whole wave of lowers; after that it gives what there is.
const WAVE: Duration = Duration::from_millis(250);

/// Why a term is over.
#[derive(Debug)]
pub(super) enum Over {
    /// Another one leads.
    Fenced,
    /// The epoch, or a directory, was touched by somebody: everything has to be read again.
    Again,
    /// No answer, or a refusal: everything has to be read again.
    Failed(backend::Error),
}

/// The maximum, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Maximum {
    Unread,
    Good { value: u64, version: i32 },
    Bad(String),
}

/// A leader with everything it knows.
pub(super) struct Term<'a> {
    leader: &'a Leader,
    session: Arc<Session>,
    fence: Op,
    epoch: Epoch,
    /// Counts the decisions.
    sequence: u64,
    view: View,
    reserve: &'a mut Reserve,
    maximum: Maximum,
    members_watch: Option<Watch>,
    acks_watch: Option<Watch>,
    maximum_watch: Option<Watch>,
    /// Members that cannot be served.
    aside: Aside,
    quiet: Quiet,
    /// What was held by others than those who are served, when it was looked at last.
    elsewhere: u64,
    /// When members were given less; none if nobody is waited for.
    lowered: Option<Instant>,
    /// Whether the last decision was one.
    is_divided: bool,
    /// What was told last: whether all was settled, by how much the maximum was exceeded.
    settled: Option<(u64, usize, u64)>,
    exceeded: u64,
}

impl<'a> Term<'a> {
    pub(super) fn new(
        leader: &'a Leader,
        session: &Arc<Session>,
        fence: Op,
        epoch: Epoch,
        reserve: &'a mut Reserve,
    ) -> Self {
        let options = &leader.options;
        Term {
            leader,
            session: Arc::clone(session),
            fence,
            epoch,
            sequence: 0,
            view: View::new(session.timeout()),
            reserve,
            maximum: Maximum::Unread,
            members_watch: None,
            acks_watch: None,
            maximum_watch: None,
            aside: Aside::default(),
            quiet: Quiet::new(options.quiet, options.at_most),
            elsewhere: 0,
            lowered: None,
            is_divided: false,
            settled: None,
            exceeded: 0,
        }
    }

    pub(super) async fn run(mut self) -> Over {
        match self.lead().await {
            Ok(never) => match never {},
            Err(over) => over,
        }
    }

    async fn lead(&mut self) -> Result<std::convert::Infallible, Over> {
        // What is read now is not older than the take-over.
        let sync = self.session.sync(&self.leader.registrar.paths.members);
        let (sync, looked) = futures::join!(sync, self.look());
        sync.map_err(Over::Failed)?;
        looked?;
        self.read_members().await?;
        if self.is_exceeded() {
            // The maximum was lowered while nobody led: that is not waited with.
            self.quiet.end();
        }
        loop {
            self.look().await?;
            self.read_members().await?;
            self.prove_strangers().await?;
            let now = Instant::now();
            self.watch_over(now);
            self.look_elsewhere(now);
            if self.quiet.is_over(now) {
                self.decide();
            }
            // Without a watch on the maximum (it was created between two looks at it) nobody would tell of it.
            if self.act().await? || self.maximum_watch.is_none() {
                continue;
            }
            self.wait().await;
        }
    }

    /// Tells of those that do not follow.
    fn watch_over(&mut self, now: Instant) {
        for (member, late) in self.view.late(now) {
            self.leader.events.tell(match late {
                Late::Unacked { held } => Event::Unacked { member, held },
                Late::Assumed => Event::Assumed { member },
                Late::Orphaned { held } => Event::MemberOrphaned { member, held },
            });
        }
    }

    /// What others hold than those who are served: there is so much less to divide.
    fn look_elsewhere(&mut self, now: Instant) {
        let elsewhere = self.view.held_elsewhere().saturating_add(self.reserve.held(now));
        if elsewhere != self.elsewhere {
            self.elsewhere = elsewhere;
            self.quiet.disturb(now);
        }
    }

    /// What each is to have from now on.
    fn decide(&mut self) {
        let Maximum::Good { value, .. } = self.maximum else { return };
        self.quiet.settle();
        let candidates = self.view.candidates();
        let divided = match self.leader.options.transition {
            // Where nobody knows how much it is nobody is given more, and nobody less.
            Transition::Safe if self.elsewhere < u64::MAX => value.saturating_sub(self.elsewhere),
            _ => value,
        };
        let division = self.leader.options.allocation.divide(divided, &candidates);
        self.is_divided = division.is_ok();
        match division {
            Ok(division) => {
                self.view.aim(&division.shares);
                if let Some(shortfall) = division.shortfall {
                    self.leader.events.tell(Event::Shortfall { shortfall });
                }
            }
            Err(error) => self.leader.events.tell(Event::NotDivided { error }),
        }
    }

    /// Writes what may be written now. True if there was something: then it is worth another look.
    async fn act(&mut self) -> Result<bool, Over> {
        let Maximum::Good { value, version } = self.maximum else { return Ok(false) };
        let (now, elsewhere) = (Instant::now(), self.elsewhere);
        let (names, seats) = self.view.seats();
        let credit = plan::credit(value, &seats, elsewhere);
        let wave = plan::plan(&seats, credit, self.leader.options.transition);
        self.tell(value, &seats, elsewhere, wave == Wave::default());
        let lowers = !wave.lowers.is_empty();
        let stamp = Stamp { epoch: self.epoch.number, sequence: self.sequence + 1 };
        let chosen = self.chosen(wave, now);
        if chosen.is_empty() {
            return Ok(false);
        }
        let writes = chosen.iter().filter_map(|change| self.write_of(&names[change.seat], change, stamp)).collect();
        self.sequence = stamp.sequence;
        if lowers {
            self.lowered = Some(now);
        }
        self.write(writes, version).await?;
        Ok(true)
    }

    /// Whether more may be applied than the maximum allows.
    fn is_exceeded(&self) -> bool {
        let Maximum::Good { value, .. } = self.maximum else { return false };
        self.view.seats().1.iter().map(|seat| u128::from(seat.held)).sum::<u128>() > u128::from(value)
    }

    /// What of a wave is to be written now. The lowers and what they make possible are two steps: until the first is done the
    /// second is not begun.
    fn chosen(&self, wave: Wave, now: Instant) -> Vec<Change> {
        let Wave { lowers, raises } = wave;
        let waits = self.lowered.is_some_and(|at| now < at + WAVE) && self.view.awaits();
        let is_safe = self.leader.options.transition == Transition::Safe;
        if is_safe && (waits || !lowers.is_empty()) { lowers } else { [lowers, raises].concat() }
    }

    /// Tells of what has changed: by how much the maximum is exceeded, and that there is nothing left to do.
    fn tell(&mut self, maximum: u64, seats: &[Seat], elsewhere: u64, nothing_to_write: bool) {
        let held = seats.iter().map(|seat| u128::from(seat.held)).sum::<u128>();
        // What nobody knows is not told as if it were known.
        let known_elsewhere = if elsewhere == u64::MAX { 0 } else { elsewhere };
        let excess = (held + u128::from(known_elsewhere)).saturating_sub(u128::from(maximum));
        let excess = u64::try_from(excess).unwrap_or(u64::MAX);
        if excess != self.exceeded && excess > 0 {
            self.leader.events.tell(Event::Exceeded { maximum, by: excess });
        }
        self.exceeded = excess;
        // Nothing is settled before the first decision.
        let is_settled = nothing_to_write
            && self.is_divided
            && self.quiet.is_settled()
            && !self.view.awaits()
            && held + u128::from(elsewhere) <= u128::from(maximum)
            && self.view.unread().is_empty()
            && seats.iter().all(|seat| seat.target == seat.throughput);
        let settled = is_settled.then(|| (maximum, seats.len(), seats.iter().map(|seat| seat.throughput).sum()));
        if let Some((maximum, members, shared)) = settled
            && self.settled != settled
        {
            self.leader.events.tell(Event::Settled { maximum, members, shared });
        }
        self.settled = settled;
    }

    fn write_of(&self, name: &str, change: &Change, stamp: Stamp) -> Option<Write> {
        let known = self.view.members.get(name)?;
        let Content::Record(record) = &known.content else { return None };
        let record = record.next(change.throughput, change.ceiling, change.confirm, stamp);
        Some(Write { name: name.to_owned(), record, version: known.version })
    }

    async fn write(&mut self, writes: Vec<Write>, maximum: i32) -> Result<(), Over> {
        let registrar = &self.leader.registrar;
        let conditions = Conditions { fence: self.fence.clone(), epoch: self.epoch.version, maximum };
        let limit = registrar.core.config.max_request_bytes;
        tracing::debug!(
            path = registrar.paths.base,
            epoch = self.epoch.number,
            sequence = self.sequence,
            members = self.view.members.len(),
            changed = writes.len(),
            "rebalance"
        );
        let (written, outcome) = writer::write(&self.session, &registrar.paths, &conditions, writes, limit).await;
        let now = Instant::now();
        for (write, version) in written.done {
            self.reserve.note(&write.name, &write.record);
            self.view.wrote(&write.name, write.record, version, now);
        }
        for write in written.stale {
            self.view.doubt(&write.name);
        }
        for (write, why) in written.refused {
            self.view.give_up(&write.name);
            // One less to divide among.
            self.quiet.disturb(now);
            self.put_aside(write.name, write.version, why).await?;
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(Stopped::Fenced) => Err(Over::Fenced),
            Err(Stopped::Epoch) => Err(Over::Again),
            Err(Stopped::Maximum) => {
                self.maximum_watch = None;
                Ok(())
            }
            Err(Stopped::Failed(error)) => Err(Over::Failed(error)),
        }
    }

    /// Until something has changed, or is due.
    async fn wait(&mut self) {
        let wave = self.lowered.map(|at| at + WAVE).filter(|at| self.view.awaits() && *at > Instant::now());
        let due = [self.quiet.due(), self.view.next_look(), self.reserve.next_look(), self.aside.next_look(), wave]
            .into_iter()
            .flatten()
            .min();
        let due = due.filter(|_| matches!(self.maximum, Maximum::Good { .. }));
        let nap = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let gather = self.leader.options.quiet.min(GATHER);
        tokio::select! {
            biased;
            _ = fired(&mut self.maximum_watch) => self.maximum_watch = None,
            _ = fired(&mut self.members_watch) => {
                tokio::time::sleep(gather).await;
                self.members_watch = None;
            }
            _ = fired(&mut self.acks_watch) => {
                tokio::time::sleep(GATHER).await;
                self.acks_watch = None;
            }
            member = self.aside.changed() => self.doubt([member]),
            () = nap => {}
        }
    }
}
