//! Keeps one session alive: sends its heartbeats, and reports when the session may be lost and when it ends.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::core::Core;
use super::error::{Error, ErrorKind};
use super::session::{Condition, EndReason, Session};
use super::state::ConnectionState;
use crate::engine::{self, Loss, Reply, SessionEvent};
use crate::metrics::table;
use crate::util::clock::Instant;
use crate::util::wait::forever;

/// Heartbeats per session timeout.
const BEATS: u32 = 6;
/// Heartbeats per session timeout when a shorter one may apply without the client's knowledge. Each of them is a log
/// write of the servers.
const BEATS_UNCONFIRMED: u32 = 3;
/// The shortest interval between regular heartbeats, however short the session timeout that the client must expect.
const CLOSEST: Duration = Duration::from_millis(10);
/// A session timeout of fewer ticks leaves too little time between a heartbeat and the end of the lease.
const FEWEST_TICKS: u32 = 4;

/// The state of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Connected, and renewed by the ensemble on this connection.
    Up,
    /// Reconnected; no heartbeat has been answered on this connection yet. Until a quorum has answered, heartbeats are
    /// transactions.
    Unconfirmed,
    /// Connected, but the lease expired while something depended on it.
    Lapsed,
    /// Connected to a read-only server. Nothing is held, and nothing extends the lease.
    ReadOnly,
    /// Not connected.
    Down(Loss),
}

/// The second heartbeat after a pause. It is sent a tick after the answer to the first one, and its answer turns the
/// first one into proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowUpBeat {
    /// Sent, or not needed because there was no pause.
    Done,
    /// The first one is not answered yet.
    Unknown,
    /// Due at this time, between the regular heartbeats.
    Due(Instant),
}

/// Keeps one session from its start to its end.
pub(super) struct Keepalive<'a> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    events: BoxStream<'static, SessionEvent>,
    phase: Phase,
    connection: u64,
    /// The lease was valid while something depended on it, so its expiry must be reported.
    must_report_lapse: bool,
    /// When the next regular heartbeat is due. `None`: at once, as the first one on a connection or after a pause.
    next_beat: Option<Instant>,
    follow_up: FollowUpBeat,
    answers: FuturesUnordered<Reply<()>>,
    /// The smallest session timeout that was checked. A connection that grants no less needs no further warning.
    checked: Duration,
}

impl<'a> Keepalive<'a> {
    pub(super) fn new(
        core: &'a Arc<Core>,
        session: &'a Arc<Session>,
        events: BoxStream<'static, SessionEvent>,
    ) -> Self {
        let mut keepalive = Keepalive {
            core,
            session,
            events,
            phase: Phase::Up,
            connection: 0,
            must_report_lapse: false,
            next_beat: None,
            follow_up: FollowUpBeat::Done,
            answers: FuturesUnordered::new(),
            checked: Duration::MAX,
        };
        keepalive.check_timeout();
        if session.lease().is_read_only() {
            keepalive.only_read();
        } else if !session.lease().is_settled() {
            // The session's first connections broke before it could be used.
            keepalive.await_confirmation();
        }
        keepalive
    }

    /// Runs until the session ends. Returns how it ended, and the time of the last contact with a server if it had no
    /// connection at its end.
    pub(super) async fn keep(mut self, closing: &mut watch::Receiver<bool>) -> (EndReason, Option<Instant>) {
        let reason = self.run(closing).await;
        match self.phase {
            Phase::Down(loss) => (reason, Some(loss.last_contact)),
            _ => (reason, None),
        }
    }

    async fn run(&mut self, closing: &mut watch::Receiver<bool>) -> EndReason {
        let session = Arc::clone(self.session);
        loop {
            // Created before the lease is read, so no extension is missed.
            let extended = session.lease().extended();
            let now = self.core.clock.now();
            if let Some(reason) = self.act(now) {
                return reason;
            }
            let wake = self.next_wake(now);
            // Without a connection, each attempt to reconnect may bring the deadline forward, and the expiry must be
            // reported in time.
            let down = matches!(self.phase, Phase::Down(_));
            let waits_for_lease =
                down || self.phase == Phase::Lapsed || (self.core.is_in_use(now) && !self.must_report_lapse);
            let clock = self.core.clock;
            let due = async {
                match wake {
                    Some(at) => clock.sleep_until(at).await,
                    None => forever().await,
                }
            };
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return EndReason::Closed,
                event = self.events.next() => {
                    if let Some(reason) = self.handle_event(event.unwrap_or(SessionEvent::Closed)) {
                        return reason;
                    }
                }
                Some(outcome) = self.answers.next() => self.note_answer(outcome),
                // A grant may have been taken since, so the expiry of the lease must be reported from now on.
                () = extended, if waits_for_lease => {}
                // The lease may be old when its first user arrives: check it at once.
                _ = self.core.first_user.notified() => {}
                _ = due => {}
            }
        }
    }

    /// Does what is due now. Returns the reason if the session must have ended.
    fn act(&mut self, now: Instant) -> Option<EndReason> {
        match self.phase {
            Phase::Down(loss) => {
                self.end_holds(now);
                // The servers must have expired the session by then.
                return (now >= loss.last_contact + self.session.timeout()).then_some(EndReason::GivenUp);
            }
            // Even without a user of the lease: callers that wait for a connection wait for the confirmation.
            Phase::Unconfirmed => {
                self.end_holds(now);
                self.beat_if_due(now);
            }
            Phase::Up | Phase::Lapsed => self.keep_the_lease(now),
            Phase::ReadOnly => {}
        }
        None
    }

    /// Ends the holds at the deadline: without a confirmed connection, holds under `ErrorPolicy::Session` last until
    /// then. Setting the condition once more notifies the holders.
    fn end_holds(&self, now: Instant) {
        if now >= self.session.lease().deadline() {
            self.session.set_condition(Condition::Suspended);
        }
    }

    /// Extends the lease while a recipe is in use, and reports when it has expired and when it is valid again.
    fn keep_the_lease(&mut self, now: Instant) {
        let in_use = self.core.is_in_use(now);
        if self.phase == Phase::Lapsed && (!in_use || self.session.lease().is_proven()) {
            self.resume();
        }
        if !in_use {
            self.must_report_lapse = false;
            self.next_beat = None;
            return;
        }
        if now < self.session.lease().deadline() {
            self.must_report_lapse = true;
        } else if self.must_report_lapse {
            self.lapse();
        }
        self.beat_if_due(now);
    }

    fn beat_if_due(&mut self, now: Instant) {
        if self.beat_due().is_none_or(|at| now >= at) {
            self.beat(now);
        }
    }

    /// Returns when the next heartbeat is due; if None, at once.
    fn beat_due(&self) -> Option<Instant> {
        let regular = self.next_beat?;
        Some(if let FollowUpBeat::Due(follow_up) = self.follow_up { regular.min(follow_up) } else { regular })
    }

    /// Returns the earliest time at which something is due.
    fn next_wake(&self, now: Instant) -> Option<Instant> {
        let deadline = self.session.lease().deadline();
        let (lapse, other) = match self.phase {
            Phase::Down(loss) => (deadline > now, Some(loss.last_contact + self.session.timeout())),
            Phase::Unconfirmed => (deadline > now, self.beat_due()),
            Phase::Up | Phase::Lapsed if self.core.is_in_use(now) => (self.must_report_lapse, self.beat_due()),
            Phase::Up | Phase::Lapsed | Phase::ReadOnly => return None,
        };
        lapse.then_some(deadline).into_iter().chain(other).min()
    }

    /// Handles a lease that expired while connected: the process was stopped, or the leader does not answer.
    fn lapse(&mut self) {
        tracing::warn!(
            event = "lease_expired",
            session = self.session.label(),
            state = %ConnectionState::Suspended,
            "the lease expired without proof of life"
        );
        self.must_report_lapse = false;
        self.next_beat = None;
        self.phase = Phase::Lapsed;
        self.session.lease().suspend();
        self.publish_suspended();
    }

    /// Returns whether this changed the client's state.
    fn publish_suspended(&self) -> bool {
        self.session.set_condition(Condition::Suspended);
        self.core.states.publish(ConnectionState::Suspended)
    }

    fn resume(&mut self) {
        self.phase = Phase::Up;
        self.session.lease().resume();
        self.connection += 1;
        self.session.set_condition(Condition::Connected(self.connection));
        // A session whose first connection broke before it could be used was never reported as suspended.
        let known = self.core.states.latest().is_connected();
        if !known && self.core.states.publish(ConnectionState::Reconnected) {
            tracing::info!(
                event = "reconnected",
                session = self.session.label(),
                state = %ConnectionState::Reconnected,
                "the session is usable again"
            );
        }
    }

    fn beat(&mut self, now: Instant) {
        match (self.next_beat, self.follow_up) {
            (None, _) => self.follow_up = FollowUpBeat::Unknown,
            (Some(_), FollowUpBeat::Due(at)) if now >= at => self.follow_up = FollowUpBeat::Done,
            _ => {}
        }
        let lease = self.session.lease();
        let unconfirmed = lease.unconfirmed_timeout().map(|timeout| timeout / BEATS_UNCONFIRMED);
        let regular = lease.least_timeout() / BEATS;
        self.next_beat = Some(now + unconfirmed.unwrap_or(regular).max(CLOSEST));
        if self.must_report_lapse {
            let margin = lease.deadline().since(now).as_secs_f64();
            self.core.meter().record(&table::LEASE_MARGIN, &[], margin);
        }
        self.answers.push(self.session.heartbeat());
    }

    fn note_answer(&mut self, outcome: Result<(), engine::Error>) {
        if self.follow_up == FollowUpBeat::Unknown && self.next_beat.is_some() {
            // A little more than a tick.
            let at = self.core.clock.now() + self.session.lease().tick() + Duration::from_millis(1);
            self.follow_up = FollowUpBeat::Due(at);
        }
        match outcome {
            Ok(()) if self.phase == Phase::Unconfirmed => self.confirm(),
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(event = "heartbeat_failed", session = self.session.label(), ?error, "heartbeat failed");
            }
        }
    }

    /// Makes everything that depends on the session wait for the answer to a first heartbeat. A server can accept a
    /// session at the very moment at which the ensemble expires it, but the leader refuses the transactions of a
    /// session that it is closing. Contenders read only after that heartbeat, so what they read is not older than the
    /// reconnect.
    fn await_confirmation(&mut self) {
        self.phase = Phase::Unconfirmed;
        self.must_report_lapse = false;
        self.next_beat = None;
        self.beat(self.core.clock.now());
    }

    /// Lets reads continue on a read-only server, which cannot confirm anything.
    fn only_read(&mut self) {
        self.phase = Phase::ReadOnly;
        self.must_report_lapse = false;
        self.connection += 1;
        self.session.set_condition(Condition::Connected(self.connection));
        self.core.states.publish(ConnectionState::ReadOnly);
        tracing::warn!(
            event = "read_only",
            session = self.session.label(),
            state = %ConnectionState::ReadOnly,
            "connected to a server that only answers reads: it is in contact with no majority, and may be far behind"
        );
    }

    /// Ends the wait for that answer. The ensemble accepted the session on this connection, so it renewed the session
    /// after the old connection broke.
    fn confirm(&mut self) {
        if self.session.lease().is_proven() || !self.core.is_in_use(self.core.clock.now()) {
            self.resume();
        } else {
            self.phase = Phase::Lapsed;
            self.session.lease().suspend();
        }
    }

    fn handle_event(&mut self, event: SessionEvent) -> Option<EndReason> {
        tracing::debug!(
            event = "session_event",
            session = self.session.label(),
            detail = ?event,
            "the session's connection has changed"
        );
        match event {
            SessionEvent::Disconnected(loss) => {
                self.answers.clear();
                self.phase = Phase::Down(loss);
                if self.publish_suspended() {
                    tracing::info!(
                        event = "suspended",
                        session = self.session.label(),
                        state = %ConnectionState::Suspended,
                        "connection lost; the session may be lost"
                    );
                }
                None
            }
            SessionEvent::Connected => {
                self.check_timeout();
                if self.session.lease().is_read_only() {
                    self.only_read();
                } else {
                    self.await_confirmation();
                }
                None
            }
            SessionEvent::Expired => Some(EndReason::Expired),
            SessionEvent::AuthFailed => {
                let refused = engine::Error::AuthFailed;
                let causes = self.core.ensemble.causes();
                self.core.report(Error::of_session("stay connected to", &self.core.config.servers, &causes, refused));
                Some(EndReason::Refused)
            }
            SessionEvent::Replaced => Some(EndReason::Replaced),
            SessionEvent::Closed => {
                let message = format!("the session with {} ended for no given reason", self.core.config.servers);
                self.core.report(Error::new(ErrorKind::SessionLost, message));
                Some(EndReason::GivenUp)
            }
        }
    }

    /// Checks the session timeout that the latest connection was granted.
    fn check_timeout(&mut self) {
        self.warn_if_other();
        self.warn_if_short();
    }

    /// Warns if the servers granted another session timeout than the one asked for. Warns once per client, because the
    /// next session is most likely granted the same.
    fn warn_if_other(&self) {
        let (asked, granted) = (self.core.config.session_timeout, self.session.timeout());
        // Both are sent in milliseconds.
        if asked.as_millis() == granted.as_millis() {
            return;
        }
        self.core.other_timeout.call_once(|| {
            tracing::warn!(
                event = "other_session_timeout",
                session = self.session.label(),
                ?asked,
                ?granted,
                "the servers granted another session timeout than the client asked for: ask for one from their \
                 minSessionTimeout to their maxSessionTimeout (by default 2 to 20 ticks), or change these on all \
                 servers"
            );
        });
    }

    /// Warns if the session timeout is below the configured minimum or too short for the tick time. Warns only once for
    /// each smaller value, because a connection may break and come back several times a second.
    fn warn_if_short(&mut self) {
        let (timeout, tick) = (self.session.lease().least_timeout(), self.core.config.tick);
        if timeout >= self.checked {
            return;
        }
        self.checked = timeout;
        if let Some(least) = self.core.config.min_session_timeout.filter(|least| timeout < *least) {
            tracing::warn!(
                event = "session_timeout_below_minimum",
                session = self.session.label(),
                ?timeout,
                min_session_timeout = ?least,
                "a server granted less than min_session_timeout, which this session ignores from now on: while a \
                 reconnect is unanswered, and for a session timeout after it, leases last two ticks at most; lower it \
                 to the servers' minSessionTimeout"
            );
        }
        if timeout < tick * FEWEST_TICKS {
            tracing::warn!(
                event = "session_timeout_short",
                session = self.session.label(),
                ?timeout,
                ?tick,
                "the servers granted a session timeout of less than four ticks: leases are short, and what is held is \
                 lost to small delays; raise the session timeout, or tell the client the servers' tick time"
            );
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
