//! How long a session may believe that it is alive.
//!
//! With T the session timeout, the server forgets a session T after it last heard of it. But it is the *leader* of the
//! ensemble that counts, and it hears of a session only when the follower that serves it reports, with the leader's
//! ping, every half tick. A follower that is cut off goes on answering pings, reads, even some syncs. So an answer alone
//! proves little; what proves something is an answer that had to come from the leader (a sync, a write): the follower
//! was still reporting then, hence everything it had heard a tick before has been reported.
//!
//! When such a request, sent at s, is answered, the *anchor* becomes the send time of the newest request that was
//! answered on the same connection and was sent at or before s − tick. Until anchor + (T − tick/2) · 0.999 the session
//! is alive. The rest of T is for the follower's own delay and for clocks that run at different speeds.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::{Clock, Instant};

/// How finely answered requests are remembered: so many within a tick. Fewer only makes the lease shorter.
const GRAIN: u32 = 16;

/// What the answer to a request proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Only that the server at the other end lives: reads.
    Follower,
    /// That this server is in touch with the leader: syncs and writes.
    Leader,
}

/// When and on which connection a request was handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    connection: u64,
    at: Instant,
}

/// A right to believe, taken while the lease was valid. It dies with the first lapse and never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    epoch: u64,
}

/// The lease of one session.
#[derive(Debug)]
pub(crate) struct Lease {
    clock: Clock,
    /// anchor + this = deadline.
    length: Duration,
    tick: Duration,
    state: Mutex<State>,
    extended: Notify,
}

#[derive(Debug)]
struct State {
    connection: u64,
    /// Send times of answered requests of this connection, oldest first.
    answered: VecDeque<Instant>,
    anchor: Instant,
    /// Raised whenever beliefs end; a grant of an older epoch is void.
    epoch: u64,
    ended: bool,
}

impl Lease {
    /// `tick` is at most a quarter of the session timeout; `anchor` is when the opening of the session was begun.
    pub(crate) fn new(clock: Clock, timeout: Duration, tick: Duration, anchor: Instant) -> Self {
        let tick = tick.min(timeout / 4);
        let length = (timeout - tick / 2).mul_f64(0.999);
        let state = State { connection: 0, answered: VecDeque::new(), anchor, epoch: 0, ended: false };
        Lease { clock, length, tick, state: Mutex::new(state), extended: Notify::new() }
    }

    /// The tick in use: the one that was configured, or a quarter of the session timeout if that is less.
    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    pub(crate) fn deadline(&self) -> Instant {
        let state = self.lock();
        state.anchor + self.length
    }

    /// Starts a new connection: evidence does not cross over.
    pub(crate) fn reconnected(&self) {
        let mut state = self.lock();
        state.connection += 1;
        state.answered.clear();
    }

    /// The ensemble has renewed the session since `disconnected`, the moment at which the old connection was seen to break.
    pub(crate) fn renewed(&self, disconnected: Instant) {
        self.extend(&mut self.lock(), disconnected);
    }

    /// To be called just before a request is handed over.
    pub(crate) fn sent(&self) -> Sent {
        let connection = self.lock().connection;
        Sent { connection, at: self.clock.now() }
    }

    /// To be called when a request has been answered, by success or by an error of the server.
    pub(crate) fn answered(&self, sent: Sent, proof: Proof) {
        let mut state = self.lock();
        if sent.connection != state.connection {
            return;
        }
        let grain = self.tick / GRAIN;
        if state.answered.back().is_none_or(|newest| sent.at >= *newest + grain) {
            state.answered.push_back(sent.at);
        }
        if proof == Proof::Leader {
            self.advance(&mut state, sent.at - self.tick);
        }
    }

    /// Moves the anchor to the newest answered request that was sent at or before `reported`.
    fn advance(&self, state: &mut State, reported: Instant) {
        let mut newest = None;
        while state.answered.front().is_some_and(|at| *at <= reported) {
            newest = state.answered.pop_front();
        }
        if let Some(at) = newest {
            self.extend(state, at);
        }
    }

    fn extend(&self, state: &mut State, anchor: Instant) {
        if anchor <= state.anchor {
            return;
        }
        // What had lapsed in between stays lapsed, also if nobody looked.
        if self.clock.now() >= state.anchor + self.length {
            state.epoch += 1;
        }
        state.anchor = anchor;
        self.extended.notify_waiters();
    }

    /// Ends all beliefs of this session so far; new grants can be had.
    pub(crate) fn revoke(&self) {
        self.lock().epoch += 1;
    }

    /// Ends the lease for good.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.ended = true;
        self.extended.notify_waiters();
    }

    /// A grant, if the lease is valid now, and for longer than a first user's heartbeats take to extend it, a tick: what
    /// is granted on the last of an old lease would be lost at once, though nothing is wrong.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let state = self.lock();
        let lasts = !state.ended && self.clock.now() + self.tick < state.anchor + self.length;
        lasts.then_some(Grant { epoch: state.epoch })
    }

    /// Whether the session is known to live at this instant.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_running(&self.lock())
    }

    /// Whether what was granted still stands: compares the clock at each call.
    pub(crate) fn is_valid(&self, grant: Grant) -> bool {
        let state = self.lock();
        state.epoch == grant.epoch && self.is_running(&state)
    }

    /// Resolves when the lease was extended, or ended, after this call.
    pub(crate) fn extended(&self) -> tokio::sync::futures::Notified<'_> {
        self.extended.notified()
    }

    fn is_running(&self, state: &State) -> bool {
        !state.ended && self.clock.now() < state.anchor + self.length
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);
    const TICK: Duration = Duration::from_secs(2);
    /// (T − tick/2) · 0.999
    const LENGTH: Duration = Duration::from_millis(8_991);

    fn lease(age: Duration) -> (Lease, Instant) {
        let start = Clock::Machine.now() + Duration::from_secs(1_000_000) - age;
        let lease = Lease::new(Clock::Machine, T, TICK, start);
        (lease, start)
    }

    fn sent(lease: &Lease, at: Instant) -> Sent {
        Sent { at, ..lease.sent() }
    }

    #[test]
    fn a_single_sync_proves_nothing() {
        let (lease, start) = lease(Duration::ZERO);
        lease.answered(sent(&lease, start + Duration::from_secs(5)), Proof::Leader);
        assert_eq!(lease.deadline(), start + LENGTH);
    }

    #[test]
    fn a_sync_vouches_for_what_was_answered_a_tick_before_it() {
        let (lease, start) = lease(Duration::ZERO);
        for second in 1..=4 {
            lease.answered(sent(&lease, start + Duration::from_secs(second)), Proof::Follower);
        }
        assert_eq!(lease.deadline(), start + LENGTH, "reads alone move nothing");
        lease.answered(sent(&lease, start + Duration::from_millis(5_500)), Proof::Leader);
        assert_eq!(lease.deadline(), start + Duration::from_secs(3) + LENGTH);
    }

    #[test]
    fn a_request_exactly_one_tick_older_counts() {
        let (lease, start) = lease(Duration::ZERO);
        lease.answered(sent(&lease, start + Duration::from_secs(1)), Proof::Leader);
        lease.answered(sent(&lease, start + Duration::from_secs(3)), Proof::Leader);
        assert_eq!(lease.deadline(), start + Duration::from_secs(1) + LENGTH);
    }

    #[test]
    fn evidence_does_not_cross_connections() {
        let (lease, start) = lease(Duration::ZERO);
        let old = sent(&lease, start + Duration::from_secs(1));
        lease.answered(old, Proof::Leader);
        lease.reconnected();
        lease.answered(old, Proof::Leader);
        lease.answered(sent(&lease, start + Duration::from_secs(5)), Proof::Leader);
        assert_eq!(lease.deadline(), start + LENGTH);
    }

    #[test]
    fn a_new_connection_starts_where_the_old_one_broke() {
        let (lease, start) = lease(Duration::ZERO);
        lease.renewed(start + Duration::from_secs(2));
        assert_eq!(lease.deadline(), start + Duration::from_secs(2) + LENGTH);
        lease.renewed(start + Duration::from_secs(1));
        assert_eq!(lease.deadline(), start + Duration::from_secs(2) + LENGTH, "an anchor never goes back");
    }

    #[test]
    fn nothing_is_granted_on_the_last_tick_of_a_lease() {
        let aged = |age| Lease::new(Clock::Machine, T, TICK, Clock::Machine.now() - age);
        let old = aged(LENGTH - TICK);
        assert_eq!(old.grant(), None);
        assert!(old.is_proven());
        assert!(aged(LENGTH - TICK - Duration::from_secs(1)).grant().is_some());
    }

    #[test]
    fn what_lapsed_stays_lapsed_though_the_session_lived() {
        let start = Clock::Machine.now() - T;
        let lease = Lease::new(Clock::Machine, T, TICK, start);
        lease.renewed(start + Duration::from_millis(6_500));
        let grant = lease.grant().expect("valid for another five seconds");
        lease.lock().anchor = start;
        assert!(!lease.is_valid(grant), "past its deadline");
        lease.renewed(Clock::Machine.now());
        assert!(!lease.is_valid(grant), "the lapse is remembered");
        assert!(lease.grant().is_some_and(|new| lease.is_valid(new)));
    }

    #[test]
    fn revoked_grants_are_void_and_an_ended_lease_grants_nothing() {
        let lease = Lease::new(Clock::Machine, T, TICK, Clock::Machine.now());
        let grant = lease.grant().unwrap();
        lease.revoke();
        assert!(!lease.is_valid(grant));
        let grant = lease.grant().unwrap();
        lease.end();
        assert!(!lease.is_valid(grant));
        assert_eq!(lease.grant(), None);
    }

    #[test]
    fn the_tick_is_at_most_a_quarter_of_the_session_timeout() {
        let lease = Lease::new(Clock::Machine, Duration::from_secs(4), TICK, Clock::Machine.now());
        assert_eq!(lease.tick(), Duration::from_secs(1));
    }

    #[test]
    fn a_flood_of_requests_is_remembered_coarsely() {
        let (lease, start) = lease(Duration::ZERO);
        for millis in 0..10_000 {
            lease.answered(sent(&lease, start + Duration::from_millis(millis)), Proof::Leader);
        }
        assert!(lease.lock().answered.len() <= GRAIN as usize + 1);
        let behind = (start + Duration::from_millis(9_999) + LENGTH).since(lease.deadline());
        assert!(behind >= TICK && behind <= TICK + TICK / GRAIN * 2, "{behind:?}");
    }
}
