//! Watches over one session: sends its heartbeats, says when it is in doubt, and when it is over.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::clock::Instant;
use super::core::{Core, Heartbeat};
use super::error::{Error, ErrorKind};
use super::session::{Answer, Condition, EndReason, Session};
use super::state::{ConnectionState, ErrorPolicy};
use crate::backend::{self, SessionEvent};

/// After so much of the session timeout without a connection the session is given up. The client crate notices a
/// silent peer after at most 0.4 T, and the server forgets the session no earlier than T after it last heard of it.
const GIVE_UP_AFTER: f64 = 0.55;
/// Heartbeats in a session timeout.
const BEATS: u32 = 6;

/// A heartbeat that is under way.
struct Beat {
    sent: Instant,
    /// It was sent after the lease had lapsed: if it is not answered within a tick, the session is given up. A lease that
    /// nobody fed, as nothing depended on it, says nothing about the session.
    past_deadline: bool,
}

/// Watches over one session from its opening to its end.
pub(super) struct Watchkeeper<'a> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    events: BoxStream<'static, SessionEvent>,
    connection: u64,
    /// Since when there is no connection.
    disconnected: Option<Instant>,
    /// Connected again, since this loss (if it was seen), but no answer has come from the ensemble's leader yet.
    unconfirmed: Option<Option<Instant>>,
    /// Somebody depends on the lease and had it: its lapse must be told.
    armed: bool,
    /// The lease lapsed while connected.
    lapsed: bool,
    next_beat: Option<Instant>,
    beats: Vec<Beat>,
    answers: FuturesUnordered<Answer<()>>,
}

impl<'a> Watchkeeper<'a> {
    pub(super) fn new(
        core: &'a Arc<Core>,
        session: &'a Arc<Session>,
        events: BoxStream<'static, SessionEvent>,
    ) -> Self {
        Watchkeeper {
            core,
            session,
            events,
            connection: 0,
            disconnected: None,
            unconfirmed: None,
            armed: false,
            lapsed: false,
            next_beat: None,
            beats: Vec::new(),
            answers: FuturesUnordered::new(),
        }
    }

    /// Resolves with the end of the session.
    pub(super) async fn keep(mut self, closing: &mut watch::Receiver<bool>) -> EndReason {
        let session = Arc::clone(self.session);
        loop {
            // Made before the lease is looked at, so no extension is missed.
            let extended = session.lease().extended();
            let now = self.core.clock.now();
            if let Some(reason) = self.act(now) {
                return reason;
            }
            let wake = self.next_wake();
            let unwatched = self.core.is_in_use() && !self.armed;
            let clock = self.core.clock;
            let nap = async {
                match wake {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return EndReason::Closed,
                event = self.events.next() => {
                    if let Some(reason) = self.observe(event.unwrap_or(SessionEvent::Closed)) {
                        return reason;
                    }
                }
                Some(outcome) = self.answers.next() => self.note_answer(outcome),
                // Somebody may have been granted it: from now on its lapse must be told.
                () = extended, if unwatched => {}
                // A first user finds the lease as old as it is: look at once.
                _ = self.core.first_user.notified() => self.next_beat = None,
                _ = nap => {}
            }
        }
    }

    /// Does what is due now.
    fn act(&mut self, now: Instant) -> Option<EndReason> {
        if let Some(since) = self.disconnected {
            let given_up = now.since(since) >= self.session.timeout().mul_f64(GIVE_UP_AFTER);
            if !given_up && now >= self.session.lease().deadline() {
                // Under `ErrorPolicy::Session` this is when what was held ends; its holders are told by the condition.
                self.session.set_condition(Condition::Suspended);
            }
            return given_up.then_some(EndReason::GivenUp);
        }
        let tick = self.session.lease().tick();
        if self.beats.iter().any(|beat| beat.past_deadline && now.since(beat.sent) >= tick) {
            return Some(EndReason::GivenUp);
        }
        if !self.core.is_in_use() {
            self.armed = false;
            self.next_beat = None;
            if let Some(disconnected) = self.unconfirmed.take() {
                self.confirm(disconnected);
            } else if self.lapsed {
                self.resume();
            }
            return None;
        }
        if now < self.session.lease().deadline() {
            self.armed = true;
        } else if self.armed {
            self.lapse();
        }
        if self.next_beat.is_none_or(|at| now >= at) {
            self.beat(now);
        }
        None
    }

    /// When something will be due, at the latest.
    fn next_wake(&self) -> Option<Instant> {
        let deadline = self.session.lease().deadline();
        if let Some(since) = self.disconnected {
            let give_up = since + self.session.timeout().mul_f64(GIVE_UP_AFTER);
            let now = self.core.clock.now();
            return Some(if deadline > now { give_up.min(deadline) } else { give_up });
        }
        let tick = self.session.lease().tick();
        let unanswered = self.beats.iter().filter(|beat| beat.past_deadline).map(|beat| beat.sent + tick).min();
        let in_use = self.core.is_in_use();
        let lapse = (in_use && self.armed).then_some(deadline);
        let beat = self.next_beat.filter(|_| in_use);
        [unanswered, lapse, beat].into_iter().flatten().min()
    }

    /// The lease is over though the connection stands: the process was stopped, or the server does not answer.
    fn lapse(&mut self) {
        tracing::warn!(session = self.session.label(), "no proof of life in time");
        self.armed = false;
        self.lapsed = true;
        self.suspend();
        self.next_beat = None;
    }

    fn suspend(&mut self) {
        if self.core.config.error_policy == ErrorPolicy::Standard || self.lapsed {
            self.session.lease().revoke();
        }
        self.session.set_condition(Condition::Suspended);
        self.core.states.publish(ConnectionState::Suspended);
    }

    fn resume(&mut self) {
        self.lapsed = false;
        self.armed = self.core.is_in_use();
        self.connection += 1;
        self.session.set_condition(Condition::Connected(self.connection));
        self.core.states.publish(ConnectionState::Reconnected);
    }

    /// Sends a heartbeat. The first on a connection, or after a lapse, is followed by a second one a tick later, as one
    /// alone proves nothing.
    fn beat(&mut self, now: Instant) {
        let regular = self.session.timeout() / BEATS;
        let tick = self.session.lease().tick();
        let first = self.next_beat.is_none();
        // A little more than a tick, so that the second one vouches for the first.
        self.next_beat = Some(now + if first { tick + Duration::from_millis(1) } else { regular });
        self.beats.push(Beat { sent: now, past_deadline: self.lapsed && now >= self.session.lease().deadline() });
        self.answers.push(match self.core.config.heartbeat {
            Heartbeat::Sync => self.session.heartbeat(),
            Heartbeat::Quorum => self.session.quorum_heartbeat(),
        });
    }

    fn note_answer(&mut self, outcome: Result<(), backend::Error>) {
        // Answers come in the order of the requests.
        if !self.beats.is_empty() {
            self.beats.remove(0);
        }
        match outcome {
            Ok(()) => {
                if let Some(disconnected) = self.unconfirmed.take() {
                    self.confirm(disconnected);
                }
            }
            Err(error) => tracing::debug!(session = self.session.label(), ?error, "heartbeat failed"),
        }
        if self.lapsed && self.disconnected.is_none() && self.session.lease().is_proven() {
            self.resume();
        }
    }

    /// Takes in what happened to the session.
    fn observe(&mut self, event: SessionEvent) -> Option<EndReason> {
        tracing::debug!(session = self.session.label(), ?event, "session event");
        match event {
            SessionEvent::Disconnected => {
                // A connection on which nothing was answered was none: the old loss goes on.
                let since = self.unconfirmed.take().flatten();
                if self.disconnected.is_none() {
                    self.disconnected = Some(since.unwrap_or_else(|| self.core.clock.now()));
                    self.suspend();
                }
                None
            }
            SessionEvent::Connected => {
                let since = self.disconnected.take();
                self.reconnected(since);
                None
            }
            SessionEvent::Flipped => {
                self.suspend();
                self.reconnected(None);
                None
            }
            SessionEvent::Expired => Some(EndReason::Expired),
            SessionEvent::AuthFailed => {
                let refused = backend::Error::AuthFailed;
                self.core.report(Error::from_backend("stay connected to", &self.core.config.servers, refused));
                Some(EndReason::Refused)
            }
            SessionEvent::Closed => {
                let message = format!("the session with {} ended for no given reason", self.core.config.servers);
                self.core.report(Error::new(ErrorKind::SessionLost, message));
                Some(EndReason::GivenUp)
            }
        }
    }

    /// A new connection. What depends on the session waits for the answer to a first heartbeat: a server can accept a
    /// session at the very moment at which the ensemble expires it, but its leader does not answer for one that it is
    /// closing.
    fn reconnected(&mut self, disconnected: Option<Instant>) {
        self.session.lease().reconnected();
        self.beats.clear();
        self.answers.clear();
        self.next_beat = None;
        if self.core.is_in_use() {
            // It goes out before anybody hears of the connection: what contenders read on it comes after a sync, so it is
            // not older than the reconnect.
            self.beat(self.core.clock.now());
            self.unconfirmed = Some(disconnected);
        } else {
            self.confirm(disconnected);
        }
    }

    /// The ensemble accepted the session on this connection, so it renewed it after the old one broke.
    fn confirm(&mut self, disconnected: Option<Instant>) {
        if let Some(at) = disconnected {
            self.session.lease().renewed(at);
        }
        if self.session.lease().is_proven() || !self.core.is_in_use() {
            self.resume();
        } else {
            self.lapsed = true;
        }
    }
}
