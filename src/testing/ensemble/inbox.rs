//! The bytes that have arrived at the client's end of a connection.

use std::io;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use crate::util::mutex::Mutex;

/// How a connection has ended, for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The server has closed it: the client still reads what was sent before.
    Closed,
    /// It was cut: what was not read is lost.
    Reset,
}

/// The bytes that have arrived for a client and are not read yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Arrived>);

#[derive(Debug, Default)]
struct Arrived {
    bytes: BytesMut,
    end: Option<End>,
    reader: Option<Waker>,
}

impl Inbox {
    /// Adds the bytes that `write` appends, and wakes the reader.
    pub(crate) fn receive(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut arrived = self.0.lock();
        write(&mut arrived.bytes);
        wake(arrived.reader.take());
    }

    /// Returns how many bytes are not read yet.
    pub(crate) fn unread(&self) -> usize {
        self.0.lock().bytes.len()
    }

    pub(crate) fn end(&self, end: End) {
        let mut arrived = self.0.lock();
        if end == End::Reset {
            arrived.bytes = BytesMut::new();
        }
        arrived.end.get_or_insert(end);
        wake(arrived.reader.take());
    }

    /// Waits for the end only. Nothing may wait in `poll_read` meanwhile, because only one waker is kept.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<End> {
        let mut arrived = self.0.lock();
        if arrived.end.is_none() {
            arrived.reader = Some(cx.waker().clone());
        }
        arrived.end.map_or(Poll::Pending, Poll::Ready)
    }

    /// Reads no more than `most` bytes.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, most: usize, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut arrived = self.0.lock();
        let length = arrived.bytes.len().min(into.remaining()).min(most);
        if length > 0 {
            into.put_slice(arrived.bytes.get(..length).unwrap_or_default());
            arrived.bytes.advance(length);
            return Poll::Ready(Ok(()));
        }
        match arrived.end {
            Some(End::Closed) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                arrived.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
