//! One look at everything, and then every change of it, for as long as nothing goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::events::Event;
use super::known::Content;
use super::leader::{Epoch, Leader};
use super::maximum;
use super::member::fired;
use super::paths::read_ack;
use super::plan::{self, Change, Seat, Transition, Wave};
use super::quiet::Quiet;
use super::record::{Record, Stamp, shown};
use super::registration::AT_ONCE;
use super::reserve::Reserve;
use super::view::{Late, View};
use super::writer::{self, Conditions, Stopped, Write};
use crate::backend::{self, Op, Watch};
use crate::client::session::Session;
use crate::types::Stat;

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
    /// Of nodes that hold no record: they may become one.
    spoiled: Vec<(String, Watch)>,
    quiet: Quiet,
    /// When members were given less; none if nobody is waited for.
    lowered: Option<Instant>,
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
            spoiled: Vec::new(),
            quiet: Quiet::new(options.quiet, options.at_most),
            lowered: None,
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

    /// Brings up to date what has changed. Acknowledgements are asked for first: a member whose node is seen gone is gone
    /// only if its acknowledgement is too.
    async fn look(&mut self) -> Result<(), Over> {
        let paths = &self.leader.registrar.paths;
        let acks = self.acks_watch.is_none().then(|| self.session.watch_children(&paths.acks));
        let members = self.members_watch.is_none().then(|| self.session.watch_children(&paths.members));
        let maximum = self.maximum_watch.is_none().then(|| self.session.watch_data(&paths.maximum));
        if let Some(acks) = acks {
            let (names, watch) = self.listed(acks.await).await?;
            self.acks_watch = Some(watch);
            let mut newest: BTreeMap<String, Stamp> = BTreeMap::new();
            for (member, stamp) in names.iter().filter_map(|name| read_ack(name)) {
                let known = newest.entry(member.to_owned()).or_insert(stamp);
                *known = stamp.max(*known);
            }
            self.view.list_acks(newest, Instant::now());
        }
        if let Some(members) = members {
            let (names, watch) = self.listed(members.await).await?;
            self.members_watch = Some(watch);
            let now = Instant::now();
            if self.view.list_members(names, now) {
                self.quiet.disturb(now);
            }
        }
        if let Some(maximum) = maximum {
            let read = maximum.await;
            self.maximum_read(read).await?;
        }
        let (now, view) = (Instant::now(), &self.view);
        let until = now.checked_add(self.session.timeout()).unwrap_or(now);
        self.reserve.keep_for_the_gone(until, |name| view.is_there(name));
        Ok(())
    }

    /// A listing; a directory that somebody deleted is made anew, and looked at in the next round.
    async fn listed(
        &self,
        answer: Result<(Vec<String>, Stat, Watch), backend::Error>,
    ) -> Result<(Vec<String>, Watch), Over> {
        match answer {
            Ok((names, _, watch)) => Ok((names, watch)),
            Err(backend::Error::NoNode) => {
                self.leader.registrar.directories(&self.session).await.map_err(Over::Failed)?;
                Err(Over::Again)
            }
            Err(error) => Err(Over::Failed(error)),
        }
    }

    async fn maximum_read(&mut self, read: Result<(Vec<u8>, Stat, Watch), backend::Error>) -> Result<(), Over> {
        let path = &self.leader.registrar.paths.maximum;
        let seen = match read {
            Ok((data, stat, watch)) => {
                self.maximum_watch = Some(watch);
                match maximum::parse(&data) {
                    Ok(value) => Maximum::Good { value, version: stat.version },
                    Err(why) => Maximum::Bad(format!("{path}: {why}")),
                }
            }
            Err(backend::Error::NoNode) => {
                let (found, watch) = self.session.watch_exists(path).await.map_err(Over::Failed)?;
                if found.is_some() {
                    // It was created just now: it is read in the next round.
                    return Ok(());
                }
                self.maximum_watch = Some(watch);
                Maximum::Bad(format!("{path} does not exist; set it with set_max_throughput"))
            }
            Err(error) => return Err(Over::Failed(error)),
        };
        if seen != self.maximum {
            // At once; but for the first look, which comes with the members.
            if self.maximum != Maximum::Unread {
                self.quiet.end();
            }
            match &seen {
                Maximum::Bad(why) => {
                    // That it is good again is told, also if that changes no share.
                    self.settled = None;
                    self.leader.events.maximum_is_invalid(why);
                }
                _ => self.leader.events.maximum_is_not_invalid(),
            }
            self.maximum = seen;
        }
        Ok(())
    }

    /// Reads the nodes of those that are new, or in doubt.
    async fn read_members(&mut self) -> Result<(), Over> {
        let (session, paths) = (&self.session, &self.leader.registrar.paths);
        if self.view.is_in_doubt() {
            // What was found to be stale must not be read from a server that lags.
            session.sync(&paths.members).await.map_err(Over::Failed)?;
        }
        let reads = futures::stream::iter(self.view.unread()).map(|name| async move {
            let read = session.get_data(&paths.member(&name)).await;
            match read {
                Ok((data, stat)) => {
                    let record = Record::parse(&data).map_err(|why| format!("{} is no record: {why}", shown(&data)));
                    Ok(Some((name, stat.version, record)))
                }
                // It has left since the listing; the next one knows.
                Err(backend::Error::NoNode) => Ok(None),
                Err(error @ backend::Error::NoAuth) => {
                    Ok(Some((name, 0, Err(format!("it cannot be read: {error:?}")))))
                }
                Err(error) => Err(Over::Failed(error)),
            }
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
        for (name, version, record) in reads.into_iter().flatten() {
            if let Ok(record) = &record {
                self.reserve.note(&name, record);
            }
            let unreadable = record.as_ref().err().cloned();
            if self.view.read(&name, version, record.ok()) {
                self.leader.events.tell(Event::MemberEdited { member: name.clone() });
            }
            if let Some(why) = unreadable {
                self.spoiled(name, version, why).await?;
            }
        }
        Ok(())
    }

    /// Tells of a node that cannot be served, and looks at it again when somebody has changed it.
    async fn spoiled(&mut self, member: String, version: i32, why: String) -> Result<(), Over> {
        match self.session.watch_data(&self.leader.registrar.paths.member(&member)).await {
            Ok((_, stat, watch)) if stat.version == version => self.spoiled.push((member.clone(), watch)),
            Ok(_) => self.view.doubt(&member),
            // One that is gone is known to be by the next listing; one that may not be read is left alone.
            Err(backend::Error::NoNode | backend::Error::NoAuth) => {}
            Err(error) => return Err(Over::Failed(error)),
        }
        self.leader.events.tell(Event::MemberUnreadable { member, why });
        Ok(())
    }

    /// Acknowledgements of members that were never seen: only the end of a session frees what they stand for, unless
    /// somebody has made them by hand.
    async fn prove_strangers(&mut self) -> Result<(), Over> {
        for (member, stamp) in self.view.strangers() {
            match self.session.get_data(&self.leader.registrar.paths.ack(&member, stamp)).await {
                Ok((_, stat)) => self.view.prove(&member, stat.ephemeral_owner != 0),
                // Gone by now: the next listing knows.
                Err(backend::Error::NoNode) => {}
                Err(backend::Error::NoAuth) => self.view.prove(&member, true),
                Err(error) => return Err(Over::Failed(error)),
            }
        }
        Ok(())
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

    /// What each is to have from now on.
    fn decide(&mut self) {
        let Maximum::Good { value, .. } = self.maximum else { return };
        self.quiet.settle();
        let candidates = self.view.candidates();
        match self.leader.options.allocation.divide(value, &candidates) {
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
        let now = Instant::now();
        let elsewhere = self.view.held_elsewhere().saturating_add(self.reserve.held(now));
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
            self.spoiled(write.name, write.version, why).await?;
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
        let due = [self.quiet.due(), self.view.next_look(), self.reserve.next_look(), wave].into_iter().flatten().min();
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
            name = changed(&mut self.spoiled) => {
                self.view.doubt(&name);
                self.quiet.disturb(Instant::now());
            }
            () = nap => {}
        }
    }
}

/// The first of those nodes that is changed, which is watched no more.
async fn changed(watched: &mut Vec<(String, Watch)>) -> String {
    let at = std::future::poll_fn(|cx| {
        let fired = watched.iter_mut().position(|(_, watch)| watch.poll_unpin(cx).is_ready());
        fired.map_or(Poll::Pending, Poll::Ready)
    });
    let at = at.await;
    watched.remove(at).0
}
