//! The client asks a server whether it serves when an unanswered request to resume the session would cost time.

use std::sync::atomic::Ordering;

use tokio::io::AsyncReadExt;

use super::script::{Peer, Stage, T, Told, lost, next_event, settle, soon};
use crate::engine::{Opened, SessionEvent};

const SERVES: &[u8] = b"Zookeeper version: 3.9.3\nMode: follower\nNode count: 5\n";

/// Takes a question, answers it, and closes the connection.
async fn answer(stage: &mut Stage, words: &[u8]) {
    let mut peer = stage.peer().await;
    let mut asked = [0; 4];
    soon(peer.stream.read_exact(&mut asked)).await.expect("a question");
    assert_eq!(&asked, b"srvr");
    peer.send(words).await;
}

async fn cut(stage: &mut Stage, opened: &mut Opened, peer: Peer) {
    drop(peer);
    lost(opened).await;
    stage.seen.take();
}

/// Resumes the session on the next connection, on which no question is asked first.
async fn resume(stage: &mut Stage, opened: &mut Opened) -> Peer {
    let peer = stage.resume().await;
    assert_eq!(next_event(opened).await, Some(SessionEvent::Connected));
    assert!(matches!(stage.seen.take()[..], [Told::Connecting(_), Told::Connected(T)]), "one request, and its answer");
    peer
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_serves_is_handed_the_session() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    stage.seen.outlasts_connections.store(true, Ordering::Relaxed);
    cut(&mut stage, &mut opened, peer).await;
    let not_serving: &[u8] = b"This ZooKeeper instance is not currently serving requests\n";
    for words in [b"", not_serving, b"", b"Zookeeper version: 3.9.3\nMode: read-only\n"] {
        answer(&mut stage, words).await;
    }
    assert_eq!(stage.seen.take(), [], "no request to resume the session was written");
    answer(&mut stage, SERVES).await;
    resume(&mut stage, &mut opened).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_server_that_answers_no_question_in_time_the_next_is_tried() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    stage.seen.outlasts_connections.store(true, Ordering::Relaxed);
    cut(&mut stage, &mut opened, peer).await;
    let (asked, silent) = (stage.clock.now(), stage.peer().await);
    answer(&mut stage, SERVES).await;
    let after = stage.clock.now().since(asked);
    assert!(after.as_secs() == 1, "less than the timeout of an attempt: {after:?}");
    drop(silent);
    resume(&mut stage, &mut opened).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_answered_no_question_while_it_served_is_handed_the_session_unasked() {
    let silent: &[u8] = b"";
    for (answers, asks) in [(vec![silent, silent], false), (vec![SERVES], true), (vec![silent, SERVES], true)] {
        let mut stage = Stage::new(1);
        stage.seen.outlasts_connections.store(true, Ordering::Relaxed);
        let (mut opened, mut peer) = stage.open().await;
        for words in &answers {
            answer(&mut stage, words).await;
        }
        settle().await;
        for _ in 0..2 {
            cut(&mut stage, &mut opened, peer).await;
            if asks {
                answer(&mut stage, SERVES).await;
            }
            peer = resume(&mut stage, &mut opened).await;
            // The client asks again while the host serves.
            for words in answers.iter().filter(|_| !asks) {
                answer(&mut stage, words).await;
            }
            settle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_may_never_answer_is_handed_the_session_before_that_ends() {
    let mut stage = Stage::new(1);
    let (mut opened, peer) = stage.open().await;
    stage.seen.outlasts_connections.store(true, Ordering::Relaxed);
    let at = stage.clock.now();
    cut(&mut stage, &mut opened, peer).await;
    let mut peer = loop {
        let mut peer = stage.peer().await;
        let mut begun = [0; 4];
        soon(peer.stream.read_exact(&mut begun)).await.expect("a question, or a request");
        if &begun != b"srvr" {
            break peer;
        }
    };
    let after = stage.clock.now().since(at);
    assert!(after >= T / 2 && after < T * 3 / 4, "{after:?}");
    assert!(matches!(stage.seen.take()[..], [Told::Connecting(_)]), "one request to resume the session");
    drop(peer.stream.read_u8().await);
}

/// A server that has lost its leader still reports for a moment that it serves.
#[tokio::test(start_paused = true)]
async fn no_server_is_asked_right_after_a_connection_is_lost() {
    for (outlasts, waits) in [(true, 300), (false, 0)] {
        let mut stage = Stage::new(1);
        let (mut opened, peer) = stage.open().await;
        stage.seen.outlasts_connections.store(outlasts, Ordering::Relaxed);
        let at = stage.clock.now();
        cut(&mut stage, &mut opened, peer).await;
        if outlasts {
            answer(&mut stage, SERVES).await;
        }
        resume(&mut stage, &mut opened).await;
        let after = stage.clock.now().since(at).as_millis();
        assert!((waits..waits + 100).contains(&after), "{after} ms, {outlasts}");
    }
}
