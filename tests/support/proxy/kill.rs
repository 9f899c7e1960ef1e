//! Ending or moving a session behind its client's back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Session;
use super::wire::{self, CLOSE_SESSION, Framer, Piece};
use crate::support::waiting::eventually;

const PATIENCE: Duration = Duration::from_secs(30);
const ATTEMPT: Duration = Duration::from_secs(2);

/// Takes the session up on a connection of its own to the server and closes it; returns when the server has.
pub(super) async fn kill(server: SocketAddr, session: Session) {
    let what = format!("the server closes session {:#x}", session.id);
    // The client may take its session back in between: then once more.
    eventually(&what, PATIENCE, || async { matches!(timeout(ATTEMPT, attempt(server, &session)).await, Ok(Some(()))) })
        .await;
}

/// Takes the session up on a connection of its own to the server, and returns that connection.
pub(super) async fn take_over(server: SocketAddr, session: Session) -> TcpStream {
    let id = session.id;
    let taken = timeout(PATIENCE, async move {
        let mut connection = TcpStream::connect(server).await.ok()?;
        connection.write_all(&wire::connect_request(&session)).await.ok()?;
        let answer = wire::session(&next_frame(&mut connection, &mut Framer::default()).await?)?;
        (answer.id == session.id && answer.timeout_ms > 0).then_some(connection)
    });
    taken.await.ok().flatten().unwrap_or_else(|| panic!("{server} does not take session {id:#x} up"))
}

/// Nothing when the server broke the connection first.
async fn attempt(server: SocketAddr, session: &Session) -> Option<()> {
    const NUMBER: i32 = 1;
    let mut connection = TcpStream::connect(server).await.ok()?;
    connection.set_nodelay(true).ok()?;
    // Both at once, so that the client has no time to take the session back.
    let both = [wire::connect_request(session), wire::bare_request(NUMBER, CLOSE_SESSION)].concat();
    connection.write_all(&both).await.ok()?;
    let mut framer = Framer::default();
    if wire::session(&next_frame(&mut connection, &mut framer).await?)?.timeout_ms <= 0 {
        return Some(()); // it has expired before
    }
    while wire::answered(&next_frame(&mut connection, &mut framer).await?)? != NUMBER {}
    Some(())
}

async fn next_frame(connection: &mut TcpStream, framer: &mut Framer) -> Option<Vec<u8>> {
    let mut buffer = [0; 4096];
    loop {
        match framer.next() {
            Some(Piece::Frame(frame)) => return Some(frame),
            Some(Piece::Raw(_)) => return None,
            None => match connection.read(&mut buffer).await {
                Ok(count) if count > 0 => framer.feed(&buffer[..count]),
                _ => return None,
            },
        }
    }
}
