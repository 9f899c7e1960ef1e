//! A client that accepts a server which only answers reads.

use std::time::Duration;

use futures::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::departure::answer_question;
use super::handshake::connect_response;
use super::script::{Peer, Stage, Way, lost, next_event, soon};
use crate::engine::{Opened, SessionEvent};
use crate::protocol::OpCode;

/// Refuses the session on each of the three hosts. Returns whether a read-only server would have done there.
async fn refuse_all(stage: &mut Stage) -> [Option<bool>; 3] {
    let mut would_do = [None; 3];
    for would_do in &mut would_do {
        *would_do = stage.peer().await.hello().await.read_only;
    }
    would_do
}

async fn greet_read_only(stage: &mut Stage) -> Peer {
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.read_only, Some(true));
    peer.send(&connect_response(|response| response.read_only = Some(true))).await;
    peer
}

/// Starts a session on one of three hosts, which only answers reads.
async fn on_a_read_only_server() -> (Stage, Opened, Peer) {
    let mut stage = Stage::with(3, 1 << 20, |options| options.read_only = true);
    let opening = stage.opening();
    let script = async {
        assert_eq!(refuse_all(&mut stage).await, [Some(false); 3], "one of them may take part in the ensemble");
        let mut peer = greet_read_only(&mut stage).await;
        peer.serve_first().await;
        peer
    };
    let (opened, peer) = soon(async { tokio::join!(opening, script) }).await;
    (stage, opened.expect("a session"), peer)
}

#[tokio::test(start_paused = true)]
async fn it_moves_when_another_server_serves() {
    let (mut stage, mut opened, peer) = on_a_read_only_server().await;
    let mut asked = Vec::new();
    // The server itself is asked as well: it may take part in the ensemble again.
    for answer in ["Mode: read-only", "This ZooKeeper instance is not currently serving requests", "Mode: read-only"] {
        asked.push(answer_question(&mut stage, answer).await);
    }
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2]);
    let host = answer_question(&mut stage, "Mode: follower").await;
    lost(&mut opened).await;
    let mut next = stage.peer().await;
    let hello = next.hello().await;
    assert_eq!((next.host, hello.id, hello.read_only), (host, opened.session.id(), Some(false)));
    next.send(&connect_response(|_| {})).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    drop(peer);
}

/// A server that says that it takes part, and then refuses the session, must not make it move again and again.
#[tokio::test(start_paused = true)]
async fn a_move_that_fails_makes_the_pauses_no_shorter() {
    let (mut stage, mut opened, mut peer) = on_a_read_only_server().await;
    let begun = Instant::now();
    let mut moves = Vec::new();
    for _ in 0..8 {
        let pings = async {
            while let Some(ping) = peer.next().await {
                peer.confirm(&ping, 1).await;
            }
        };
        tokio::join!(pings, answer_question(&mut stage, "Mode: follower"));
        moves.push(begun.elapsed());
        lost(&mut opened).await;
        refuse_all(&mut stage).await;
        peer = greet_read_only(&mut stage).await;
        assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    }
    let pauses: Vec<Duration> = moves.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(begun.elapsed() > Duration::from_secs(60), "{pauses:?}");
}

/// Without an end, because the server may stay alone for long; but with long pauses.
#[tokio::test(start_paused = true)]
async fn it_looks_for_another_server_with_growing_pauses() {
    let (stage, mut opened, mut peer) = on_a_read_only_server().await;
    stage.set(Way::Refuse);
    let hour = Duration::from_secs(3_600);
    let until = Instant::now() + hour;
    while Instant::now() < until {
        let ping = peer.expect(OpCode::Ping).await;
        peer.confirm(&ping, 1).await;
    }
    let looks: Vec<Duration> = stage.attempts().iter().skip(4).step_by(3).map(|(at, _)| *at).collect();
    let longest = looks.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest.is_some_and(|longest| longest <= Duration::from_secs(64)), "{looks:?}");
    assert!((56..300).contains(&looks.len()), "{} looks in an hour", looks.len());
    assert!(next_event(&mut opened).now_or_never().is_none(), "the connection is kept");
}

/// A proxy that passes no four-letter words may lead to the same server.
#[tokio::test(start_paused = true)]
async fn it_stays_if_no_server_says_that_it_serves() {
    let (mut stage, mut opened, mut peer) = on_a_read_only_server().await;
    let until = Instant::now() + Duration::from_secs(600);
    let silent = async {
        loop {
            let mut asked = stage.peer().await;
            let mut word = [0; 4];
            soon(asked.stream.read_exact(&mut word)).await.expect("a word");
            // It is closed without an answer.
        }
    };
    let pings = async {
        while Instant::now() < until {
            let ping = peer.expect(OpCode::Ping).await;
            peer.confirm(&ping, 1).await;
        }
    };
    tokio::select! {
        () = silent => {}
        () = pings => {}
    }
    assert!(next_event(&mut opened).now_or_never().is_none(), "the connection is kept");
}
