//! How a session is opened, and each answer that a server may give.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures::FutureExt;

use super::script::{Hello, ID, PASSWORD, Stage, T, Told, Way, next_event, settle, soon};
use crate::engine::{Error, SessionEvent};
use crate::protocol::{AuthRequest, ConnectResponse, ErrorCode, OpCode, Secret, encode_connect_response, xid};

#[tokio::test(start_paused = true)]
async fn a_session_is_opened_with_the_options() {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        let hello = peer.hello().await;
        assert_eq!(hello, Hello { zxid: 0, timeout: 10_000, id: 0, password: Vec::new(), read_only: Some(false) });
        assert!(matches!(stage.seen.take()[..], [Told::Connecting(_)]));
        peer.connect_response(6_000, ID).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    let opened = opened.expect("a session");
    assert_eq!((opened.session.id(), opened.session.timeout()), (ID, Duration::from_secs(6)));
    assert_eq!(stage.seen.take(), [Told::Connected(Duration::from_secs(6))], "the rest proves nothing");
    assert_eq!(stage.ensemble.causes(), "");
}

/// Answers the first connection with `answer` and nothing else. Returns the cause that is reported for it when the
/// client makes a second connection.
async fn said_of(answer: &[u8], closed: bool) -> String {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut first = stage.peer().await;
        first.hello().await;
        first.send(answer).await;
        let kept = (!closed).then_some(first);
        let mut second = stage.peer().await;
        let causes = stage.ensemble.causes();
        assert_eq!(second.hello().await.id, 0, "the first opened no session");
        second.connect_response(10_000, ID).await;
        second.serve_first().await;
        (causes, kept, second)
    };
    let (opened, (causes, ..)) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
    causes
}

pub(super) fn connect_response(change: impl FnOnce(&mut ConnectResponse)) -> BytesMut {
    let password = Secret(PASSWORD.to_vec());
    let mut response =
        ConnectResponse { protocol_version: 0, timeout: 10_000, session_id: ID, password, read_only: Some(false) };
    change(&mut response);
    let mut frame = BytesMut::new();
    encode_connect_response(&response, &mut frame).expect("a short frame");
    frame
}

#[tokio::test(start_paused = true)]
async fn a_useless_answer_is_reported_and_the_next_host_tried() {
    let giant = [&[0x7f, 0xff, 0xff, 0xff][..], &[7; 100]].concat();
    let negative = (-5i32).to_be_bytes();
    let mut short = BytesMut::new();
    short.put_i32(3);
    short.put_slice(b"abc");
    let read_only = connect_response(|response| response.read_only = Some(true));
    for (answer, closed, expected) in [
        (&b""[..], true, "closed the connection during the handshake"),
        (b"\0\0", true, "closed the connection during the handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", false, "not ZooKeeper's"),
        (&giant, false, "not ZooKeeper's"),
        // A TLS alert, which a server sends after a message without TLS, and another short answer.
        (b"\x15\x03\x03\0\x02\x02\x46", false, "the server speaks TLS on this port"),
        (b"220 \r\n", false, "not ZooKeeper's"),
        (&negative, false, "a frame of -5 bytes"),
        (&short, false, "malformed ConnectResponse"),
        (&read_only, false, "read-only"),
        (b"", false, "timed out after 3.3"),
        (b"\0\0\0\x25\0\0", false, "timed out after 3.3"),
    ] {
        let causes = said_of(answer, closed).await;
        assert!(causes.starts_with("zk1:2181: ") && causes.contains(expected), "{answer:?}: {causes}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_servers_send_no_read_only_byte() {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.hello().await;
        peer.send(&connect_response(|response| response.read_only = None)).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_byte_by_byte() {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.hello().await;
        for byte in connect_response(|_| {}) {
            peer.send(&[byte]).await;
            settle().await;
        }
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
}

#[tokio::test(start_paused = true)]
async fn credentials_come_before_anything_else() {
    let mut stage = Stage::with(1, 1 << 20, |options| {
        options.auths = vec![("digest".to_owned(), b"a:b".to_vec()), ("ip".to_owned(), Vec::new())];
    });
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        for (scheme, auth) in [("digest", &b"a:b"[..]), ("ip", b"")] {
            let asked = peer.expect(OpCode::Auth).await;
            assert_eq!(asked.xid, xid::AUTH);
            let request: AuthRequest<'_> = asked.read();
            assert_eq!((request.scheme, request.auth.0), (scheme, Some(auth)));
        }
        peer.reply(xid::AUTH, 0, ErrorCode::Ok, &()).await;
        settle().await;
        assert!(peer.is_quiet().await);
        stage.seen.take();
        peer.reply(xid::AUTH, 0, ErrorCode::Ok, &()).await;
        settle().await;
        assert_eq!(stage.seen.take(), [], "an accepted credential proves no contact with the leader");
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert!(opened.is_ok());
}

/// Opening a session is a transaction, which a busy ensemble may take a while to commit.
#[tokio::test(start_paused = true)]
async fn each_try_waits_longer_for_a_slow_ensemble() {
    let mut stage = Stage::new(3);
    let (opening, mut tries) = (stage.opening(), 0);
    let serving = async {
        loop {
            let mut peer = stage.peer().await;
            tries += 1;
            tokio::spawn(async move {
                peer.hello().await;
                tokio::time::sleep(T / 2).await;
                if peer.is_quiet().await {
                    peer.connect_response(T.as_millis() as i32, ID).await;
                    peer.serve_first().await;
                    peer.frame().await;
                }
            });
        }
    };
    let opened = tokio::select! {
        opened = soon(opening) => opened,
        () = serving => unreachable!("it serves for ever"),
    };
    assert!(opened.is_ok());
    assert_eq!(tries, 10, "the passes with T/9, 2T/9 and 4T/9 a try are too short");
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_end_the_opening() {
    let mut stage = Stage::with_credentials();
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        peer.answer_credentials(ErrorCode::AuthFailed).await;
        peer
    };
    let (opened, mut peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.err(), Some(Error::AuthFailed));
    assert_eq!(peer.frame().await, None, "the connection is closed");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.attempts().len(), 1);
}

/// The server opens a session for any client, and refuses the first request.
#[tokio::test(start_paused = true)]
async fn a_server_that_requires_authentication_refuses_others() {
    let mut stage = Stage::new(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        let asked = peer.expect(OpCode::Ping).await;
        peer.reply(asked.xid, 0, ErrorCode::SessionClosedRequireSaslAuth, &()).await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.err(), Some(Error::AuthFailed));
    // A server may also start to require it later.
    let (mut opened, mut peer) = stage.open().await;
    let pending = opened.session.sync("/");
    let asked = peer.expect(OpCode::Sync).await;
    peer.reply(asked.xid, 0, ErrorCode::SessionClosedRequireSaslAuth, &()).await;
    assert_eq!(soon(pending).await, Err(Error::SessionEnded));
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::AuthFailed));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_no_caller_waits_for_is_not_opened() {
    let mut stage = Stage::new(1);
    stage.set(Way::Refuse);
    let mut opening = stage.opening();
    assert!(opening.as_mut().now_or_never().is_none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let tries = stage.attempts().len();
    assert!(tries > 3);
    drop(opening);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(stage.attempts().len() <= tries + 1, "at most the one in progress");
    assert!(stage.waiting_peer().is_none());
}

/// The server opened the session but never answered the credentials.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_up_while_it_is_opened_is_closed() {
    let mut stage = Stage::with_credentials();
    let mut opening = stage.opening();
    assert!(opening.as_mut().now_or_never().is_none());
    let mut peer = stage.peer().await;
    peer.greet(T).await;
    peer.expect(OpCode::Auth).await;
    drop(opening);
    assert_eq!(peer.frame().await, None);
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.id, ID);
    peer.connect_response(10_000, ID).await;
    peer.answer_credentials(ErrorCode::Ok).await;
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 0).await;
    assert_eq!(peer.frame().await, None);
}

/// If the connection is lost meanwhile, the session is resumed, or another one is opened if it has expired.
#[tokio::test(start_paused = true)]
async fn opening_continues_with_the_same_session() {
    let mut stage = Stage::with_credentials();
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        peer.expect(OpCode::Auth).await;
        drop(peer);
        let mut peer = stage.peer().await;
        let hello = peer.hello().await;
        assert_eq!((hello.id, &hello.password[..]), (ID, PASSWORD));
        let told = stage.seen.take();
        assert!(
            matches!(told[..], [Told::Connecting(_), Told::Connected(T), Told::Disconnected(_), Told::Connecting(_)]),
            "{told:?}"
        );
        peer.connect_response(0, 0).await;
        let mut peer = stage.peer().await;
        assert_eq!(peer.hello().await.id, 0);
        peer.connect_response(10_000, ID + 1).await;
        peer.answer_credentials(ErrorCode::Ok).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID + 1);
}
