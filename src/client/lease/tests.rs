//! Tests of the lease. They play the part of the wire.

use super::*;

const T: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(2);
/// (T − tick/2) · 0.999
const LENGTH: Duration = Duration::from_millis(8_991);
const OPTIONS: LeaseOptions =
    LeaseOptions { tick: TICK, least_timeout: None, ends_with_connection: false, always_needs_quorum: false };

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Returns a lease whose session was opened at `at`.
fn opened(options: LeaseOptions, at: Instant, granted: Duration) -> Lease {
    let lease = Lease::new(Clock::Machine, options);
    lease.connecting(at);
    lease.connected(granted);
    lease
}

/// Returns a lease and its start, far in the future: the machine's clock does not reach it during the test.
fn ahead() -> (Lease, Instant) {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    (opened(OPTIONS, start, T), start)
}

/// A request that was answered at once.
fn answered(lease: &Lease, sent: Instant, proof: Proof) {
    lease.note(Answered { sent, at: sent }, proof);
}

fn lost(lease: &Lease, at: Instant) {
    lease.disconnected(Loss { at, last_contact: at });
}

#[test]
fn a_single_sync_proves_nothing() {
    let (lease, start) = ahead();
    answered(&lease, start + secs(5.0), Proof::Leader);
    assert_eq!(lease.deadline(), start + LENGTH);
}

#[test]
fn a_sync_vouches_for_what_was_answered_a_tick_before_it() {
    let (lease, start) = ahead();
    for second in 1..=4 {
        answered(&lease, start + Duration::from_secs(second), Proof::Contact);
    }
    assert_eq!(lease.deadline(), start + LENGTH, "reads alone move nothing");
    answered(&lease, start + secs(5.5), Proof::Leader);
    assert_eq!(lease.deadline(), start + secs(3.0) + LENGTH);
}

#[test]
fn what_was_held_up_on_the_way_counts_from_its_answer_on() {
    let (lease, start) = ahead();
    let slowly = |sent: f64, at: f64| {
        lease.note(Answered { sent: start + secs(sent), at: start + secs(at) }, Proof::Leader);
    };
    // The server received both at the same moment and has reported neither.
    slowly(1.0, 4.0);
    slowly(3.5, 4.0);
    assert_eq!(lease.deadline(), start + LENGTH);
    slowly(5.9, 6.0);
    assert_eq!(lease.deadline(), start + LENGTH, "sent less than a tick after those answers");
    slowly(6.0, 6.1);
    assert_eq!(lease.deadline(), start + secs(3.5) + LENGTH);
}

#[test]
fn a_request_exactly_one_tick_older_counts() {
    let (lease, start) = ahead();
    answered(&lease, start + secs(1.0), Proof::Leader);
    answered(&lease, start + secs(3.0), Proof::Leader);
    assert_eq!(lease.deadline(), start + secs(1.0) + LENGTH);
}

#[test]
fn where_a_quorum_is_needed_a_sync_is_no_more_than_a_read() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = opened(LeaseOptions { always_needs_quorum: true, ..OPTIONS }, start, T);
    answered(&lease, start + secs(1.0), Proof::Leader);
    answered(&lease, start + secs(4.0), Proof::Leader);
    assert_eq!(lease.deadline(), start + LENGTH);
    answered(&lease, start + secs(4.5), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(1.0) + LENGTH);
}

#[test]
fn a_quorum_is_needed_from_a_reconnect_until_it_has_answered() {
    let (lease, start) = ahead();
    assert!(!lease.needs_quorum());
    lost(&lease, start + secs(1.0));
    lease.connecting(start + secs(2.0));
    lease.connected(T);
    assert!(lease.needs_quorum());
    answered(&lease, start + secs(2.5), Proof::Leader);
    assert!(lease.needs_quorum(), "a deposed leader says the same");
    answered(&lease, start + secs(3.0), Proof::Quorum);
    assert!(!lease.needs_quorum());
}

#[test]
fn a_quorum_is_needed_for_a_session_timeout_after_a_request_to_reconnect_that_was_given_up() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = reconnected_at_the_second_attempt(OPTIONS, start, T);
    let late_until = start + secs(3.0) + T;
    for sent in [start + secs(3.1), start + secs(8.0), late_until - Duration::from_millis(1)] {
        answered(&lease, sent, Proof::Quorum);
        assert!(lease.needs_quorum(), "the first one may still arrive");
    }
    answered(&lease, late_until, Proof::Leader);
    assert!(lease.needs_quorum(), "it may have arrived in time");
    answered(&lease, late_until, Proof::Quorum);
    assert!(!lease.needs_quorum());
}

#[test]
fn where_a_quorum_is_always_needed_no_answer_changes_that() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = opened(LeaseOptions { always_needs_quorum: true, ..OPTIONS }, start, T);
    answered(&lease, start + secs(3.0), Proof::Quorum);
    assert!(lease.needs_quorum());
}

#[test]
fn evidence_does_not_cross_connections() {
    let (lease, start) = ahead();
    answered(&lease, start + secs(1.0), Proof::Leader);
    lost(&lease, start + secs(2.0));
    lease.connecting(start + secs(2.5));
    lease.connected(T);
    answered(&lease, start + secs(3.0), Proof::Leader);
    assert_eq!(lease.deadline(), start + LENGTH, "a deposed leader says the same");
    answered(&lease, start + secs(3.5), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(2.5) + LENGTH, "from the request that resumed the session");
}

#[test]
fn a_request_to_reconnect_leaves_two_ticks_until_it_is_answered() {
    let (lease, start) = ahead();
    lost(&lease, start + secs(1.0));
    assert_eq!(lease.deadline(), start + LENGTH);
    lease.connecting(start + secs(1.5));
    assert_eq!(lease.deadline(), start + secs(1.5) + secs(4.0).mul_f64(0.999), "two ticks may be all that is granted");
    lease.connected(T);
    assert_eq!(lease.deadline(), start + LENGTH, "as before the attempt");
    answered(&lease, start + secs(2.0), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(1.5) + LENGTH);
}

#[test]
fn a_request_to_reconnect_leaves_the_smallest_timeout_where_that_is_known() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    for least in [secs(1.0), secs(6.0), T] {
        let lease = opened(LeaseOptions { least_timeout: Some(least), ..OPTIONS }, start, T);
        lost(&lease, start + secs(1.0));
        lease.connecting(start + secs(1.5));
        let lowered = start + secs(1.5) + least.mul_f64(0.999);
        assert_eq!(lease.deadline(), lowered.min(start + LENGTH), "{least:?}");
    }
}

#[test]
fn a_smallest_timeout_that_a_server_has_gone_below_counts_no_more_in_that_session() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let options = LeaseOptions { least_timeout: Some(secs(7.0)), ..OPTIONS };
    // Two ticks, and a tick is at most a quarter of the six seconds.
    let two_ticks = secs(3.0).mul_f64(0.999);
    let first = opened(options, start, secs(6.0));
    lost(&first, start + secs(1.0));
    first.connecting(start + secs(1.5));
    assert_eq!(first.deadline(), start + secs(1.5) + two_ticks, "by the first connection");

    let later = opened(options, start, T);
    lost(&later, start + secs(1.0));
    later.connecting(start + secs(1.5));
    assert_eq!(later.deadline(), start + secs(1.5) + secs(7.0).mul_f64(0.999), "no grant was below the option yet");
    later.connected(secs(6.0));
    answered(&later, start + secs(2.0), Proof::Quorum);
    lost(&later, start + secs(2.5));
    later.connecting(start + secs(3.0));
    assert_eq!(later.deadline(), start + secs(3.0) + two_ticks, "by a later one");
    later.connected(secs(30.0));
    answered(&later, start + secs(3.5), Proof::Quorum);
    lost(&later, start + secs(4.0));
    later.connecting(start + secs(4.0));
    assert_eq!(later.deadline(), start + secs(4.0) + two_ticks, "even after one that granted more");
}

#[test]
fn a_smaller_grant_counts_from_the_request_on_and_for_the_rest_of_the_session() {
    let (lease, start) = ahead();
    let six = secs(6.0 - 0.75).mul_f64(0.999);
    lost(&lease, start + secs(1.0));
    lease.connecting(start + secs(2.0));
    lease.connected(secs(6.0));
    assert_eq!(lease.deadline(), start + secs(2.0) + six);
    answered(&lease, start + secs(2.5), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(2.0) + six);
    lost(&lease, start + secs(3.0));
    lease.connecting(start + secs(3.0));
    lease.connected(secs(30.0));
    assert_eq!(lease.deadline(), start + secs(2.0) + six, "nothing is proven yet");
    answered(&lease, start + secs(3.5), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(3.0) + six, "a new leader would start with the smaller one");
    assert_eq!(lease.timeout(), secs(30.0));
}

/// Returns a lease that has reconnected at `start` + 3 s, after a request that was given up, and was granted the same
/// both times.
fn reconnected_at_the_second_attempt(options: LeaseOptions, start: Instant, granted: Duration) -> Lease {
    let lease = opened(options, start, granted);
    lost(&lease, start + secs(1.0));
    lease.connecting(start + secs(2.0));
    lease.connecting(start + secs(3.0));
    lease.connected(granted);
    lease
}

#[test]
fn a_request_to_reconnect_that_was_given_up_may_still_move_the_session_after_each_proof() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = reconnected_at_the_second_attempt(OPTIONS, start, T);
    let two_ticks = secs(4.0).mul_f64(0.999);
    assert_eq!(lease.deadline(), start + secs(2.0) + two_ticks, "as granted to the first request");
    assert_eq!(lease.unconfirmed_timeout(), Some(secs(4.0)));
    answered(&lease, start + secs(3.1), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(3.1) + two_ticks, "right after the first proof");
    answered(&lease, start + secs(3.7), Proof::Contact);
    answered(&lease, start + secs(4.0), Proof::Leader);
    assert_eq!(lease.deadline(), start + secs(3.1) + two_ticks, "neither a read nor a sync shows a move");
    for half in 9..=25 {
        answered(&lease, start + secs(f64::from(half) / 2.0), Proof::Quorum);
    }
    assert_eq!(lease.deadline(), start + secs(12.5) + two_ticks);
    answered(&lease, start + secs(13.5), Proof::Leader);
    assert_eq!(lease.deadline(), start + secs(12.5) + two_ticks, "it would have arrived by now, but may have in time");
    assert_eq!(lease.unconfirmed_timeout(), Some(secs(4.0)));
    answered(&lease, start + secs(14.0), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(12.0) + LENGTH);
    assert_eq!(lease.unconfirmed_timeout(), None);
}

#[test]
fn a_request_to_reconnect_that_was_given_up_counts_over_a_further_loss() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = reconnected_at_the_second_attempt(OPTIONS, start, T);
    answered(&lease, start + secs(3.1), Proof::Quorum);
    lost(&lease, start + secs(4.0));
    lease.connecting(start + secs(4.1));
    lease.connected(secs(5.0));
    answered(&lease, start + secs(4.2), Proof::Quorum);
    // A tick is at most a quarter of the five seconds.
    let two_ticks = secs(2.5).mul_f64(0.999);
    assert_eq!(lease.deadline(), start + secs(4.2) + two_ticks);
    lost(&lease, start + secs(5.0));
    lease.connecting(start + secs(5.1));
    lease.connecting(start + secs(6.1));
    lease.connected(secs(5.0));
    answered(&lease, start + secs(11.5), Proof::Contact);
    answered(&lease, start + secs(12.9), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(12.9) + two_ticks, "the first one may still arrive");
}

#[test]
fn a_session_that_may_have_moved_is_granted_however_little_a_server_grants() {
    // Far longer than the test takes, but less than a tick.
    let options = LeaseOptions { least_timeout: Some(secs(90.0)), tick: secs(120.0), ..OPTIONS };
    let lease = reconnected_at_the_second_attempt(options, Clock::Machine.now() - secs(3.0), secs(600.0));
    let proven = Clock::Machine.now();
    answered(&lease, proven, Proof::Quorum);
    lease.resume();
    assert_eq!(lease.deadline(), proven + secs(90.0).mul_f64(0.999), "less than a tick from now");
    assert!(lease.grant().is_some());
}

#[test]
fn a_request_to_reconnect_that_was_given_up_moves_nothing_forward() {
    let start = Clock::Machine.now() + Duration::from_secs(1_000_000);
    let lease = reconnected_at_the_second_attempt(LeaseOptions { least_timeout: Some(T), ..OPTIONS }, start, T);
    answered(&lease, start + secs(4.0), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(3.0) + LENGTH, "no server grants less, so it is as after any reconnect");
}

#[test]
fn a_request_to_reconnect_that_was_answered_is_not_given_up() {
    let (lease, start) = ahead();
    for second in [1.0, 3.0] {
        lost(&lease, start + secs(second));
        lease.connecting(start + secs(second));
        lease.connected(T);
    }
    answered(&lease, start + secs(3.5), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(3.0) + LENGTH, "from the request of the connection that was proven");
    assert_eq!(lease.unconfirmed_timeout(), None);
}

#[test]
fn a_small_grant_is_remembered_over_connections_that_proved_nothing() {
    let (lease, start) = ahead();
    lost(&lease, start + secs(1.0));
    lease.connecting(start + secs(1.0));
    lease.connected(secs(4.0));
    lost(&lease, start + secs(1.5));
    lease.connecting(start + secs(1.5));
    lease.connected(T);
    let four = secs(3.5).mul_f64(0.999);
    assert_eq!(lease.deadline(), start + secs(1.0) + four);
    answered(&lease, start + secs(2.0), Proof::Quorum);
    assert_eq!(lease.deadline(), start + secs(1.5) + four, "from the request of the connection that was proven");
}

#[test]
fn nothing_is_granted_on_the_last_tick_of_a_lease() {
    let aged = |age| opened(OPTIONS, Clock::Machine.now() - age, T);
    let old = aged(LENGTH - TICK);
    assert_eq!(old.grant(), None);
    assert!(old.is_proven());
    assert!(aged(LENGTH - TICK - Duration::from_secs(1)).grant().is_some());
}

#[test]
fn nothing_is_granted_from_the_loss_of_a_connection_until_the_next_one_is_proven_and_taken_up() {
    let lease = opened(OPTIONS, Clock::Machine.now(), T);
    let kept = lease.grant().expect("it is valid");
    lost(&lease, Clock::Machine.now());
    assert_eq!(lease.grant(), None);
    lease.resume();
    assert_eq!(lease.grant(), None, "not connected");
    lease.connecting(Clock::Machine.now());
    lease.connected(T);
    lease.resume();
    assert_eq!(lease.grant(), None, "not proven");
    answered(&lease, Clock::Machine.now(), Proof::Quorum);
    assert_eq!(lease.grant(), None, "not taken up");
    lease.resume();
    assert_eq!(lease.grant(), Some(kept), "what was granted has outlasted the cut");
}

#[test]
fn a_lost_connection_ends_what_was_granted_where_the_policy_says_so() {
    let lease = opened(LeaseOptions { ends_with_connection: true, ..OPTIONS }, Clock::Machine.now(), T);
    let grant = lease.grant().expect("it is valid");
    lost(&lease, Clock::Machine.now());
    assert!(!lease.is_valid(grant));
}

#[test]
fn what_lapsed_stays_lapsed_though_the_session_lived() {
    let start = Clock::Machine.now() - secs(6.0);
    let lease = opened(OPTIONS, start, T);
    let grant = lease.grant().expect("valid for another three seconds");
    lease.lock().deadline = start;
    assert!(!lease.is_valid(grant), "past its deadline");
    answered(&lease, start + secs(1.0), Proof::Leader);
    answered(&lease, start + secs(5.0), Proof::Leader);
    assert!(!lease.is_valid(grant), "the lapse is remembered");
    assert!(lease.grant().is_some_and(|new| lease.is_valid(new)));
}

#[test]
fn suspended_grants_are_void_and_an_ended_lease_grants_nothing() {
    let lease = opened(OPTIONS, Clock::Machine.now(), T);
    let grant = lease.grant().unwrap();
    lease.suspend();
    assert!(!lease.is_valid(grant));
    assert_eq!(lease.grant(), None);
    lease.resume();
    let grant = lease.grant().unwrap();
    lease.end();
    assert!(!lease.is_valid(grant));
    assert_eq!(lease.grant(), None);
}

#[test]
fn the_tick_is_at_most_a_quarter_of_the_session_timeout() {
    let lease = opened(OPTIONS, Clock::Machine.now(), Duration::from_secs(4));
    assert_eq!(lease.tick(), Duration::from_secs(1));
}

#[test]
fn a_flood_of_requests_is_remembered_coarsely_and_old_ones_are_forgotten() {
    let (lease, start) = ahead();
    for millis in 0..10_000 {
        answered(&lease, start + Duration::from_millis(millis), Proof::Leader);
    }
    assert!(lease.lock().answered.len() <= GRAIN as usize + 1);
    let behind = (start + Duration::from_millis(9_999) + LENGTH).since(lease.deadline());
    assert!(behind >= TICK && behind <= TICK + TICK / GRAIN * 2, "{behind:?}");
    for second in 10..10_000 {
        answered(&lease, start + Duration::from_secs(second), Proof::Contact);
    }
    assert!(lease.lock().answered.len() <= 11);
}
