//! The owner closes the session.

use std::time::Duration;

use futures::FutureExt;

use super::script::{ID, Stage, T, Way, lost, next_event, settle, soon};
use crate::engine::{Error, SessionEvent};
use crate::protocol::{DeleteRequest, ErrorCode, OpCode};

#[tokio::test(start_paused = true)]
async fn the_close_follows_everything_that_was_handed_over() {
    // Only a few bytes fit at a time.
    let mut stage = Stage::with(1, 64, |_| {});
    let (mut opened, mut peer) = stage.open().await;
    let pending: Vec<_> = (0..100).map(|number| opened.session.delete(&format!("/{number}"), None)).collect();
    let closed = opened.session.close();
    assert_eq!(opened.session.sync("/").await, Err(Error::NotConnected));
    for number in 0..100 {
        let asked = peer.expect(OpCode::Delete).await;
        assert_eq!(asked.read::<DeleteRequest<'_>>().path, format!("/{number}"));
    }
    let asked = peer.expect(OpCode::CloseSession).await;
    assert_eq!(asked.xid, 101);
    let mut closed = closed;
    settle().await;
    assert!(closed.as_mut().now_or_never().is_none(), "the server has not answered");
    for (xid, deleted) in (1..).zip(pending) {
        let (code, outcome) =
            if xid % 2 == 0 { (ErrorCode::Ok, Ok(())) } else { (ErrorCode::NoNode, Err(Error::NoNode)) };
        peer.reply(xid, 1, code, &()).await;
        assert_eq!(soon(deleted).await, outcome);
    }
    peer.confirm(&asked, 2).await;
    soon(closed).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed));
    assert_eq!(next_event(&mut opened).await, None);
    assert_eq!(peer.frame().await, None, "the connection is closed");
    soon(opened.session.close()).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_session_is_closed_after_its_requests() {
    let mut stage = Stage::with(1, 64, |_| {});
    let (opened, mut peer) = stage.open().await;
    let kept: Vec<_> = (0..5).map(|number| opened.session.delete(&format!("/{number}"), None)).collect();
    drop(opened);
    for number in 0..5 {
        let asked = peer.expect(OpCode::Delete).await;
        assert_eq!(asked.read::<DeleteRequest<'_>>().path, format!("/{number}"));
    }
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.reply(1, 1, ErrorCode::Ok, &()).await;
    let mut kept = kept.into_iter();
    assert_eq!(soon(kept.next().expect("the first")).await, Ok(()));
    // The server does not answer the others.
    peer.confirm(&asked, 2).await;
    for deleted in kept {
        assert_eq!(soon(deleted).await, Err(Error::SessionEnded));
    }
}

/// Not even a server that keeps sending events.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_does_not_keep_the_owner() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let begun = stage.clock.now();
    let deleted = opened.session.delete("/a", None);
    let closed = opened.session.close();
    let chatter = async {
        loop {
            peer.event(crate::protocol::EventType::NodeCreated, "/x").await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        () = closed => {}
        () = chatter => {}
    }
    let took = stage.clock.now().since(begun);
    assert!(took >= T && took < T + Duration::from_millis(20), "{took:?}");
    assert_eq!(deleted.now_or_never(), Some(Err(Error::SessionEnded)));
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_close_is_sent_on_another_connection_when_the_first_is_lost() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let deleted = opened.session.delete("/a", None);
    let closed = opened.session.close();
    peer.expect(OpCode::Delete).await;
    peer.expect(OpCode::CloseSession).await;
    drop(peer);
    assert_eq!(soon(deleted).await, Err(Error::SessionEnded), "it is not sent again");
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.id, ID);
    // The close was carried out before the connection was lost.
    peer.connect_response(0, 0).await;
    soon(closed).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed), "neither a loss nor an expiry");
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_session_is_closed_on_the_next_connection() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    stage.set(Way::Refuse);
    drop(peer);
    lost(&mut opened).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let closed = opened.session.close();
    stage.seen.take();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let attempts = stage.attempts().len();
    stage.set(Way::Accept);
    let mut peer = stage.resume().await;
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 1).await;
    soon(closed).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed));
    assert!(attempts < 20, "attempts keep their pace: {attempts}");
}

#[tokio::test(start_paused = true)]
async fn attempts_end_when_the_servers_no_longer_know_the_session() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    stage.set(Way::Refuse);
    drop(peer);
    let loss = lost(&mut opened).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    soon(opened.session.close()).await;
    let after = stage.clock.now().since(loss.last_contact);
    assert!(after >= T && after < T + Duration::from_millis(20), "{after:?}");
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed));
    let attempts = stage.attempts().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.attempts().len(), attempts);
    // If they forgot it long ago, the close returns at once.
    stage.set(Way::Accept);
    let (mut opened, peer) = stage.open().await;
    stage.set(Way::Refuse);
    drop(peer);
    lost(&mut opened).await;
    tokio::time::sleep(T * 2).await;
    let begun = stage.clock.now();
    soon(opened.session.close()).await;
    assert_eq!(stage.clock.now(), begun);
}

/// The servers know a renewed session for another session timeout, so it must still be closed.
#[tokio::test(start_paused = true)]
async fn a_session_renewed_while_it_is_being_closed_is_not_given_up_early() {
    let mut stage = Stage::with_credentials();
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.resume().await;
        peer.answer_credentials(ErrorCode::Ok).await;
        peer.serve_first().await;
        peer
    };
    let (opened, peer) = soon(async { tokio::join!(opening, script) }).await;
    let mut opened = opened.expect("a session");
    stage.set(Way::Refuse);
    drop(peer);
    lost(&mut opened).await;
    tokio::time::sleep(T / 2).await;
    let closed = opened.session.close();
    tokio::time::sleep(T / 4).await;
    // This attempt renews the session and fails before the client can close it.
    stage.set(Way::Accept);
    let mut peer = stage.resume().await;
    peer.expect(OpCode::Auth).await;
    stage.set(Way::Refuse);
    drop(peer);
    tokio::time::sleep(T / 2).await;
    stage.set(Way::Accept);
    let mut peer = stage.resume().await;
    peer.answer_credentials(ErrorCode::Ok).await;
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 0).await;
    soon(closed).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Closed));
}
