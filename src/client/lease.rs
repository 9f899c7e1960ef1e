//! The lease of a session: how long the client may rely on the session being alive.
//!
//! With T the session timeout, the servers expire a session T after they last heard of it. But only the *leader* of the
//! ensemble counts. It learns of a session only when the follower that serves the session reports, with the leader's
//! ping, every half tick. A follower that is cut off still answers pings, reads, even some syncs. So an answer alone
//! proves little. An answer that must come from the leader (to a sync, a write) does prove something: the follower was
//! still reporting then, so it has reported everything that it had heard a tick before.
//!
//! When such a request, sent at s, is answered, the *anchor* becomes the send time of the newest request of the same
//! connection whose answer had arrived at or before s − tick. Only answered requests count: a request can be delayed on
//! its way, and only its answer shows when the follower had heard it. Reads do not count: a follower of ClickHouse
//! Keeper answers them by itself, and reports nothing to its leader. The session is alive until the *deadline*,
//! `anchor + (T − tick/2) · 0.999`. The rest of T covers the follower's own delay and clocks that run at different
//! speeds.
//!
//! T belongs to a connection: the servers grant it at each connect, and a reconnect can make a session expire earlier
//! than the previous connection promised. An earlier T can apply again: a new leader starts every session with the
//! timeout of its creation, and a late message of an old connection restores that connection's. So the lease uses the
//! smallest T that this session was ever granted, and a reconnect sets a new deadline:
//!
//! 1. The deadline is brought forward when the request to reconnect is written, because its answer may be lost: no
//!    server grants less than its minimum, and the leader counts that from when it hears of the request. That minimum
//!    is two ticks, or the option for it, unless a grant in this session was below the option. This is why the engine
//!    first asks a server that is not known to serve whether it does ([`Observer::outlasts_connections`]).
//! 2. When the request is answered, T counts from the time of that request, but the deadline is not later than before
//!    the loss.
//! 3. When a quorum first answers on the new connection, the anchor is the time of that request: the leader that passed
//!    the transaction on to the quorum had resumed the session, as a server closes its connections when it changes its
//!    leader. A sync is not enough: a leader that does not know it was deposed still resumes sessions and answers
//!    syncs. So until then, an earlier request that was given up may have been granted the minimum, as in 1.
//! 4. A request to reconnect that was given up may still reach its server later. The server then moves the session to
//!    that unused connection, and may grant the minimum. From then on the ensemble refuses transactions by any other
//!    connection. But a process that is stopped or cut off just then does not see that, and a sync may still be
//!    answered. So after each attempt that follows one that was given up, for a session timeout and until a quorum
//!    answers a later request, the deadline is at most that minimum after the latest request answered by a quorum.
//!
//! One case is not covered: such a request is delayed for longer than that, in the network or in the socket of a paused
//! server, and is then granted less than the others were, while the client is stopped or cut off.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::{Loss, Observer, Proof};
use crate::util::clock::{Clock, Instant};
use crate::util::mutex::{Mutex, MutexGuard};

/// How many answered requests are remembered per tick. A smaller number only makes the lease shorter.
const GRAIN: u32 = 16;
/// The lease shortens every duration by this factor, because clocks run at different speeds.
const CLOCK_FACTOR: f64 = 0.999;
/// The servers' default for the shortest session timeout that they grant (`minSessionTimeout`).
const LEAST_TICKS: u32 = 2;

/// What a lease depends on, besides the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseOptions {
    /// The servers' tick time; more than a quarter of the session timeout counts as a quarter.
    pub(crate) tick: Duration,
    /// The smallest session timeout that any server grants. Two ticks if `None`, or if the session was granted less
    /// than this option.
    pub(crate) least_timeout: Option<Duration>,
    /// Whether a lost connection voids all grants, even before the deadline.
    pub(crate) ends_with_connection: bool,
    /// Whether only a quorum's answer is proof, so that a sync proves no more than a ping.
    pub(crate) always_needs_quorum: bool,
}

/// The right to rely on the session, taken while the lease was valid. The first lapse voids it permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    epoch: u64,
}

/// The lease of one session. It follows the wire directly, as an [`Observer`].
#[derive(Debug)]
pub(crate) struct Lease {
    clock: Clock,
    options: LeaseOptions,
    state: Mutex<State>,
    extended: Notify,
}

#[derive(Debug)]
struct State {
    link: Link,
    /// The server of the latest connection is read-only.
    read_only: bool,
    /// What the servers granted on the latest connection.
    timeout: Duration,
    /// The smallest session timeout that they have granted in this session: the T of the lease.
    least: Duration,
    deadline: Instant,
    /// The deadline on a proven connection, provided that no late request has moved the session.
    unmoved: Instant,
    /// When the latest request to connect was written.
    connecting: Instant,
    /// The latest request to reconnect has no answer yet. If another request follows, this one was given up.
    unanswered: bool,
    /// Until then an abandoned reconnect request may still arrive.
    late_until: Option<Instant>,
    /// When the latest request that a quorum has answered was sent.
    confirmed: Instant,
    /// When the latest request whose answer was a proof was sent.
    proof: Option<Instant>,
    /// The deadline at the loss of the connection, before any attempt to reconnect; lowered by attempts that were given
    /// up.
    deadline_at_loss: Instant,
    /// Answered requests of this connection, oldest first.
    answered: VecDeque<Answered>,
    /// Incremented whenever grants are voided. A grant of an older epoch is void.
    epoch: u64,
    /// Whether new grants are refused.
    suspended: bool,
    ended: bool,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
struct Answered {
    sent: Instant,
    /// When the answer arrived. The server received the request before that.
    at: Instant,
}

/// The state of the session's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Never connected yet.
    New,
    /// Reconnected; nothing has been proven on this connection.
    Unproven,
    /// Connected; the ensemble has renewed the session on this connection.
    Proven,
    /// Connected to a read-only server, whose answers prove nothing.
    ReadOnly,
    /// Not connected.
    Down,
}

impl State {
    /// Returns whether a late request to reconnect may have moved the session since the last answer of a quorum.
    fn may_be_moved(&self) -> bool {
        self.late_until.is_some_and(|until| self.confirmed < until)
    }
}

impl Lease {
    pub(crate) fn new(clock: Clock, options: LeaseOptions) -> Self {
        let now = clock.now();
        let state = State {
            link: Link::New,
            read_only: false,
            timeout: Duration::ZERO,
            least: Duration::ZERO,
            deadline: now,
            unmoved: now,
            connecting: now,
            unanswered: false,
            late_until: None,
            confirmed: now,
            proof: None,
            deadline_at_loss: now,
            answered: VecDeque::new(),
            epoch: 0,
            suspended: false,
            ended: false,
        };
        Lease { clock, options, state: Mutex::new(state), extended: Notify::new() }
    }

    /// Returns the session timeout that the servers granted on the latest connection.
    pub(crate) fn timeout(&self) -> Duration {
        self.lock().timeout
    }

    /// Returns the smallest session timeout that the servers have granted in this session: the T of the lease.
    pub(crate) fn least_timeout(&self) -> Duration {
        self.lock().least
    }

    /// Returns whether only a quorum's answer is proof now. A sync may be answered by a leader that does not know it
    /// was deposed, or by a leader that knows that the session has moved.
    pub(crate) fn needs_quorum(&self) -> bool {
        let state = self.lock();
        self.options.always_needs_quorum || state.link == Link::Unproven || state.may_be_moved()
    }

    /// Returns the session timeout that may apply without the client's knowledge, if a late request to reconnect may
    /// have moved the session since the last answer of a quorum. Then only another such answer extends the lease.
    pub(crate) fn unconfirmed_timeout(&self) -> Option<Duration> {
        let state = self.lock();
        state.may_be_moved().then(|| self.least_to_expect(state.least))
    }

    /// Returns the tick in use: the one that was configured, or a quarter of the session timeout if that is less.
    pub(crate) fn tick(&self) -> Duration {
        self.tick_of(self.lock().least)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.lock().deadline
    }

    /// Returns how long the lease lasts from now on, if nothing extends it.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.lock();
        if state.ended { Duration::ZERO } else { state.deadline.since(self.clock.now()) }
    }

    /// Returns whether the session is connected, and the ensemble has renewed it on this connection or, because the
    /// server is read-only, never will.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.lock();
        match state.link {
            Link::Proven => !state.suspended,
            Link::ReadOnly => true,
            Link::New | Link::Unproven | Link::Down => false,
        }
    }

    /// Returns whether the server of the latest connection only answers reads, or did so until it was lost.
    pub(crate) fn is_read_only(&self) -> bool {
        self.lock().read_only
    }

    /// Voids all grants so far, and refuses new ones until [`resume`](Self::resume).
    pub(crate) fn suspend(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.suspended = true;
    }

    /// Allows new grants, if the session is proven on its connection.
    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        if state.link == Link::Proven {
            state.suspended = false;
        }
    }

    /// Ends the lease permanently.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.ended = true;
        self.extended.notify_waiters();
    }

    /// Returns a grant if the lease is valid for more than a tick: a first user's heartbeats take that long to extend
    /// it. A grant in the last tick of an old lease would be lost at once, without any failure.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let state = self.lock();
        let tick = self.tick_of(state.least);
        // A lease whose session may have moved is little longer than a tick, even if all heartbeats are in time.
        let enough = if state.may_be_moved() { tick.min(self.least_to_expect(state.least) / 4) } else { tick };
        let lasts = self.clock.now() + enough < state.deadline;
        let granted = lasts && !state.ended && !state.suspended;
        granted.then_some(Grant { epoch: state.epoch })
    }

    /// Returns whether the session is known to be alive at this instant.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_running(&self.lock())
    }

    /// Returns whether `grant` is still valid. Compares the clock at each call.
    pub(crate) fn is_valid(&self, grant: Grant) -> bool {
        let state = self.lock();
        state.epoch == grant.epoch && self.is_running(&state)
    }

    /// Returns when the latest request was sent whose answer is proof that the ensemble knew of it.
    pub(crate) fn latest_proof(&self) -> Option<Instant> {
        self.lock().proof
    }

    /// Resolves when the deadline moves in either direction, or the lease ends, after this call.
    pub(crate) fn extended(&self) -> tokio::sync::futures::Notified<'_> {
        self.extended.notified()
    }

    fn is_running(&self, state: &State) -> bool {
        !state.ended && self.clock.now() < state.deadline
    }

    fn tick_of(&self, timeout: Duration) -> Duration {
        self.options.tick.min(timeout / 4)
    }

    /// Returns the session timeout that an unanswered request to reconnect may have been granted, in a session whose
    /// smallest grant so far is `least`.
    fn least_to_expect(&self, least: Duration) -> Duration {
        // If a server has granted less than the option, the option is wrong, and the next server may grant even less.
        let option = self.options.least_timeout.filter(|option| *option <= least);
        option.unwrap_or(self.tick_of(least) * LEAST_TICKS)
    }

    /// Returns how long a lease lasts after its anchor.
    fn length(&self, timeout: Duration) -> Duration {
        (timeout - self.tick_of(timeout) / 2).mul_f64(CLOCK_FACTOR)
    }

    /// Returns when the servers may expire a session that was granted the minimum at `granted`.
    fn earliest_end(&self, state: &State, granted: Instant) -> Instant {
        granted + self.least_to_expect(state.least).mul_f64(CLOCK_FACTOR)
    }

    /// Returns the deadline on a proven connection.
    fn proven_deadline(&self, state: &State) -> Instant {
        if state.may_be_moved() { state.unmoved.min(self.earliest_end(state, state.confirmed)) } else { state.unmoved }
    }

    fn proves(&self, proof: Proof) -> bool {
        match proof {
            Proof::Contact => false,
            Proof::Leader => !self.options.always_needs_quorum,
            Proof::Quorum => true,
        }
    }

    /// Moves the deadline in either direction. A lapse before this call voids all grants, even if no check has seen it.
    fn set_deadline(&self, state: &mut State, deadline: Instant) {
        if self.clock.now() >= state.deadline {
            state.epoch += 1;
        }
        let moves = deadline != state.deadline;
        state.deadline = deadline;
        if moves {
            self.extended.notify_waiters();
        }
    }

    /// Moves the anchor to the newest request that was answered at least a tick before `proof` was sent.
    fn advance(&self, state: &mut State, proof: Instant) {
        state.proof = state.proof.max(Some(proof));
        let reported = proof - self.tick_of(state.least);
        let mut newest = None;
        while state.answered.front().is_some_and(|answered| answered.at <= reported) {
            newest = state.answered.pop_front();
        }
        if let Some(newest) = newest {
            state.unmoved = state.unmoved.max(newest.sent + self.length(state.least));
        }
        let deadline = self.proven_deadline(state);
        if deadline > state.deadline {
            self.set_deadline(state, deadline);
        }
    }

    /// Remembers an answered request, and forgets those sent more than T before it, which no longer prove anything.
    fn remember(&self, state: &mut State, answered: Answered) {
        let (tick, sent) = (self.tick_of(state.least), answered.sent);
        if state.answered.back().is_none_or(|newest| sent >= newest.sent + tick / GRAIN) {
            state.answered.push_back(answered);
        }
        let (useless, timeout) = (sent - state.least, state.least);
        while !timeout.is_zero() && state.answered.front().is_some_and(|oldest| oldest.sent < useless) {
            state.answered.pop_front();
        }
    }

    fn note(&self, answered: Answered, proof: Proof) {
        let mut state = self.lock();
        if matches!(state.link, Link::Down | Link::ReadOnly) {
            return;
        }
        self.remember(&mut state, answered);
        if !self.proves(proof) {
            return;
        }
        if proof == Proof::Quorum {
            state.confirmed = state.confirmed.max(answered.sent);
        }
        if state.link == Link::Unproven {
            // A leader that does not know it was deposed still resumes sessions and answers their syncs.
            if proof != Proof::Quorum {
                return;
            }
            state.link = Link::Proven;
            state.unmoved = state.connecting + self.length(state.least);
            let deadline = self.proven_deadline(&state);
            self.set_deadline(&mut state, deadline);
        }
        self.advance(&mut state, answered.sent);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Observer for Lease {
    fn outlasts_connections(&self) -> bool {
        !self.options.ends_with_connection && !self.lock().ended
    }

    fn connecting(&self, at: Instant) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.connecting, at);
        if state.link != Link::New {
            if std::mem::replace(&mut state.unanswered, true) {
                state.late_until = state.late_until.max(Some(at + state.timeout));
                state.deadline_at_loss = state.deadline_at_loss.min(self.earliest_end(&state, before));
            }
            let lowered = self.earliest_end(&state, at).min(state.deadline);
            self.set_deadline(&mut state, lowered);
        }
    }

    fn connected(&self, granted: Duration) {
        let mut state = self.lock();
        state.timeout = granted;
        state.read_only = false;
        state.answered.clear();
        if state.link == Link::New {
            state.link = Link::Proven;
            state.least = granted;
            state.unmoved = state.connecting + self.length(granted);
            let deadline = state.unmoved;
            self.set_deadline(&mut state, deadline);
        } else {
            state.link = Link::Unproven;
            state.least = state.least.min(granted);
            state.unanswered = false;
            let deadline = (state.connecting + self.length(state.least)).min(state.deadline_at_loss);
            self.set_deadline(&mut state, deadline);
        }
    }

    /// A client that accepts such a server holds nothing, so the deadline stays as it is.
    fn connected_read_only(&self, granted: Duration) {
        let mut state = self.lock();
        state.timeout = granted;
        state.least = if state.least.is_zero() { granted } else { state.least.min(granted) };
        state.unanswered = false;
        state.link = Link::ReadOnly;
        state.read_only = true;
        state.suspended = true;
    }

    fn answered(&self, sent: Instant, proof: Proof) {
        self.note(Answered { sent, at: self.clock.now() }, proof);
    }

    fn disconnected(&self, _loss: Loss) {
        let mut state = self.lock();
        state.link = Link::Down;
        state.deadline_at_loss = state.deadline;
        state.suspended = true;
        if self.options.ends_with_connection {
            state.epoch += 1;
        }
    }
}

#[cfg(test)]
mod tests;
