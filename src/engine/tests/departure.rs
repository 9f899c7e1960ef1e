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
pub(super) async fn answer_question(stage: &mut Stage, answer: &str) -> usize {
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
    for more in ["zk1,zk2", "zk3,zk1", "zk2,also-zk1", "zk1"] {
        list.send_replace(servers(more));
        settle().await;
        sleep(Duration::from_millis(700)).await;
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

/// With a server that answers too late each time, requests are held back ten times, and ever more rarely.
#[tokio::test(start_paused = true)]
async fn the_attempts_to_leave_end_if_the_answers_never_arrive_in_time() {
    let (list, mut stage, opened, mut peer) = on_zk1().await;
    list.send_replace(servers("zk2"));
    let mut unanswered = std::collections::VecDeque::new();
    let mut asked_at = Vec::new();
    let mut _latest = delete(&opened.session, "/a");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3_600) {
        tokio::select! {
            asked = peer.asked() => unanswered.push_back((Instant::now(), asked)),
            () = sleep(T / 5) => {}
        }
        // Each answer takes between T/5 and 2T/5, and the next request follows at once.
        while unanswered.front().is_some_and(|(at, _)| at.elapsed() >= T / 5) {
            let (_, asked) = unanswered.pop_front().expect("the front");
            peer.confirm(&asked, 7).await;
            _latest = delete(&opened.session, "/a");
        }
        while let Some(mut asker) = stage.waiting_peer() {
            let mut word = [0; 4];
            asker.stream.read_exact(&mut word).await.expect("a word");
            asker.stream.write_all(b"Mode: follower").await.expect("the client reads");
            asked_at.push(begun.elapsed());
        }
    }
    assert_eq!(asked_at.len(), 10, "{asked_at:?}");
    assert!(asked_at[9] - asked_at[8] > Duration::from_secs(100), "{asked_at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_while_it_leaves_leaves_no_request_in_doubt() {
    let (list, mut stage, mut opened, mut peer) = on_zk1().await;
    let sent = delete(&opened.session, "/a");
    peer.expect(OpCode::Delete).await;
    list.send_replace(servers("zk2"));
    answer_question(&mut stage, "Mode: follower").await;
    settle().await;
    let held_back = delete(&opened.session, "/b");
    drop(peer);
    lost(&mut opened).await;
    assert_eq!(soon(sent).await, Err(Error::ConnectionLoss));
    assert_eq!(soon(held_back).await, Err(Error::NotConnected), "it was never sent");
    let mut peer = resumed_on(&mut stage, &mut opened, 1).await;
    let deleted = delete(&opened.session, "/b");
    let asked = peer.expect(OpCode::Delete).await;
    peer.confirm(&asked, 8).await;
    soon(deleted).await.expect("nothing is held back any more");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_into_the_list_is_not_left() {
    let (list, mut stage, _opened, mut peer) = on_zk1().await;
    for hosts in ["zk2", "zk1"] {
        list.send_replace(servers(hosts));
        settle().await;
    }
    sleep(Duration::from_secs(2)).await;
    assert!(peer.is_quiet().await && stage.waiting_peer().is_none());
}

/// There are attempts even if the list changes more often than they are made.
#[tokio::test(start_paused = true)]
async fn a_list_that_changes_all_the_time_does_not_keep_it() {
    let (list, mut stage, mut opened, _peer) = on_zk1().await;
    let changing = async {
        for more in ["zk2", "zk2,zk3"].into_iter().cycle() {
            list.send_replace(servers(more));
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = changing => unreachable!("it never ends"),
        _ = answer_question(&mut stage, "Mode: leader") => {}
    }
    lost(&mut opened).await;
}

/// It may be behind a proxy that passes no four-letter words.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_says_whether_it_serves_need_only_accept_in_the_end() {
    let (list, mut stage, mut opened, mut peer) = on_zk1().await;
    list.send_replace(servers("zk2"));
    let mut questions = 0;
    let lost = async { lost(&mut opened).await };
    let serve = async {
        loop {
            tokio::select! {
                ping = peer.frame() => match ping {
                    Some(_) => peer.reply(crate::protocol::xid::PING, 1, ErrorCode::Ok, &()).await,
                    None => futures::future::pending().await,
                },
                // Closes the connection without an answer.
                _ = stage.peer() => questions += 1,
            }
        }
    };
    tokio::select! {
        // First: what it does after that is no question.
        biased;
        _ = soon(lost) => {}
        () = serve => {}
    }
    assert_eq!(questions, 3, "and then a connection without a question");
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
