//! How often and how soon hosts are tried.

use std::time::Duration;

use futures::FutureExt;

use super::script::{Stage, T, Way, lost, next_event, soon};
use crate::engine::SessionEvent;
use crate::protocol::{ErrorCode, OpCode};

const LONG: Duration = Duration::from_secs(60);

/// Asserts at most three attempts a second after the first `free` ones, and at least 50 ms between any two.
fn assert_paced(attempts: &[(Duration, usize)], free: usize) {
    let later: Vec<Duration> = attempts.iter().skip(free).map(|(at, _)| *at).collect();
    for four in later.windows(4) {
        assert!(four[3] - four[0] >= Duration::from_secs(1), "{four:?}");
    }
    for two in attempts.windows(2) {
        assert!(two[1].0 - two[0].0 >= Duration::from_millis(50), "{two:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_that_refuse_are_tried_three_times_a_second() {
    for hosts in [1, 3, 5] {
        let stage = Stage::new(hosts);
        for way in [Way::Refuse, Way::NameUnknown] {
            stage.set(way);
            let before = stage.attempts().len();
            let mut opening = stage.opening();
            assert!(opening.as_mut().now_or_never().is_none());
            tokio::time::sleep(LONG).await;
            assert!(opening.as_mut().now_or_never().is_none());
            let attempts = stage.attempts().split_off(before);
            assert!(attempts.len() > 50, "{} attempts", attempts.len());
            assert_paced(&attempts, hosts);
            let cause = if way == Way::Refuse { "connection refused" } else { "name not found" };
            let causes = stage.ensemble.causes();
            assert_eq!(causes.matches(cause).count(), hosts, "{causes}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_accepts_and_closes_counts_as_failed() {
    for (hosts, greets) in [(1, false), (3, false), (1, true), (3, true)] {
        let mut stage = Stage::new(hosts);
        let opening = stage.opening();
        let playing = async {
            loop {
                let mut peer = stage.peer().await;
                if greets {
                    peer.greet(T).await;
                } else {
                    peer.hello().await;
                }
            }
        };
        tokio::select! {
            () = playing => {}
            _ = opening => panic!("a session is open"),
            () = tokio::time::sleep(LONG) => {}
        }
        let attempts = stage.attempts();
        assert!(attempts.len() > 50, "{} attempts", attempts.len());
        assert_paced(&attempts, hosts);
        assert!(stage.ensemble.causes().contains("closed the connection"), "{}", stage.ensemble.causes());
    }
}

/// Even while a session is open.
#[tokio::test(start_paused = true)]
async fn connections_lost_before_an_answer_count_as_failures() {
    let mut stage = Stage::new(1);
    let (_opened, peer) = stage.open().await;
    drop(peer);
    let playing = async {
        loop {
            stage.resume().await;
        }
    };
    tokio::select! {
        () = playing => {}
        () = tokio::time::sleep(LONG) => {}
    }
    let attempts = stage.attempts();
    assert!(attempts.len() > 50, "{} attempts", attempts.len());
    assert_paced(&attempts, 2);
    let causes = stage.ensemble.causes();
    assert!(causes.contains("zk1:2181: the server closed the connection ("), "{causes}");
}

/// A server that answers a request each time is not tried more often either.
#[tokio::test(start_paused = true)]
async fn a_short_connection_does_not_allow_more_attempts() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let playing = async {
        loop {
            let synced = opened.session.sync("/");
            let asked = peer.expect(OpCode::Sync).await;
            let body = crate::protocol::SyncResponse { path: "/".to_owned() };
            peer.reply(asked.xid, 1, ErrorCode::Ok, &body).await;
            assert_eq!(soon(synced).await, Ok(()));
            drop(peer);
            lost(&mut opened).await;
            peer = stage.resume().await;
            assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
        }
    };
    tokio::select! {
        () = playing => {}
        () = tokio::time::sleep(LONG) => {}
    }
    let attempts = stage.attempts().len();
    assert!((100..=181).contains(&attempts), "{attempts} attempts in a minute");
}

#[tokio::test(start_paused = true)]
async fn hosts_take_turns_and_the_first_pass_is_quick() {
    let mut stage = Stage::new(3);
    let (mut opened, peer) = stage.open().await;
    let first = peer.host;
    // An answer makes the connection usable: earlier delays no longer count.
    let mut peer = peer;
    let synced = opened.session.sync("/");
    let asked = peer.expect(OpCode::Sync).await;
    peer.reply(asked.xid, 1, ErrorCode::Ok, &crate::protocol::SyncResponse { path: String::new() }).await;
    soon(synced).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.set(Way::Refuse);
    let cut = stage.attempts().len();
    drop(peer);
    lost(&mut opened).await;
    let begun = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let attempts = stage.attempts().split_off(cut);
    assert_eq!(attempts.len(), 3, "one pass over the hosts");
    assert!(begun.elapsed() < Duration::from_millis(201));
    assert_eq!(attempts[2].1, first, "the host that was lost comes last");
    assert_eq!(attempts[2].0 - attempts[0].0, Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_gets_its_share_of_the_time() {
    // T/3 for a single host, and at least a second for each.
    for (hosts, share) in [(1, T / 3), (3, T / 9), (5, Duration::from_secs(1))] {
        let stage = Stage::new(hosts);
        stage.set(Way::Dark);
        let mut opening = stage.opening();
        assert!(opening.as_mut().now_or_never().is_none());
        tokio::time::sleep(LONG).await;
        for two in stage.attempts().windows(2).take(hosts - 1) {
            let between = two[1].0 - two[0].0;
            assert!(between >= share && between < share + Duration::from_millis(5), "{hosts} hosts: {between:?}");
        }
        assert!(stage.ensemble.causes().contains("timed out after"), "{}", stage.ensemble.causes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_does_not_reconnect_at_once() {
    for (spread, expected) in [(false, 0), (true, 50)] {
        let mut stage = Stage::with(3, 1 << 20, |options| options.spread_reconnects = spread);
        let (mut opened, mut peer) = stage.open().await;
        let deleted = opened.session.delete("/a", None);
        let asked = peer.expect(OpCode::Delete).await;
        peer.confirm(&asked, 1).await;
        soon(deleted).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let start = stage.attempts()[0].0;
        drop(peer);
        lost(&mut opened).await;
        stage.resume().await;
        let waited = stage.attempts()[1].0 - start - Duration::from_secs(2);
        assert_eq!(waited.as_millis(), expected, "half of the maximum, because the test draws 0.5");
    }
}
