//! What the supervisor and the keeper say to each other: one JSON value a line, on a socket that is the keeper's
//! standard input. Its end tells either that the other process is gone.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::Plan;
use crate::ending::Status;

/// What the supervisor says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The first message.
    Plan(Box<Plan>),
    /// It has heard that the keeper holds, and is ready to start the command.
    Ready,
    /// The command runs in this process group.
    Started { group: i32 },
    /// No command was started, or it has ended and no process of its group is left. Nothing need be held any more.
    Over,
}

/// What the keeper says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// It holds.
    Held {
        /// The fencing token; `None` for a barrier, which does not exclude others.
        token: Option<i64>,
        /// The session timeout that the servers granted, in milliseconds.
        timeout_ms: u64,
    },
    /// The command may be started.
    Start,
    /// Another client asks it to release.
    Revoked,
    /// It does not hold any more.
    Lost { why: String },
    /// The keeper ends: it has released what it held, or it could not hold.
    Ended { status: Option<Status>, why: Option<String> },
}

/// One side of the conversation.
pub struct Conversation {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

impl Conversation {
    pub fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, out) = UnixStream::from_std(stream)?.into_split();
        Ok(Conversation { lines: BufReader::new(read).lines(), out })
    }

    /// Says something. If the other process is gone, that shows in [`hear`](Self::hear).
    pub async fn say(&mut self, message: &impl Serialize) {
        let Ok(mut line) = serde_json::to_string(message) else { return };
        line.push('\n');
        // Few and short: it never waits for the other side.
        let _ = self.out.write_all(line.as_bytes()).await;
    }

    /// Says that nothing more will be said.
    pub async fn finish(&mut self) {
        let _ = self.out.shutdown().await;
    }

    /// Returns the next message; `None` once the other process is gone. Cancel safe.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = self.lines.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }
}
