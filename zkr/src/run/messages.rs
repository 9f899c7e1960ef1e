//! The messages between the supervisor and the keeper: one JSON value per line, on a socket that is the keeper's
//! standard input. The end of the stream shows each process that the other one is gone.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::Plan;
use crate::ending::Status;

/// A message of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// The first message.
    Plan(Box<Plan>),
    /// The supervisor knows that the keeper holds, and is ready to start the command.
    Ready,
    /// The command runs in this process group.
    Started { group: i32 },
    /// No command was started, or it has ended and no process of its group is left. Nothing needs to be held any more.
    Over,
}

/// A message of the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// The keeper holds.
    Held {
        /// The fencing token; `None` for a barrier, which does not exclude others.
        token: Option<i64>,
        /// The session timeout that the servers granted, in milliseconds.
        timeout_ms: u64,
    },
    /// The command may be started.
    Start,
    /// Another client asks the keeper to release.
    Revoked,
    /// The keeper no longer holds.
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

    /// Sends a message. If the other process is gone, [`hear`](Self::hear) shows it.
    pub async fn say(&mut self, message: &impl Serialize) {
        let Ok(mut line) = serde_json::to_string(message) else { return };
        line.push('\n');
        // Messages are few and short, so this never waits for the other side.
        let _ = self.out.write_all(line.as_bytes()).await;
    }

    /// Tells the other process that no more messages follow.
    pub async fn finish(&mut self) {
        let _ = self.out.shutdown().await;
    }

    /// Returns the next message; `None` once the other process is gone. Cancel safe.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = self.lines.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }
}
