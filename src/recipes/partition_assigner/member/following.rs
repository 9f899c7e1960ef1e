//! Follows the assignment of a member, in one registration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claims::{Claim, Claims, MOST_AT_ONCE, Pending};
use super::{Leave, Member};
use crate::client::session::{Condition, Session};
use crate::engine::{self, Event as Change, Watch};
use crate::layout::partition_assigner::Assignment;
use crate::partition_assigner::changes::Holds;
use crate::partition_assigner::events::Event;
use crate::partition_assigner::owned::{Held, Owned, Phase};
use crate::util::backoff::Backoff;
use crate::util::wait::{fired, sleep_until_opt};

/// Delays before a partition is taken again that its holder has released by itself.
const TAKE_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How long a member waits for the first decision before it reports that there is none.
const UNDECIDED: Duration = Duration::from_secs(5);

/// In place of a time that the clock cannot show.
const NO_LIMIT: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Why a member stops following its assignment.
#[derive(Debug)]
pub(super) enum End {
    /// It was asked to leave, and its nodes are gone.
    Left,
    SessionOver,
    /// Its node was deleted by hand.
    NodeDeleted,
    /// Its record was deleted or overwritten by hand. This registration gets no other record, so the member needs a
    /// new registration.
    RecordLost,
    Refused(engine::Error),
}

/// What is known of the record of the member.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// It must be read.
    Unread,
    /// It does not exist, or is for another registration: nothing is assigned.
    NotOurs,
    /// The record, and the version of its node.
    Ours(Assignment, i32),
}

/// A partition that the holder has released by itself.
#[derive(Debug)]
pub(super) struct Pause {
    /// Until when it is not taken again.
    pub(super) until: Instant,
    delays: Backoff,
}

/// A member in one registration.
pub(super) struct Following<'a> {
    pub(super) member: &'a Member,
    pub(super) session: Arc<Session>,
    pub(super) registration: String,
    /// The node that shows that the member is present.
    pub(super) node: Arc<str>,
    pub(super) known: Known,
    /// Whether the record was for this registration.
    was_ours: bool,
    pub(super) claims: Claims,
    /// The transaction of which no answer came.
    pub(super) pending: Option<Pending>,
    /// The member's count of its claims.
    pub(super) claim: u64,
    /// The member has asked for the deletion of its node.
    pub(super) is_departing: bool,
    /// How many partitions one transaction changes at most.
    pub(super) most: usize,
    pub(super) paused: BTreeMap<Arc<str>, Pause>,
    record_watch: Option<Watch>,
    node_watch: Option<Watch>,
    /// The connection on which both were read.
    verified: Option<u64>,
    /// A request failed on this connection. No other is sent until the connection is known to be lost.
    failed_on: Option<u64>,
    published: Vec<(Owned, Phase)>,
    is_settled: bool,
    /// When to report that no leader has decided.
    undecided: Option<Instant>,
}

impl<'a> Following<'a> {
    pub(super) fn new(member: &'a Member, session: &Arc<Session>, registration: String, node: Arc<str>) -> Self {
        Following {
            member,
            session: Arc::clone(session),
            registration,
            node,
            known: Known::Unread,
            was_ours: false,
            claims: Claims::default(),
            pending: None,
            claim: 0,
            is_departing: false,
            most: MOST_AT_ONCE,
            paused: BTreeMap::new(),
            record_watch: None,
            node_watch: None,
            verified: None,
            failed_on: None,
            published: Vec::new(),
            is_settled: false,
            undecided: Instant::now().checked_add(UNDECIDED),
        }
    }

    /// Ends all holds, and waits until no work is left or the session is over. Returns the nodes that may exist.
    pub(super) async fn end(self) -> Vec<Arc<str>> {
        self.claims.end_all();
        self.member.channel.publish(Holds::new(), false);
        let idle = async {
            while !self.claims.are_idle() {
                self.member.wake.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = idle => {}
            () = self.session.ended() => {}
        }
        let pending = self.pending.map(|pending| pending.taken).unwrap_or_default();
        let claims = self.claims.all.into_values().map(|claim| claim.path);
        claims.chain(pending.into_values()).chain([self.node]).collect()
    }

    /// Follows the assignment until the member has left, or has to register again.
    pub(super) async fn run(&mut self) -> End {
        let session = Arc::clone(&self.session);
        let wake = Arc::clone(&self.member.wake);
        let mut conditions = session.conditions();
        let mut stop = self.member.stop.clone();
        loop {
            // Created before the lease is read, so that no extension is missed.
            let extended = session.lease().extended();
            let leaving = *stop.borrow_and_update();
            let condition = *conditions.borrow_and_update();
            self.claims.end_overdue(Instant::now(), Owned::has_lease);
            match condition {
                Condition::Ended(_) => return End::SessionOver,
                Condition::Suspended => {
                    self.is_settled = false;
                    if leaving.is_some() {
                        // Work ends while the lease lasts, even if the others get nothing before the reconnect.
                        self.claims.revoke(&BTreeSet::new(), self.deadline(), &self.member.registrar.paths.base);
                    }
                }
                Condition::Connected(connection) if self.failed_on == Some(connection) => {
                    self.publish();
                    session.wait_for_disconnect(connection).await;
                    self.failed_on = None;
                    continue;
                }
                Condition::Connected(connection) => {
                    let advanced = tokio::select! {
                        biased;
                        _ = conditions.changed() => {
                            // What was under way is looked up again.
                            self.known = Known::Unread;
                            continue;
                        }
                        advanced = self.advance(connection, leaving) => advanced,
                    };
                    match advanced {
                        Ok(Advanced::Again) => continue,
                        Ok(Advanced::Waits) => {}
                        Err(End::Refused(error)) if error.is_transient() => {
                            self.known = Known::Unread;
                            self.failed_on = Some(connection);
                            continue;
                        }
                        Err(end) => return end,
                    }
                }
            }
            self.publish();
            let claims = &self.claims;
            // Waits until the lease lasts again that a hold relied on, or that one is to rely on. Other extensions do
            // not count.
            let renewed = async {
                let mut extended = extended;
                loop {
                    extended.await;
                    // Created before the lease is read, so that no extension is missed.
                    extended = session.lease().extended();
                    if claims.all.values().any(Claim::wants_lease) {
                        break;
                    }
                }
            };
            // While the member cannot take anything, the end of a pause changes nothing.
            let can_take = matches!(condition, Condition::Connected(_)) && leaving.is_none();
            let paused_until = self.paused_until().filter(|_| can_take);
            let due = self.claims.deadline().into_iter().chain(paused_until).min();
            let undecided = self.undecided;
            tokio::select! {
                biased;
                // Without a handle, the member is leaving already.
                Ok(()) = stop.changed() => {}
                event = fired(&mut self.node_watch) => {
                    self.node_watch = None;
                    match event {
                        Change::NodeDeleted if self.is_departing => return End::Left,
                        Change::NodeDeleted => return End::NodeDeleted,
                        _ => self.verified = None,
                    }
                }
                _ = fired(&mut self.record_watch) => (self.record_watch, self.known) = (None, Known::Unread),
                _ = conditions.changed() => {}
                () = wake.notified() => {}
                () = renewed => {}
                () = sleep_until_opt(due) => {}
                () = sleep_until_opt(undecided) => {
                    self.undecided = None;
                    self.member.events.report(Event::Undecided { member: self.member.options.id.clone() });
                }
            }
        }
    }

    /// Does the next thing that there is to do.
    async fn advance(&mut self, connection: u64, leaving: Option<Leave>) -> Result<Advanced, End> {
        self.look(connection).await?;
        self.resolve().await?;
        let assigned = self.assigned(leaving);
        if matches!(self.known, Known::Ours(..)) {
            self.paused.retain(|name, _| assigned.contains(name));
        }
        self.claims.end_overdue(Instant::now(), Owned::has_lease);
        self.claims.revoke(&assigned, self.deadline(), &self.member.registrar.paths.base);
        self.hold(&assigned);
        self.publish();
        if let Some(leave) = leaving.filter(|_| self.claims.all.is_empty()) {
            return self.depart(leave).await;
        }
        let advanced = match self.known.clone() {
            Known::Unread => Advanced::Again,
            Known::NotOurs if self.was_ours && self.claims.all.is_empty() => return Err(End::RecordLost),
            Known::NotOurs => self.give_without_record().await?,
            Known::Ours(record, version) => {
                let is_leaving = leaving == Some(Leave::HandOver);
                self.reconcile(&record, version, &assigned, is_leaving).await?
            }
        };
        let held: BTreeSet<_> = self.claims.holds().into_keys().collect();
        self.is_settled = held == assigned && matches!(&self.known, Known::Ours(record, _) if !record.partial);
        Ok(advanced)
    }

    /// Reads both nodes, with watches, if they were not read on this connection or have changed.
    async fn look(&mut self, connection: u64) -> Result<(), End> {
        let is_verified = self.verified == Some(connection);
        let (session, paths) = (&self.session, &self.member.registrar.paths);
        if !is_verified || self.node_watch.is_none() {
            let (found, watch) = session.watch_exists(&self.node).await.map_err(End::Refused)?;
            let Some(stat) = found else {
                // If the member has departed, only the answer was lost.
                return Err(if self.is_departing { End::Left } else { End::NodeDeleted });
            };
            // A leader writes the node when it addresses a record to this registration.
            self.was_ours |= stat.version > 0;
            self.node_watch = Some(watch);
        }
        if is_verified && self.record_watch.is_some() && !matches!(self.known, Known::Unread) {
            return Ok(());
        }
        let path = paths.assignment(&self.member.options.id);
        if self.pending.is_some() {
            // The server may lag behind the transaction that got no answer.
            session.sync(&path).await.map_err(End::Refused)?;
        }
        self.known = match session.watch_data(&path).await {
            Ok((data, stat, watch)) => {
                self.record_watch = Some(watch);
                match Assignment::parse(&data) {
                    Ok(record) if record.member == self.registration => Known::Ours(record, stat.version),
                    _ => Known::NotOurs,
                }
            }
            Err(engine::Error::NoNode) => {
                let (found, watch) = session.watch_exists(&path).await.map_err(End::Refused)?;
                self.record_watch = Some(watch);
                if found.is_some() { Known::Unread } else { Known::NotOurs }
            }
            Err(error) => return Err(End::Refused(error)),
        };
        self.verified = Some(connection);
        if matches!(self.known, Known::Ours(..)) {
            self.undecided = None;
            self.was_ours = true;
        }
        Ok(())
    }

    /// Returns when a partition that is revoked now has to be released.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.member.options.grace_period).unwrap_or(now + NO_LIMIT)
    }

    /// Returns what the member should hold.
    fn assigned(&self, leaving: Option<Leave>) -> BTreeSet<Arc<str>> {
        match &self.known {
            Known::Ours(record, _) if leaving.is_none() => record.assigned.clone(),
            // What is assigned is not known at this moment, so nothing is revoked.
            Known::Unread if leaving.is_none() => self.claims.all.keys().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Begins to hold what the member has a node for.
    fn hold(&mut self, assigned: &BTreeSet<Arc<str>>) {
        if !matches!(self.known, Known::Ours(..)) {
            return;
        }
        let core = &self.member.registrar.core;
        for (name, claim) in &mut self.claims.all {
            if !claim.may_hold() || !assigned.contains(name) {
                continue;
            }
            let Some(grant) = self.session.grant() else { return };
            let held = Held { partition: Arc::clone(name), path: Arc::clone(&claim.path), token: claim.token };
            claim.hold = Some(Owned::new(core, &self.session, grant, held, &self.member.wake));
            claim.lapsed = false;
        }
    }

    /// Publishes what the member holds, if it has changed.
    fn publish(&mut self) {
        let holds: Holds = self.claims.holds();
        let is_known = holds.len() == self.published.len()
            && holds.values().zip(&self.published).all(|(now, (then, phase))| now.is(then) && now.phase() == *phase);
        let is_settled = self.is_settled;
        if is_known && self.member.channel.is_settled() == is_settled {
            return;
        }
        self.published = holds.values().map(|hold| (hold.clone(), hold.phase())).collect();
        self.member.channel.publish(holds, is_settled);
    }

    /// Notes that a holder has released a partition that is still assigned to this member.
    pub(super) fn pause(&mut self, name: &Arc<str>) {
        let (core, now) = (&self.member.registrar.core, Instant::now());
        let Some(claim) = self.claims.all.get(name) else { return };
        let fresh = || Pause { until: now, delays: Backoff::new(TAKE_AGAIN) };
        let pause = self.paused.entry(Arc::clone(name)).or_insert_with(fresh);
        pause.until = now + core.next_delay(&mut pause.delays, claim.since);
    }

    /// Returns the end of the next pause of a partition that is assigned and not taken.
    fn paused_until(&self) -> Option<Instant> {
        let Known::Ours(record, _) = &self.known else { return None };
        let waits = |name: &&Arc<str>| record.assigned.contains(*name) && !self.claims.all.contains_key(*name);
        self.paused.iter().filter(|(name, _)| waits(name)).map(|(_, pause)| pause.until).min()
    }
}

/// What to do after a step.
pub(super) enum Advanced {
    /// There may be more to do.
    Again,
    /// Nothing is to be done until something changes.
    Waits,
}
