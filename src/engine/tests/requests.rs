//! Requests on a connection, and their answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use tokio::io::AsyncWriteExt;

use super::script::{Stage, T, Told, delete, lost, next_event, reply, settle, soon};
use crate::engine::link::Link;
use crate::engine::request_limit::RequestLimit;
use crate::engine::{Error, Multi, Op, Proof, SessionEvent};
use crate::protocol::{
    DeleteRequest, ErrorCode, ExistsRequest, GetDataResponse, MultiResponse, MultiResult, OpCode, RemoveWatchesRequest,
    SetDataRequest, SyncResponse, xid,
};
use crate::util::clock::Clock;
use crate::util::mutex::Mutex;
use crate::util::znode::{Acl, CreateMode, Stat};

#[tokio::test(start_paused = true)]
async fn a_request_is_written_by_its_caller() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    settle().await;
    let deleted = delete(&opened.session, "/a");
    // No other task has run.
    let frame = peer.frame().now_or_never().flatten();
    assert!(frame.is_some(), "it is on the wire when the call returns");
    drop(deleted);
    // The same on a thread without a runtime.
    let session = Arc::clone(&opened.session);
    let deleted = std::thread::spawn(move || delete(&session, "/b")).join().expect("no panic");
    let asked = peer.expect(OpCode::Delete).await;
    assert_eq!(asked.read::<DeleteRequest<'_>>(), DeleteRequest { path: "/b", version: -1 });
    peer.reply(asked.xid - 1, 1, ErrorCode::Ok, &()).await;
    peer.confirm(&asked, 2).await;
    assert_eq!(soon(deleted).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn answers_are_matched_in_order_and_their_instants_are_reported() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let session = &opened.session;
    stage.seen.take();
    let first_sent = stage.clock.now();
    let first = session.create("/a", b"x", CreateMode::Persistent, &[Acl::anyone_all()]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second_sent = stage.clock.now();
    let (second, third, fourth) = (session.get_data("/a"), session.sync("/"), session.exists("/no"));
    let (bad, unproven) = (session.delete("/a", Some(7)), session.delete("/b", None));
    let mut xids = Vec::new();
    for op in [OpCode::Create2, OpCode::GetData, OpCode::Sync, OpCode::Exists, OpCode::Delete, OpCode::Delete] {
        xids.push(peer.expect(op).await.xid);
    }
    assert_eq!(xids, [1, 2, 3, 4, 5, 6]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let stat = Stat { czxid: 5, ..Stat::default() };
    let created = crate::protocol::Create2Response { path: "/a".to_owned(), stat };
    peer.reply(1, 5, ErrorCode::Ok, &created).await;
    peer.reply(2, 5, ErrorCode::Ok, &GetDataResponse { data: None, stat }).await;
    peer.reply(3, 5, ErrorCode::Ok, &SyncResponse { path: "/".to_owned() }).await;
    peer.reply(4, 5, ErrorCode::NoNode, &()).await;
    peer.reply(5, 5, ErrorCode::BadVersion, &()).await;
    peer.reply(6, 5, ErrorCode::ThrottledOp, &()).await;
    assert_eq!(soon(first).await, Ok(("/a".to_owned(), stat)));
    assert_eq!(soon(second).await, Ok((Vec::new(), stat)), "null means empty data");
    assert_eq!(soon(third).await, Ok(()));
    assert_eq!(soon(fourth).await, Ok(None));
    assert_eq!(soon(bad).await, Err(Error::BadVersion));
    assert_eq!(soon(unproven).await, Err(Error::Throttled));
    let answered = |sent, proof| Told::Answered(sent, proof);
    assert_eq!(
        stage.seen.take(),
        [
            answered(first_sent, Proof::Quorum),
            answered(second_sent, Proof::Leader),
            answered(second_sent, Proof::Quorum),
        ],
        "neither reads nor a throttled request prove anything"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_transaction_proves_as_much_as_its_error() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    stage.seen.take();
    for (code, error, told) in
        [(ErrorCode::NodeExists, Error::NodeExists, 1), (ErrorCode::InvalidAcl, Error::InvalidAcl, 0)]
    {
        let op = Op::Check { path: "/a".to_owned(), version: None };
        let refused = opened.session.multi(vec![op]);
        let asked = peer.expect(OpCode::Multi).await;
        let body = MultiResponse { results: vec![MultiResult::Error(code)] };
        peer.reply(asked.xid, 1, ErrorCode::Ok, &body).await;
        assert_eq!(soon(refused).await, Ok(Multi::Refused { index: 0, error }));
        assert_eq!(stage.seen.take().len(), told);
    }
}

/// ACLs with ids outside of Unicode's first plane cause this: servers encode each half of a surrogate pair separately.
#[tokio::test(start_paused = true)]
async fn an_unreadable_answer_fails_only_its_request() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let (create, watching) = (
        opened.session.create("/a", b"", CreateMode::Persistent, &[Acl::anyone_all()]),
        opened.session.watch_data("/a"),
    );
    let behind = opened.session.exists("/a");
    for op in [OpCode::Create2, OpCode::GetData, OpCode::Exists] {
        peer.expect(op).await;
    }
    for (xid, code) in [(1, ErrorCode::Ok), (2, ErrorCode::Ok), (3, ErrorCode::NoNode)] {
        peer.reply(xid, 1, code, &()).await;
    }
    let error = soon(create).await.expect_err("no stat was read");
    assert!(matches!(&error, Error::Undecodable(why) if why.contains("malformed")), "{error:?}");
    assert!(error.leaves_outcome_unknown(), "it was carried out");
    let error = soon(watching).await.expect_err("no data was read");
    assert!(matches!(&error, Error::Undecodable(why) if why.contains("malformed")), "{error:?}");
    assert_eq!(soon(behind).await, Ok(None));
    // The server has armed the watch.
    let removal = peer.expect(OpCode::RemoveWatches).await;
    assert_eq!(removal.read::<RemoveWatchesRequest<'_>>().path, "/a");
}

/// Any other fault in a frame ends the connection. The session continues.
#[tokio::test(start_paused = true)]
async fn an_invalid_frame_ends_the_connection() {
    let negative = (-1i32).to_be_bytes().to_vec();
    let garbage = b"\0\0\0\x05hello".to_vec();
    for (bytes, expected) in [
        (reply(2, 1, ErrorCode::Ok, &()).to_vec(), "answer to request 2 arrived out of order"),
        (reply(99, 1, ErrorCode::Ok, &()).to_vec(), "answer to request 99 arrived out of order"),
        (reply(1, 1, ErrorCode::SessionMoved, &()).to_vec(), "SessionMoved"),
        (reply(1, 1, ErrorCode::SessionExpired, &()).to_vec(), "SessionExpired"),
        (negative, "a frame of -1 bytes"),
        (garbage, "malformed ReplyHeader"),
    ] {
        let mut stage = Stage::new(1);
        let (mut opened, mut peer) = stage.open().await;
        stage.seen.take();
        let (pending, behind) = (opened.session.get_data("/a"), opened.session.sync("/"));
        peer.send(&bytes).await;
        assert_eq!(soon(pending).await, Err(Error::ConnectionLoss));
        let told = stage.seen.take();
        assert!(matches!(told[..], [Told::Disconnected(_)]), "reported before callers get their errors: {told:?}");
        assert_eq!(soon(behind).await, Err(Error::ConnectionLoss));
        lost(&mut opened).await;
        assert_eq!(opened.session.sync("/").await, Err(Error::NotConnected));
        let causes = stage.ensemble_causes();
        assert!(causes.contains(expected), "{expected}: {causes}");
        let hello = stage.resume().await;
        assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
        drop(hello);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_no_request_ends_the_connection() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    peer.reply(1, 1, ErrorCode::Ok, &()).await;
    lost(&mut opened).await;
    stage.resume().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_server_closes_is_left_at_once() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let pending = opened.session.sync("/");
    let asked = peer.expect(OpCode::Sync).await;
    let behind = opened.session.sync("/");
    // Answers that arrive before the end still count.
    peer.reply(asked.xid, 1, ErrorCode::Ok, &SyncResponse { path: "/".to_owned() }).await;
    peer.stream.shutdown().await.expect("half of the connection is closed");
    let at = stage.clock.now();
    assert_eq!(soon(pending).await, Ok(()));
    assert_eq!(soon(behind).await, Err(Error::ConnectionLoss));
    let loss = lost(&mut opened).await;
    assert_eq!((loss.at, loss.last_contact), (at, at));
}

#[tokio::test(start_paused = true)]
async fn an_answer_above_the_limit_fails_only_its_request() {
    let mut stage = Stage::with(1, 1 << 20, |options| options.longest_answer = 1_000);
    let (mut opened, mut peer) = stage.open().await;
    let (large, small) = (opened.session.get_data("/large"), opened.session.get_data("/small"));
    let (_, asked) = (peer.asked().await, peer.asked().await);
    let body = |length: usize| GetDataResponse { data: Some(vec![7; length].into()), stat: Stat::default() };
    let giant = reply(asked.xid - 1, 1, ErrorCode::Ok, &body(3_000_000));
    let sending = async {
        for part in giant.chunks(100_000) {
            peer.send(part).await;
            settle().await;
        }
        peer.reply(asked.xid, 1, ErrorCode::Ok, &body(100)).await;
    };
    let (large, small, ()) = soon(async { tokio::join!(large, small, sending) }).await;
    let error = large.expect_err("too long");
    assert!(matches!(error, Error::AnswerTooLong { limit: 1_000, .. }), "{error:?}");
    assert_eq!(small.expect("an answer").0.len(), 100);
    assert!(opened.events.next_now().is_none(), "the connection stays");
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_an_answer_above_the_limit_is_removed() {
    let mut stage = Stage::with(1, 1 << 20, |options| options.longest_answer = 1_000);
    let (opened, mut peer) = stage.open().await;
    let large = opened.session.watch_data("/large");
    let asked = peer.asked().await;
    let body = GetDataResponse { data: Some(vec![7; 2_000].into()), stat: Stat::default() };
    peer.reply(asked.xid, 1, ErrorCode::Ok, &body).await;
    assert!(matches!(soon(large).await.err(), Some(Error::AnswerTooLong { .. })));
    let removal = peer.expect(OpCode::RemoveWatches).await;
    assert_eq!(removal.read::<RemoveWatchesRequest<'_>>().path, "/large");
}

#[tokio::test(start_paused = true)]
async fn answers_may_come_byte_by_byte() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let (first, second) = (opened.session.sync("/"), opened.session.get_data("/a"));
    let (one, two) = (peer.asked().await, peer.asked().await);
    let mut bytes = reply(one.xid, 1, ErrorCode::Ok, &SyncResponse { path: "/".to_owned() });
    let data = GetDataResponse { data: Some(vec![1, 2, 3].into()), stat: Stat::default() };
    bytes.unsplit(reply(two.xid, 1, ErrorCode::Ok, &data));
    // This takes longer than the server may be silent, but the server never is.
    for byte in &bytes {
        peer.send(&[*byte]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(soon(first).await, Ok(()));
    assert_eq!(soon(second).await.expect("data").0, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_the_socket_does_not_take_at_once_follow_in_order() {
    let mut stage = Stage::with(1, 64, |_| {});
    let (opened, mut peer) = stage.open().await;
    let data = vec![7; 1_000];
    let write = |path: &str| opened.session.set_data(path, &data, None);
    // The first one does not fit, so all others wait behind it.
    let (first, dropped, second) = (write("/1"), write("/2"), write("/3"));
    drop(dropped);
    settle().await;
    let third = write("/4");
    let mut answers = Vec::new();
    for path in ["/1", "/2", "/3", "/4"] {
        let asked = peer.expect(OpCode::SetData).await;
        assert_eq!(asked.read::<SetDataRequest<'_>>().path, path);
        answers.push(reply(asked.xid, 1, ErrorCode::Ok, &Stat::default()));
    }
    for answer in answers {
        peer.send(&answer).await;
    }
    for written in [first, second, third] {
        assert_eq!(soon(written).await, Ok(Stat::default()));
    }
    assert!(peer.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_request_never_written_fails_as_not_connected() {
    let mut stage = Stage::with(1, 64, |_| {});
    let (mut opened, peer) = stage.open().await;
    let data = vec![7; 1_000];
    let begun = opened.session.set_data("/1", &data, None);
    let behind = opened.session.set_data("/2", &data, None);
    settle().await;
    drop(peer);
    assert_eq!(soon(begun).await, Err(Error::ConnectionLoss), "a part of it was written");
    assert_eq!(soon(behind).await, Err(Error::NotConnected));
    lost(&mut opened).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_never_written_fails_as_not_connected_even_if_the_session_ends() {
    let mut stage = Stage::with(1, 64, |_| {});
    let (opened, mut peer) = stage.open().await;
    let data = vec![7; 1_000];
    let begun = opened.session.set_data("/1", &data, None);
    let behind = opened.session.set_data("/2", &data, None);
    settle().await;
    peer.reply(xid::AUTH, 0, ErrorCode::AuthFailed, &()).await;
    assert_eq!(soon(begun).await, Err(Error::SessionEnded), "a part of it was written");
    assert_eq!(soon(behind).await, Err(Error::NotConnected));
}

#[tokio::test(start_paused = true)]
async fn unanswered_requests_are_bounded() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let reading = async {
        loop {
            peer.asked().await;
        }
    };
    let asking = async {
        let mut pending = Vec::new();
        for number in 0..64 * 1024 {
            pending.push(opened.session.exists("/a"));
            if number % 1_000 == 0 {
                settle().await;
            }
        }
        assert_eq!(opened.session.exists("/a").await, Err(Error::Throttled));
        assert_eq!(opened.session.delete("/a", None).await, Err(Error::Throttled));
    };
    tokio::select! {
        () = asking => {}
        () = reading => {}
    }
    let (opened, _peer) = stage.open().await;
    let data = vec![0; 5_000_000];
    let pending: Vec<_> = (0..13).map(|_| opened.session.set_data("/a", &data, None)).collect();
    assert_eq!(opened.session.set_data("/a", &data, None).await, Err(Error::Throttled), "bytes are bounded, too");
    drop(pending);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_dropped_future_is_ignored() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    drop(opened.session.delete("/a", None));
    let asked = peer.expect(OpCode::Delete).await;
    let next = opened.session.delete("/b", None);
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    let asked = peer.expect(OpCode::Delete).await;
    peer.confirm(&asked, 2).await;
    assert_eq!(soon(next).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn paths_get_the_chroot_and_lose_it() {
    use crate::engine::connect_string::ConnectString;
    let mut stage = Stage::with(1, 1 << 20, |options| {
        options.connect_string = ConnectString::parse("zk1/app").expect("a connect string");
    });
    let (opened, mut peer) = stage.open().await;
    let created = opened.session.create("/a-", b"", CreateMode::PersistentSequential, &[Acl::anyone_all()]);
    let asked = peer.expect(OpCode::Create2).await;
    assert_eq!(asked.read::<crate::protocol::CreateRequest<'_>>().path, "/app/a-");
    let body = crate::protocol::Create2Response { path: "/app/a-0000000001".to_owned(), stat: Stat::default() };
    peer.reply(asked.xid, 1, ErrorCode::Ok, &body).await;
    assert_eq!(soon(created).await.expect("created").0, "/a-0000000001");
    let listed = opened.session.sync("/");
    let asked = peer.expect(OpCode::Sync).await;
    assert_eq!(asked.read::<crate::protocol::SyncRequest<'_>>().path, "/app");
    drop(listed);
}

impl Stage {
    fn ensemble_causes(&self) -> String {
        self.ensemble.causes()
    }
}

/// Returns the next item of a stream if it is ready.
trait NextNow {
    fn next_now(&mut self) -> Option<SessionEvent>;
}

impl NextNow for futures::stream::BoxStream<'static, SessionEvent> {
    fn next_now(&mut self) -> Option<SessionEvent> {
        futures::StreamExt::next(self).now_or_never().flatten()
    }
}

/// Accepts all bytes, and keeps the length of each write.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<usize>>>);

impl tokio::io::AsyncWrite for Writes {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.0.lock().push(bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn corked_requests_are_written_together() {
    let link: Link<()> =
        Link::new(Clock::tokio(tokio::time::Instant::now()), Arc::new(RequestLimit::new(usize::MAX)), Arc::default());
    let writes = Writes::default();
    link.up(Box::new(writes.clone()), 0, T);
    let request = ExistsRequest { path: "/", watch: false };
    let length = 4 + 8 + 4 + 1 + 1;
    let ask = || link.hand_over(&request, None).expect("it is taken");
    let alone = ask();
    assert_eq!(std::mem::take(&mut *writes.0.lock()), [length], "its caller writes it");
    link.cork();
    link.cork();
    let (first, dropped, last) = (ask(), ask(), ask());
    link.uncork();
    assert_eq!(*writes.0.lock(), [0; 0], "one cork remains");
    drop(dropped);
    link.uncork();
    assert_eq!(std::mem::take(&mut *writes.0.lock()), [3 * length], "even the request that no caller waits for");
    link.uncork();
    let after = ask();
    assert_eq!(std::mem::take(&mut *writes.0.lock()), [length]);
    // With many requests in flight, the task writes.
    let many: Vec<_> = (0..8).map(|_| ask()).collect();
    link.cork();
    let waiting = ask();
    link.uncork();
    assert_eq!(writes.0.lock().iter().sum::<usize>(), 3 * length, "eight are in flight: the others wait for the task");
    link.poll_flush(&mut Context::from_waker(Waker::noop())).is_ready();
    assert_eq!(writes.0.lock().iter().sum::<usize>(), 9 * length);
    drop((alone, first, last, after, many, waiting));
}

/// The server closes or resets the connection on a request that is too long for it. Silence does not count.
#[tokio::test(start_paused = true)]
async fn a_request_on_which_two_connections_ended_is_refused() {
    for end in [None, Some(std::io::ErrorKind::ConnectionReset), Some(std::io::ErrorKind::UnexpectedEof)] {
        let mut stage = Stage::with(1, 1 << 20, |options| options.max_request_bytes = 1 << 20);
        stage.end_with(end);
        let (mut opened, mut peer) = stage.open().await;
        for _ in 0..2 {
            let session = &opened.session;
            let small = session.exists("/a");
            let large = session.set_data("/a", &[7; 100_000], None);
            peer.expect(OpCode::Exists).await;
            drop(peer);
            assert_eq!(soon(large).await, Err(Error::ConnectionLoss));
            assert_eq!(soon(small).await, Err(Error::ConnectionLoss), "it was in flight");
            lost(&mut opened).await;
            peer = stage.resume().await;
            assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
        }
        let session = &opened.session;
        let refused = session.set_data("/a", &[7; 100_000], None).await;
        assert!(matches!(refused, Err(Error::TooLarge(_))), "{end:?}: {refused:?}");
        let set = session.set_data("/a", &[7; 99_999], None);
        let asked = peer.expect(OpCode::SetData).await;
        peer.reply(asked.xid, 1, ErrorCode::Ok, &Stat::default()).await;
        assert_eq!(soon(set).await, Ok(Stat::default()));
    }
}
