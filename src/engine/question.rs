//! Asks a server whether it serves, on a separate connection, before a session is handed to it.
//!
//! An unanswered request to resume a session costs time: it may have been carried out, so the session may end as early
//! as after the shortest timeout that a server grants. But a server that is starting, stopping or electing a leader
//! accepts connections and closes them unanswered, and so does a proxy in front of it. The four-letter word `srvr`
//! distinguishes such a server from one that serves, and moves no session. Servers permit it by default; a server that
//! does not permit it says so. A proxy may close the connection instead, so a host on which a session was opened or
//! resumed without asking is asked later, while it serves.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connect::Stream;

/// The four-letter word for a server's state.
const WORD: &[u8] = b"srvr";
/// The most bytes of an answer that are read.
const LONGEST: usize = 8 * 1024;

/// The state that a server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerState {
    /// It takes part in the ensemble.
    Serving,
    /// It does not say what it does, but answers.
    Unsaid,
    ReadOnly,
    /// It has no leader, or is starting or stopping.
    NotServing,
    /// It closed the connection without an answer: no server listens behind a proxy, or the proxy passes no four-letter
    /// words.
    Unknown,
}

/// Asks the server at the other end.
pub(super) async fn ask(mut stream: Stream) -> io::Result<ServerState> {
    stream.write.write_all(WORD).await?;
    stream.write.flush().await?;
    let mut answer = Vec::new();
    // An answer counts even if the stream then fails. A reset without an answer counts as a close.
    let read = stream.read.take(LONGEST as u64).read_to_end(&mut answer).await;
    match read {
        Err(error) if answer.is_empty() && error.kind() != io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(parse(&answer)),
    }
}

fn parse(answer: &[u8]) -> ServerState {
    let says = |words: &str| answer.windows(words.len()).any(|part| part == words.as_bytes());
    match answer {
        [] => ServerState::Unknown,
        _ if says("not currently serving requests") => ServerState::NotServing,
        _ if says("Mode: read-only") => ServerState::ReadOnly,
        _ if says("Mode: ") => ServerState::Serving,
        _ => ServerState::Unsaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_says_so_does_not_serve() {
        for (answer, state) in [
            (
                "Zookeeper version: 3.9.3\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n",
                ServerState::Serving,
            ),
            ("srvr is not executed because it is not in the whitelist.\n", ServerState::Unsaid),
            ("This ZooKeeper instance is not currently serving requests\n", ServerState::NotServing),
            ("Zookeeper version: 3.9.3\nMode: read-only\n", ServerState::ReadOnly),
            ("", ServerState::Unknown),
        ] {
            assert_eq!(parse(answer.as_bytes()), state, "{answer}");
        }
    }
}
