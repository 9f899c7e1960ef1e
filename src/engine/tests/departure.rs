//! A session leaves a server that the list no longer has.

use std::time::Duration;

use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::script::{Peer, Stage, T, Way, delete, lost, next_event, settle, soon};
use crate::engine::connect_string::{ConnectString, Endpoint};
use crate::engine::{Error, Opened, SessionEvent};
use crate::protocol::{ErrorCode, OpCode, Secret};

fn servers(list: &str) -> Vec<Endpoint> {
    ConnectString::parse(list).expect("names of hosts").endpoints()
}

/// Starts a session on `zk1`, which is the whole list.
async fn on_zk1() -> (watch::Sender<Vec<Endpoint>>, Stage, Opened, Peer) {
    let (list, named) = watch::channel(servers("zk1"));
    let mut stage = Stage::with(1, 1 << 20, |options| options.servers = Some(named));
    let (opened, peer) = stage.open().await;
    assert_eq!(peer.host, 0);
    (list, stage, opened, peer)
}

/// Answers the question of the client whether a host serves. Returns the host.
async fn answer_question(stage: &mut Stage, answer: &str) -> usize {
    let mut peer = stage.peer().await;
    let mut word = [0; 4];
    soon(peer.stream.read_exact(&mut word)).await.expect("a word");
    assert_eq!(&word, b"srvr");
    peer.stream.write_all(answer.as_bytes()).await.expect("the client reads");
    peer.host
}

/// Resumes the session on the next connection, which must be to this host.
async fn resumed_on(stage: &mut Stage, opened: &mut Opened, host: usize) -> Peer {
    let peer = stage.resume().await;
    assert_eq!(peer.host, host);
    assert_eq!(next_event(opened).await, Some(SessionEvent::Connected));
    peer
}

#[tokio::test(start_paused = true)]
async fn it_moves_to_one_that_serves_when_the_last_answer_has_arrived() {
    let (list, mut stage, mut opened, mut peer) = on_zk1().await;
    let answered = delete(&opened.session, "/a");
    let asked = peer.expect(OpCode::Delete).await;
    list.send_replace(servers("zk2,zk3"));
    let first = answer_question(&mut stage, "This ZooKeeper instance is not currently serving requests").await;
    let second = answer_question(&mut stage, "Mode: follower").await;
    assert_ne!(first, second);
    settle().await;
    let held_back = delete(&opened.session, "/b");
    assert!(peer.is_quiet().await, "the connection is kept, and nothing more is written");
    peer.confirm(&asked, 7).await;
    soon(answered).await.expect("answered");
    lost(&mut opened).await;
    assert_eq!(soon(held_back).await, Err(Error::NotConnected), "it was never sent");
    assert_eq!(peer.frame().await, None, "the client closed the connection");
    let begun = Instant::now();
    let mut peer = resumed_on(&mut stage, &mut opened, second).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "at once");
    let deleted = delete(&opened.session, "/b");
    let asked = peer.expect(OpCode::Delete).await;
    peer.confirm(&asked, 8).await;
    soon(deleted).await.expect("the session goes on");
}

#[tokio::test(start_paused = true)]
async fn it_stays_while_the_list_has_its_server() {
    let (list, mut stage, _opened, mut peer) = on_zk1().await;
    for more in ["zk1,zk2", "zk3,zk1", "zk1"] {
        list.send_replace(servers(more));
        settle().await;
        sleep(Duration::from_secs(1)).await;
        assert!(peer.is_quiet().await && stage.waiting_peer().is_none(), "{more}");
    }
}

/// The attempts to find another one end, and start again with the next list.
#[tokio::test(start_paused = true)]
async fn it_stays_while_no_other_server_can_be_reached() {
    let (list, mut stage, mut opened, mut peer) = on_zk1().await;
    stage.set(Way::Refuse);
    list.send_replace(servers("zk2"));
    let until = Instant::now() + Duration::from_secs(3_600);
    while Instant::now() < until {
        let ping = peer.expect(OpCode::Ping).await;
        peer.confirm(&ping, 1).await;
    }
    let tries = stage.attempts().len() - 1;
    assert_eq!(tries, 10, "{:?}", stage.attempts());
    assert!(next_event(&mut opened).now_or_never().is_none(), "the connection is kept");
    stage.set(Way::Accept);
    list.send_replace(servers("zk2,zk3"));
    let host = answer_question(&mut stage, "Mode: leader").await;
    lost(&mut opened).await;
    resumed_on(&mut stage, &mut opened, host).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_arrive_keeps_it_for_the_time_being() {
    let (list, mut stage, mut opened, mut peer) = on_zk1().await;
    let slow = delete(&opened.session, "/slow");
    let asked = peer.expect(OpCode::Delete).await;
    list.send_replace(servers("zk2"));
    answer_question(&mut stage, "Mode: follower").await;
    settle().await;
    let held_back = delete(&opened.session, "/b");
    assert!(peer.is_quiet().await);
    let begun = Instant::now();
    let next = peer.expect(OpCode::Delete).await;
    assert_eq!(begun.elapsed(), T / 10, "it is held back for so long at most");
    peer.confirm(&asked, 7).await;
    peer.confirm(&next, 8).await;
    soon(slow).await.expect("answered");
    soon(held_back).await.expect("answered");
    answer_question(&mut stage, "Mode: follower").await;
    lost(&mut opened).await;
    resumed_on(&mut stage, &mut opened, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_move_keeps_its_server() {
    let (list, named) = watch::channel(servers("zk1"));
    let mut stage = Stage::with(1, 1 << 20, |options| options.servers = Some(named));
    let opening = stage.opening();
    let keeper = async {
        let mut peer = stage.peer().await;
        peer.hello().await;
        peer.connect_response_of(T.as_millis() as i32, 1, Secret(vec![0; 16])).await;
        peer.serve_first().await;
        peer
    };
    let (_opened, mut peer) = soon(async { tokio::join!(opening, keeper) }).await;
    list.send_replace(servers("zk2"));
    for _ in 0..10 {
        let ping = peer.expect(OpCode::Ping).await;
        peer.confirm(&ping, 1).await;
    }
    assert!(stage.waiting_peer().is_none(), "the next connection of ClickHouse Keeper is another session");
}

#[tokio::test(start_paused = true)]
async fn a_close_while_it_leaves_is_the_end() {
    let (list, mut stage, opened, mut peer) = on_zk1().await;
    let answered = delete(&opened.session, "/a");
    let asked = peer.expect(OpCode::Delete).await;
    list.send_replace(servers("zk2"));
    answer_question(&mut stage, "Mode: follower").await;
    settle().await;
    let closing = opened.session.close();
    let close = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 7).await;
    peer.reply(close.xid, 8, ErrorCode::Ok, &()).await;
    soon(answered).await.expect("answered");
    soon(closing).await;
    settle().await;
    assert!(stage.waiting_peer().is_none());
}
