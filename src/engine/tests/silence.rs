//! Pings detect a silent server.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::script::{Stage, T, Told, lost, next_event, soon};
use crate::engine::link::Link;
use crate::engine::request_limit::RequestLimit;
use crate::engine::{Error, Proof, SessionEvent};
use crate::protocol::{ErrorCode, ExistsRequest, OpCode, xid};
use crate::util::clock::Clock;

/// The process may have been suspended for so long that the session is over: the outcome of a write sent now would be
/// unknown.
#[tokio::test(start_paused = true)]
async fn after_a_pause_of_a_session_timeout_nothing_is_written() {
    let link: Link<()> =
        Link::new(Clock::tokio(tokio::time::Instant::now()), Arc::new(RequestLimit::new(usize::MAX)), Arc::default());
    let (near, mut far) = tokio::io::duplex(1 << 10);
    link.up(Box::new(near), 0, T);
    let request = ExistsRequest { path: "/", watch: false };
    for _ in 0..2 {
        tokio::time::advance(T - Duration::from_millis(1)).await;
        assert!(link.hand_over(&request, None).is_ok(), "the pause counts from the latest write");
    }
    tokio::time::advance(T).await;
    assert_eq!(link.hand_over(&request, None).err(), Some(Error::NotConnected));
    drop(link);
    let mut written = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut far, &mut written).await.expect("the client's side is gone");
    assert_eq!(written.len(), 2 * (4 + 8 + 4 + 1 + 1), "two requests");
}

/// Not even a ping is written: after a ping, the connection would look usable to the next caller.
#[tokio::test(start_paused = true)]
async fn after_a_pause_of_a_session_timeout_the_connection_is_left() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    tokio::time::advance(T + Duration::from_secs(1)).await;
    lost(&mut opened).await;
    assert_eq!(peer.frame().await, None, "nothing was written");
    stage.resume().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_owes_an_answer_for_too_long_is_left() {
    for (hosts, silence, expected) in
        [(1, None, Duration::from_secs(4)), (5, None, Duration::from_secs(4)), (1, Some(T / 8), T / 8)]
    {
        let mut stage = Stage::with(hosts, 1 << 20, |options| options.silence = silence);
        let (mut opened, _peer) = stage.open().await;
        let opened_at = stage.clock.now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked_at = stage.clock.now();
        let pending = opened.session.sync("/");
        assert_eq!(soon(pending).await, Err(Error::ConnectionLoss));
        let loss = lost(&mut opened).await;
        let after = loss.at.since(asked_at);
        assert!(after >= expected && after < expected + Duration::from_millis(10), "{after:?}");
        assert_eq!(loss.last_contact, opened_at);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_pinged_and_each_answer_is_reported() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    stage.seen.take();
    for _ in 0..5 {
        let before = stage.clock.now();
        let asked = peer.expect(OpCode::Ping).await;
        let sent = stage.clock.now();
        assert_eq!(asked.xid, xid::PING);
        let waited = sent.since(before);
        assert!(
            waited >= T / 3 - Duration::from_millis(200) && waited < T / 3 + Duration::from_millis(10),
            "{waited:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        peer.reply(xid::PING, 7, ErrorCode::Ok, &()).await;
        super::script::settle().await;
        assert_eq!(stage.seen.take(), [Told::Answered(sent, Proof::Contact)]);
    }
    drop(opened);
}

#[tokio::test(start_paused = true)]
async fn a_long_session_timeout_does_not_let_a_connection_idle() {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(Duration::from_secs(40)).await;
        peer.serve_first().await;
        peer
    };
    let (opened, mut peer) = soon(async { tokio::join!(opening, script) }).await;
    let before = stage.clock.now();
    peer.expect(OpCode::Ping).await;
    let waited = stage.clock.now().since(before);
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_millis(10_010), "{waited:?}");
    drop(opened);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_ping_ends_the_connection() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let opened_at = stage.clock.now();
    peer.expect(OpCode::Ping).await;
    let pinged = stage.clock.now();
    let loss = lost(&mut opened).await;
    let after = loss.at.since(pinged);
    assert!(after >= Duration::from_secs(4) && after < Duration::from_millis(4_010), "{after:?}");
    assert_eq!(loss.last_contact, opened_at);
    stage.resume().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
}

/// Answers to other requests are a sign of life. But only writes replace a ping; reads do not.
#[tokio::test(start_paused = true)]
async fn a_busy_connection_is_not_pinged() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    for _ in 0..20 {
        let pending = opened.session.delete("/a", None);
        let asked = peer.expect(OpCode::Delete).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        peer.confirm(&asked, 1).await;
        soon(pending).await.unwrap();
    }
}

/// A close or a reset comes from the server. Any other error may come from this machine while the server is silent.
#[tokio::test(start_paused = true)]
async fn a_close_counts_as_contact_and_other_socket_errors_do_not() {
    for (end, is_contact) in [
        (None, true),
        (Some(ErrorKind::ConnectionReset), true),
        (Some(ErrorKind::ConnectionAborted), false),
        (Some(ErrorKind::HostUnreachable), false),
        (Some(ErrorKind::NetworkDown), false),
        (Some(ErrorKind::TimedOut), false),
    ] {
        let mut stage = Stage::new(1);
        let (mut opened, peer) = stage.open().await;
        let opened_at = stage.clock.now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.end_with(end);
        drop(peer);
        let loss = lost(&mut opened).await;
        assert_eq!(loss.at.since(opened_at), Duration::from_secs(1), "{end:?}");
        assert_eq!(loss.last_contact, if is_contact { loss.at } else { opened_at }, "{end:?}");
    }
}

/// Bytes that never become an answer keep the connection for a session timeout at most.
#[tokio::test(start_paused = true)]
async fn an_answer_may_trickle_in_for_a_session_timeout_at_most() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let asked_at = stage.clock.now();
    let pending = opened.session.sync("/");
    let trickling = async {
        peer.expect(OpCode::Sync).await;
        peer.send(&1_000_000_i32.to_be_bytes()).await;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.send(&[0]).await;
        }
    };
    let outcome = tokio::select! { outcome = pending => outcome, () = trickling => unreachable!("it never ends") };
    assert_eq!(outcome, Err(Error::ConnectionLoss));
    let after = lost(&mut opened).await.at.since(asked_at);
    assert!(after >= T && after < T + Duration::from_millis(10), "{after:?}");
}
