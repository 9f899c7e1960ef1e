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
use super::world::World;

/// The bytes of a piece, where they are split: fewer than a header has, and not a part of it.
const PIECE: usize = 7;

/// Closes the client's end when both halves are dropped.
#[derive(Debug)]
struct Hold {
    shared: Arc<Shared>,
    conn: ConnId,
    /// So many bytes are read or written at once, at most.
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

/// Returns both halves.
pub(crate) fn halves(shared: Arc<Shared>, conn: ConnId, inbox: Arc<Inbox>) -> (ReadHalf, WriteHalf) {
    let most = shared.with(|world| if world.options.split_bytes { PIECE } else { usize::MAX });
    let hold = Arc::new(Hold { shared, conn, most });
    (ReadHalf { inbox, hold: Arc::clone(&hold) }, WriteHalf(hold))
}

impl ReadHalf {
    /// Returns a check of whether the connection has a session.
    pub(crate) fn session_check(&self) -> impl Fn() -> bool + use<> {
        self.check(|world, conn| world.conns.get(&conn).is_some_and(|conn| conn.session != 0))
    }

    /// Returns a check of whether the client asks faster than it reads, or than it is answered.
    pub(crate) fn ahead_check(&self) -> impl Fn() -> bool + use<> {
        self.check(World::is_ahead)
    }

    /// Returns a check of whether the client is still owed an answer, or the bytes of one.
    pub(crate) fn owed_check(&self) -> impl Fn() -> bool + use<> {
        self.check(|world, conn| world.conns.get(&conn).is_some_and(Conn::is_owed))
    }

    fn check<C: Fn(&World, ConnId) -> bool>(&self, holds: C) -> impl Fn() -> bool + use<C> {
        let hold = Arc::clone(&self.hold);
        move || hold.shared.with(|world| holds(world, hold.conn))
    }

    /// Completes when the connection has ended for the client, whatever it has not read.
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
