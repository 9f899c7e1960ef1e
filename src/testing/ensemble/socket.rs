//! The client's end of a connection: a stream of bytes, as the engine knows it from TCP.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ConnId;
use super::connection::Conn;
use super::inbox::{End, Inbox};
use super::shared::Shared;

/// The bytes of a piece if they are split: fewer than a reply's header has, and not a divisor of its length.
const PIECE: usize = 7;

/// Closes the client's end when both halves are dropped.
#[derive(Debug)]
struct Hold {
    shared: Arc<Shared>,
    conn: ConnId,
    /// The most bytes that are read or written at once.
    most: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.hang_up(self.conn);
    }
}

/// The half that the client reads.
#[derive(Debug)]
pub(crate) struct ReadHalf {
    inbox: Arc<Inbox>,
    hold: Arc<Hold>,
}

/// The half that the client writes.
#[derive(Debug)]
pub(crate) struct WriteHalf(Arc<Hold>);

/// What the servers know about a connection, for the code that carries its bytes.
#[derive(Debug)]
pub(crate) struct Connection(Arc<Hold>);

impl Connection {
    pub(crate) fn has_session(&self) -> bool {
        self.knows(|conn| conn.session != 0)
    }

    /// Returns whether the client sends requests faster than they are answered, or faster than it reads the answers.
    pub(crate) fn is_throttled(&self) -> bool {
        self.0.shared.with(|world| world.is_throttled(self.0.conn))
    }

    /// Returns whether the client waits for an answer, or for the bytes of one.
    pub(crate) fn has_pending_answers(&self) -> bool {
        self.knows(Conn::has_pending_answers)
    }

    fn knows(&self, holds: impl Fn(&Conn) -> bool) -> bool {
        self.0.shared.with(|world| world.conns.get(&self.0.conn).is_some_and(holds))
    }
}

/// Returns both halves.
pub(crate) fn halves(shared: Arc<Shared>, conn: ConnId, inbox: Arc<Inbox>) -> (ReadHalf, WriteHalf) {
    let most = shared.with(|world| if world.options.split_bytes { PIECE } else { usize::MAX });
    let hold = Arc::new(Hold { shared, conn, most });
    (ReadHalf { inbox, hold: Arc::clone(&hold) }, WriteHalf(hold))
}

impl ReadHalf {
    pub(crate) fn connection(&self) -> Connection {
        Connection(Arc::clone(&self.hold))
    }

    /// Completes when the connection has ended for the client, even if it has not read everything.
    pub(crate) fn ended(&self) -> impl Future<Output = End> + use<'_> {
        poll_fn(|cx| self.inbox.poll_end(cx))
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inbox.poll_read(cx, self.hold.most, into)
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Hold { shared, conn, most } = &*self.0;
        let taken = bytes.get(..*most).unwrap_or(bytes);
        Poll::Ready(shared.with(|world| world.written(*conn, taken)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
