//! A session moves from one connection to the next.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::script::{Hello, ID, PASSWORD, Stage, T, Told, Way, delete, lost, next_event, settle, soon};
use crate::engine::Options;
use crate::engine::{Error, Event, SessionEvent};
use crate::protocol::{ErrorCode, ExistsRequest, OpCode, xid};
use crate::util::mutex::Mutex;

#[tokio::test(start_paused = true)]
async fn the_session_is_resumed_with_the_latest_zxid() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let deleted = delete(&opened.session, "/a");
    let asked = peer.expect(OpCode::Delete).await;
    peer.confirm(&asked, 0x77).await;
    soon(deleted).await.unwrap();
    stage.seen.take();
    drop(peer);
    let loss = lost(&mut opened).await;
    assert_eq!(stage.seen.take()[0], Told::Disconnected(loss));
    let mut peer = stage.peer().await;
    let hello = peer.hello().await;
    assert_eq!(
        hello,
        Hello { zxid: 0x77, timeout: 10_000, id: ID, password: PASSWORD.to_vec(), read_only: Some(false) }
    );
    assert_eq!(delete(&opened.session, "/a").await, Err(Error::NotConnected));
    assert!(opened.events.next().now_or_never().is_none());
    // The server grants less than before, but the client keeps requesting the same timeout.
    peer.connect_response(6_000, ID).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    let told = stage.seen.take();
    assert!(matches!(told[..], [Told::Connecting(_), Told::Connected(granted)] if granted.as_secs() == 6), "{told:?}");
    assert_eq!(opened.session.timeout(), Duration::from_secs(6));
    let deleted = delete(&opened.session, "/a");
    assert_eq!(peer.expect(OpCode::Delete).await.xid, 1, "each connection numbers its requests from 1");
    drop((peer, deleted));
    lost(&mut opened).await;
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.timeout, 10_000);
    peer.connect_response(20_000, ID).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    assert_eq!(opened.session.timeout(), Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_expired_is_over() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let (watching, asked) = (opened.session.watch_exists("/a"), peer.expect(OpCode::Exists).await);
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    let (_, watch) = soon(watching).await.expect("a watch");
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.peer().await;
    peer.hello().await;
    stage.seen.take();
    peer.connect_response(0, 0).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Expired));
    assert_eq!(next_event(&mut opened).await, None);
    assert_eq!(soon(watch).await, Event::SessionEnded);
    assert_eq!(delete(&opened.session, "/a").await, Err(Error::NotConnected));
    assert_eq!(stage.seen.take(), [], "the end of a session is not reported as a lost connection");
    soon(opened.session.close()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(stage.waiting_peer().is_none());
}

#[tokio::test(start_paused = true)]
async fn after_a_server_that_refuses_the_session_the_next_is_tried() {
    let mut stage = Stage::new(3);
    let (mut opened, mut peer) = stage.open().await;
    let deleted = delete(&opened.session, "/a");
    let asked = peer.expect(OpCode::Delete).await;
    peer.confirm(&asked, 0x77).await;
    soon(deleted).await.unwrap();
    drop(peer);
    lost(&mut opened).await;
    // One host lags behind and closes the connection, another one does not answer.
    let mut behind = stage.peer().await;
    behind.hello().await;
    drop(behind);
    let mut silent = stage.peer().await;
    silent.hello().await;
    stage.resume().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    let hosts: std::collections::BTreeSet<usize> = stage.attempts()[1..].iter().map(|(_, host)| *host).collect();
    assert_eq!(hosts.len(), 3);
    assert!(stage.ensemble.causes().contains("lagging behind"), "{}", stage.ensemble.causes());
    assert!(stage.ensemble.causes().contains("timed out after"), "{}", stage.ensemble.causes());
}

#[tokio::test(start_paused = true)]
async fn credentials_refused_at_a_reconnect_end_the_session() {
    let mut stage = Stage::with_credentials();
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        peer.answer_credentials(ErrorCode::Ok).await;
        peer.serve_first().await;
        peer
    };
    let (opened, peer) = soon(async { tokio::join!(opening, script) }).await;
    let mut opened = opened.expect("a session");
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.resume().await;
    peer.expect(OpCode::Auth).await;
    assert_eq!(opened.session.sync("/").await, Err(Error::NotConnected), "no request precedes the credentials");
    peer.reply(xid::AUTH, 0, ErrorCode::AuthFailed, &()).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::AuthFailed));
    assert_eq!(next_event(&mut opened).await, None);
}

/// This happens, for example, while new credentials are installed on one server after another.
#[tokio::test(start_paused = true)]
async fn credentials_refused_by_some_hosts_are_presented_to_the_others() {
    let credentials = |options: &mut Options| options.auths = vec![("ip".to_owned(), Vec::new())];
    let mut stage = Stage::with(3, 1 << 20, credentials);
    let opening = stage.opening();
    let script = async {
        for answer in [ErrorCode::AuthFailed, ErrorCode::AuthFailed, ErrorCode::Ok] {
            let mut peer = stage.peer().await;
            peer.greet(T).await;
            peer.answer_credentials(answer).await;
            if answer == ErrorCode::Ok {
                peer.serve_first().await;
                return peer;
            }
        }
        unreachable!("the last one accepts them")
    };
    let (opened, peer) = soon(async { tokio::join!(opening, script) }).await;
    let mut opened = opened.expect("a session");
    drop(peer);
    lost(&mut opened).await;
    for answer in [ErrorCode::AuthFailed, ErrorCode::AuthFailed, ErrorCode::Ok] {
        let mut peer = stage.resume().await;
        peer.answer_credentials(answer).await;
        if answer == ErrorCode::Ok {
            assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
        } else {
            lost(&mut opened).await;
        }
    }
    lost(&mut opened).await;
    for _ in 0..3 {
        let mut peer = stage.resume().await;
        peer.answer_credentials(ErrorCode::AuthFailed).await;
        drop(peer);
        match next_event(&mut opened).await {
            Some(SessionEvent::Disconnected(_)) => {}
            Some(SessionEvent::AuthFailed) => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("all hosts have refused them");
}

/// ClickHouse Keeper never resumes a session: it opens another one.
#[tokio::test(start_paused = true)]
async fn a_server_that_opens_another_session_ends_this_one_and_keeps_none() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.id, ID);
    peer.connect_response(T.as_millis() as i32, ID + 1).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Replaced));
    peer.expect(OpCode::CloseSession).await;
    assert_eq!(peer.frame().await, None, "the connection is closed");
    tokio::time::sleep(T).await;
    assert_eq!(stage.attempts().len(), 2, "no other server is asked to resume the session");
}

/// A connection that is lost before the watches are restored was never reported as connected. But it renewed the
/// session, so its loss is reported.
#[tokio::test(start_paused = true)]
async fn a_connection_lost_during_the_handshake_is_not_reported_as_connected() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let (watching, asked) = (opened.session.watch_exists("/a"), peer.expect(OpCode::Exists).await);
    assert!(asked.read::<ExistsRequest<'_>>().watch);
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    let (_, _watch) = soon(watching).await.expect("a watch");
    drop(peer);
    lost(&mut opened).await;
    stage.seen.take();
    let mut peer = stage.resume().await;
    peer.expect(OpCode::SetWatches).await;
    drop(peer);
    let mut peer = stage.resume().await;
    let told = stage.seen.take();
    assert!(
        matches!(told[..], [Told::Connecting(_), Told::Connected(T), Told::Disconnected(_), Told::Connecting(_), ..]),
        "{told:?}"
    );
    assert!(told.contains(&Told::Disconnected(lost(&mut opened).await)));
    assert!(opened.events.next().now_or_never().is_none());
    let asked = peer.expect(OpCode::SetWatches).await;
    peer.confirm(&asked, 1).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    assert!(opened.events.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_runtime() {
    let (sender, tasks) = std::sync::mpsc::channel::<futures::future::BoxFuture<'static, ()>>();
    let sender = Mutex::new(sender);
    let mut stage = Stage::with(1, 1 << 20, |options| {
        options.spawn = std::sync::Arc::new(move |task| drop(sender.lock().send(task)));
    });
    let opening = tokio::spawn(stage.opening());
    settle().await;
    let task = tokio::spawn(tasks.recv().expect("a task"));
    let mut peer = stage.resume().await;
    peer.serve_first().await;
    let mut opened = soon(opening).await.expect("no panic").expect("a session");
    let pending = opened.session.sync("/");
    task.abort();
    assert_eq!(soon(pending).await, Err(Error::SessionEnded));
    assert_eq!(next_event(&mut opened).await, None);
    assert_eq!(opened.session.sync("/").await, Err(Error::NotConnected));
    soon(opened.session.close()).await;
    drop(peer);
    // The same before the session is open.
    let opening = tokio::spawn(stage.opening());
    settle().await;
    drop(tasks.recv().expect("a task"));
    let error = soon(opening).await.expect("no panic").err().expect("no session");
    assert!(matches!(&error, Error::Other(why) if why.contains("runtime")), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_one_loss_however_many_attempts_it_takes() {
    let mut stage = Stage::new(3);
    let (mut opened, peer) = stage.open().await;
    stage.set(Way::Refuse);
    stage.seen.take();
    drop(peer);
    lost(&mut opened).await;
    tokio::time::sleep(T * 2).await;
    assert!(stage.attempts().len() > 20);
    assert_eq!(stage.seen.take().len(), 1);
    stage.set(Way::Accept);
    stage.resume().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
}
