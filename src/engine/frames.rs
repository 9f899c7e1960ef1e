//! Cuts a byte stream into frames. No announced length is trusted before its bytes have arrived.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

const PREFIX: usize = 4;
/// The first byte of a TLS alert, before the version.
const TLS_ALERT: u8 = 21;
/// The length of a reply header, which names the request that it answers.
const HEADER: usize = 16;
/// The minimum buffer space for one read.
const CHUNK: usize = 4 * 1024;
/// A larger buffer is freed when it is empty.
const KEPT: usize = 256 * 1024;

/// A frame as received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Whole(Bytes),
    /// Longer than the limit. Only its first 16 bytes are kept; the rest is skipped.
    TooLong {
        head: Bytes,
        length: usize,
    },
}

/// Reads one connection.
pub(crate) struct Frames {
    read: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    /// How many bytes of a frame that is too long are still to be skipped.
    skip: usize,
    pub(crate) limit: usize,
}

impl Frames {
    pub(crate) fn new(read: Box<dyn AsyncRead + Send + Unpin>, limit: usize) -> Self {
        Frames { read, buffer: BytesMut::new(), skip: 0, limit }
    }

    /// Returns the next frame that has arrived: whole, or the head of one that is too long.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.drop_skipped();
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let Ok(length) = usize::try_from(length) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes was announced")));
        };
        if length > self.limit.max(HEADER) {
            if self.buffer.len() < PREFIX + HEADER {
                return Ok(None);
            }
            self.buffer.advance(PREFIX);
            let head = self.buffer.split_to(HEADER).freeze();
            self.skip = length - HEADER;
            self.drop_skipped();
            return Ok(Some(Frame::TooLong { head, length }));
        }
        if self.buffer.len() - PREFIX < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(Frame::Whole(self.buffer.split_to(length).freeze())))
    }

    fn drop_skipped(&mut self) {
        let here = self.skip.min(self.buffer.len());
        self.buffer.advance(here);
        self.skip -= here;
    }

    /// Reads the available bytes. Returns their number, 0 at the end of the stream.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        if self.buffer.capacity() - self.buffer.len() < CHUNK {
            // The buffer grows with the bytes that have arrived, whatever length was announced.
            self.buffer.reserve(4 * CHUNK);
        }
        poll_read_buf(Pin::new(&mut self.read), cx, &mut self.buffer)
    }

    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.buffer.capacity()
    }

    /// Waits for the first frame of a connection. A length above the limit means another protocol, and is an error at
    /// once, without waiting for more bytes: a TLS alert has only seven.
    pub(crate) async fn receive_first(&mut self) -> io::Result<Option<Frame>> {
        while self.buffer.len() < PREFIX {
            if std::future::poll_fn(|cx| self.poll_fill(cx)).await? == 0 {
                return Ok(None);
            }
        }
        match self.buffer.first_chunk::<PREFIX>() {
            Some([TLS_ALERT, 3, ..]) => {
                let why = "the server speaks TLS on this port: encrypt the connection, or use its port without TLS";
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
            Some(prefix) if usize::try_from(i32::from_be_bytes(*prefix)).is_ok_and(|length| length > self.limit) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the response to the handshake is not ZooKeeper's"))
            }
            _ => self.receive().await,
        }
    }

    /// Waits for the next frame. Returns `None` at the end of the stream.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Frame>> {
        std::future::poll_fn(|cx| {
            loop {
                if let Some(frame) = self.next()? {
                    return Poll::Ready(Ok(Some(frame)));
                }
                if ready!(self.poll_fill(cx))? == 0 {
                    return Poll::Ready(Ok(None));
                }
            }
        })
        .await
    }
}
