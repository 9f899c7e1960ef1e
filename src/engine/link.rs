//! The sending side of a session: requests become frames and wait for their answers, in order.
//!
//! A caller writes its request itself if nothing else waits to be written, unless many requests are in flight. What the
//! socket does not take at once is left to the session's task: only the task waits for the socket. Nothing here blocks,
//! and nothing needs a runtime.
//!
//! Locks are taken in this order: watches, `sending`, `sent`. No lock is held while an answer is delivered. Events are
//! delivered under the lock of the watches, as this only wakes tasks.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::task::AtomicWaker;
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;

use super::error::Error;
use super::lacking_operations::LackingOperations;
use super::outstanding::{Answer, Entry, Outstanding, WantedWatch};
use super::request_limit::RequestLimit;
use crate::protocol::{
    CloseSessionRequest, OpCode, PingRequest, RemoveWatchesRequest, Request, WatcherType, encode_request, xid,
};
use crate::util::clock::{Clock, Instant};
use crate::util::mutex::{Mutex, MutexGuard};

/// With this many requests in flight, callers leave further ones to the task, which writes them together.
const WRITTEN_BY_CALLERS: usize = 8;
/// The task combines waiting requests into writes of up to this size.
const WRITTEN_AT_ONCE: usize = 64 * 1024;
/// The length prefix of a frame. The length does not include it.
const PREFIX: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Down,
    Up,
    Over,
}

struct Sending<W> {
    gate: Gate,
    /// When the owner asked to close the session.
    closing: Option<Instant>,
    socket: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// The bytes being written. Their requests are in `sent`.
    out: BytesMut,
    /// The socket may still buffer bytes that it has taken.
    unflushed: bool,
    /// The requests to write after `out`. Their frames have no xid yet.
    waiting: VecDeque<(BytesMut, Entry<W>)>,
    /// No waiting request is written while this is above zero.
    corks: usize,
    latest_xid: i32,
    latest_write: Instant,
    /// When the latest ping was written, or the latest request that extends the session at all servers.
    latest_sign: Instant,
    /// The session timeout that the server granted on this connection.
    granted: Duration,
    broken: Option<io::Error>,
}

/// The requests that were outstanding when the connection was lost.
pub(crate) struct Interrupted<W> {
    /// Nothing was written after this moment.
    pub(crate) at: Instant,
    /// Requests that may have been carried out.
    sent: VecDeque<Entry<W>>,
    /// Requests that were never written.
    unsent: Vec<Entry<W>>,
}

impl<W> Interrupted<W> {
    /// Fails the requests: those that may have been carried out with `error`, the others as not connected.
    pub(crate) fn fail(self, error: Error) {
        for entry in self.sent {
            entry.fail(error.clone());
        }
        for entry in self.unsent {
            entry.fail(Error::NotConnected);
        }
    }
}

/// The times that the session's task checks when its timer fires.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkTimes {
    pub(crate) latest_write: Instant,
    /// The latest write of a ping, or of a request that extends the session at all servers.
    pub(crate) latest_sign: Instant,
    /// When the oldest unanswered request was written, pings included.
    pub(crate) oldest: Option<Instant>,
    pub(crate) ping_out: bool,
    pub(crate) closing: Option<Instant>,
}

/// The sending side of a session. `W` is the watch that a caller receives with an answer.
pub(crate) struct Link<W> {
    clock: Clock,
    limit: Arc<RequestLimit>,
    lacking: Arc<LackingOperations>,
    sending: Mutex<Sending<W>>,
    sent: Mutex<Outstanding<W>>,
    /// Wakes the session's task.
    pub(crate) task: AtomicWaker,
}

impl<W> fmt::Debug for Link<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl<W> Link<W> {
    pub(crate) fn new(clock: Clock, limit: Arc<RequestLimit>, lacking: Arc<LackingOperations>) -> Self {
        Link {
            clock,
            limit,
            lacking,
            sending: Mutex::new(Sending {
                gate: Gate::Down,
                closing: None,
                socket: None,
                out: BytesMut::new(),
                unflushed: false,
                waiting: VecDeque::new(),
                corks: 0,
                latest_xid: 0,
                latest_write: clock.now(),
                latest_sign: clock.now(),
                granted: Duration::ZERO,
                broken: None,
            }),
            sent: Mutex::new(Outstanding::new()),
            task: AtomicWaker::new(),
        }
    }

    /// Returns whether the servers lack an operation.
    pub(crate) fn lacks(&self, op: OpCode) -> bool {
        self.lacking.has(op)
    }

    /// Returns whether requests are accepted.
    pub(crate) fn is_open(&self) -> bool {
        let sending = self.sending.lock();
        sending.gate == Gate::Up && sending.closing.is_none()
    }

    /// Accepts a request, and writes it if no other request waits.
    pub(crate) fn hand_over(
        &self,
        request: &impl Request,
        watch: Option<WantedWatch>,
    ) -> Result<oneshot::Receiver<Answer<W>>, Error> {
        let frame = frame(request)?;
        let (reply, answer) = oneshot::channel();
        let mut sending = self.sending.lock();
        if sending.gate != Gate::Up || sending.closing.is_some() {
            return Err(Error::NotConnected);
        }
        let now = self.clock.now();
        if now >= sending.latest_write + sending.granted {
            // The process was suspended for so long that the session must have expired: the outcome of a request
            // written now would be unknown.
            self.task.wake();
            return Err(Error::NotConnected);
        }
        let mut entry = Entry::new(request.op(), frame.len() - PREFIX, sending.latest_write);
        self.limit.check(entry.length, now).map_err(Error::TooLarge)?;
        entry.needs = request.needs();
        if self.lacks(entry.needs) {
            return Err(Error::Unimplemented(entry.needs));
        }
        (entry.watch, entry.reply) = (watch, Some(reply));
        self.enqueue(&mut sending, frame, entry)?;
        Ok(answer)
    }

    /// Asks the server to remove a watch. The caller holds the lock of the watches, so that none is added meanwhile.
    /// Returns false if this is not possible now: there is no connection, too many requests wait, or a request that
    /// arms such a watch is not [settled](Self::settled) yet.
    pub(crate) fn remove_watch(&self, path: &Arc<str>, watcher: WatcherType) -> bool {
        if self.lacks(OpCode::RemoveWatches) {
            // The server keeps it until its next event, which no caller waits for.
            return true;
        }
        let Ok(frame) = frame(&RemoveWatchesRequest { path, watcher }) else { return false };
        let mut sending = self.sending.lock();
        if sending.gate != Gate::Up || sending.closing.is_some() || self.sent.lock().must_defer_removal(watcher, path) {
            return false;
        }
        let mut entry = Entry::new(OpCode::RemoveWatches, frame.len() - PREFIX, sending.latest_write);
        entry.removes = Some((watcher, Arc::clone(path)));
        self.enqueue(&mut sending, frame, entry).is_ok()
    }

    fn enqueue(
        &self,
        sending: &mut MutexGuard<'_, Sending<W>>,
        mut frame: BytesMut,
        mut entry: Entry<W>,
    ) -> Result<(), Error> {
        let idle =
            sending.out.is_empty() && sending.waiting.is_empty() && !sending.unflushed && sending.broken.is_none();
        let mut sent = self.sent.lock();
        sent.add(&entry)?;
        let corked = sending.corks > 0;
        if !idle || corked || sent.entries.len() >= WRITTEN_BY_CALLERS {
            sending.waiting.push_back((frame, entry));
            if idle && !corked {
                self.task.wake();
            }
            return Ok(());
        }
        let now = self.clock.now();
        sending.stamp(&mut frame, &mut entry, now);
        sent.entries.push_back(entry);
        drop(sent);
        sending.out = frame;
        self.write_by_caller(sending);
        Ok(())
    }

    /// Returns whether nothing is being written, and all that was written has been answered.
    pub(crate) fn is_idle(&self) -> bool {
        let sending = self.sending.lock();
        let sent = self.sent.lock();
        sending.out.is_empty() && !sending.unflushed && sent.entries.is_empty() && sent.ping.is_none()
    }

    /// Holds back the requests that callers hand over, until [`uncork`](Self::uncork).
    pub(crate) fn cork(&self) {
        self.sending.lock().corks += 1;
    }

    /// Undoes one [`cork`](Self::cork). After the last one, the requests that waited are written together.
    pub(crate) fn uncork(&self) {
        let mut sending = self.sending.lock();
        sending.corks = sending.corks.saturating_sub(1);
        // If the socket is busy, the task continues with the waiting requests.
        let idle = sending.out.is_empty() && !sending.unflushed && sending.broken.is_none();
        if sending.corks > 0 || !idle || sending.waiting.is_empty() {
            return;
        }
        if self.sent.lock().entries.len() < WRITTEN_BY_CALLERS {
            self.write_by_caller(&mut sending);
        } else {
            self.task.wake();
        }
    }

    /// Undoes one [`cork`](Self::cork), and leaves the requests that waited to the task: the connection may be lost.
    pub(crate) fn uncork_later(&self) {
        let mut sending = self.sending.lock();
        sending.corks = sending.corks.saturating_sub(1);
        self.task.wake();
    }

    /// Writes as much as the socket takes, without waiting for it.
    fn write_by_caller(&self, sending: &mut Sending<W>) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_write(sending, &mut cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                sending.broken = Some(error);
                self.task.wake();
            }
            Poll::Pending => self.task.wake(),
        }
    }

    /// Writes all bytes, waiting for the socket. Called by the task. Also returns the error of an earlier write by a
    /// caller.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sending = self.sending.lock();
        if let Some(error) = sending.broken.take() {
            return Poll::Ready(Err(error));
        }
        self.poll_write(&mut sending, cx)
    }

    fn poll_write(&self, sending: &mut Sending<W>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if sending.out.is_empty() && !sending.waiting.is_empty() && sending.corks == 0 {
                self.gather(sending, WRITTEN_AT_ONCE);
            }
            let Sending { socket: Some(socket), out, unflushed, .. } = &mut *sending else {
                return Poll::Ready(Ok(()));
            };
            if out.is_empty() {
                if *unflushed {
                    std::task::ready!(Pin::new(socket).poll_flush(cx))?;
                    *unflushed = false;
                }
                return Poll::Ready(Ok(()));
            }
            match std::task::ready!(Pin::new(socket).poll_write(cx, out))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => out.advance(written),
            }
            *unflushed = true;
        }
    }

    /// Moves waiting requests into `out`.
    fn gather(&self, sending: &mut Sending<W>, most: usize) {
        let now = self.clock.now();
        let mut sent = self.sent.lock();
        while sending.out.len() < most
            && let Some((mut frame, mut entry)) = sending.waiting.pop_front()
        {
            sending.stamp(&mut frame, &mut entry, now);
            sent.entries.push_back(entry);
            sending.out.unsplit(frame);
        }
    }

    /// Writes a ping, unless bytes are waiting to be written anyway.
    pub(crate) fn ping(&self) {
        let Ok(frame) = frame_as(xid::PING, &PingRequest {}) else { return };
        let mut sending = self.sending.lock();
        let now = self.clock.now();
        // Set even if no ping is written: bytes that wait for the socket serve as one.
        (sending.latest_write, sending.latest_sign) = (now, now);
        if sending.gate != Gate::Up || !sending.out.is_empty() || sending.broken.is_some() {
            return;
        }
        self.sent.lock().ping = Some(now);
        sending.out = frame;
        self.write_by_caller(&mut sending);
    }

    /// Takes the time at which the answered ping was sent.
    pub(crate) fn take_ping(&self) -> Option<Instant> {
        self.sent.lock().ping.take()
    }

    pub(crate) fn times(&self) -> LinkTimes {
        let sending = self.sending.lock();
        let sent = self.sent.lock();
        let oldest = sent.entries.front().map(|entry| entry.sent);
        LinkTimes {
            latest_write: sending.latest_write,
            latest_sign: sending.latest_sign,
            oldest: [oldest, sent.ping].into_iter().flatten().min(),
            ping_out: sent.ping.is_some(),
            closing: sending.closing,
        }
    }

    /// Takes the oldest request, which the server answers next, if it has this xid.
    pub(crate) fn take_answered(&self, xid: i32) -> Option<Entry<W>> {
        let mut sent = self.sent.lock();
        let answered = if sent.entries.front()?.xid == xid { sent.entries.pop_front() } else { None };
        answered.inspect(|entry| {
            self.limit.answered(entry.length);
            self.lacking.answered(entry.needs);
        })
    }

    /// Records that the server ended the connection. A request in flight may be the cause: the longest one may exceed
    /// the server's limit, or the server may not know an operation.
    pub(crate) fn ended_by_server(&self) {
        let (sent, now) = (self.sent.lock(), self.clock.now());
        let longest = sent.entries.iter().map(|entry| entry.length).max();
        self.limit.ended(longest.unwrap_or_default(), now);
        self.lacking.ended(sent.entries.iter().map(|entry| entry.needs), now);
    }

    /// Puts back a request whose answer does not count. It fails with the connection.
    pub(crate) fn put_back(&self, entry: Entry<W>) {
        self.sent.lock().entries.push_front(entry);
    }

    /// Stops counting a request that was answered in full and whose watch is in the table.
    pub(crate) fn settled(&self, entry: &Entry<W>) {
        self.sent.lock().remove(entry);
    }

    /// Starts to accept requests, on a new connection. `latest_xid` is the last xid used on it. If the session is being
    /// closed, sends the close.
    pub(crate) fn up(&self, socket: Box<dyn AsyncWrite + Send + Unpin>, latest_xid: i32, granted: Duration) {
        let mut sending = self.sending.lock();
        sending.granted = granted;
        sending.gate = Gate::Up;
        sending.socket = Some(socket);
        sending.latest_xid = latest_xid;
        let now = self.clock.now();
        (sending.latest_write, sending.latest_sign) = (now, now);
        if sending.closing.is_some() {
            self.send_close(&mut sending);
        }
    }

    /// Stops accepting requests: the connection is lost.
    pub(crate) fn down(&self) -> Interrupted<W> {
        let mut sending = self.sending.lock();
        if sending.gate == Gate::Up {
            sending.gate = Gate::Down;
        }
        sending.out = BytesMut::new();
        (sending.unflushed, sending.broken) = (false, None);
        let unsent = sending.waiting.drain(..).map(|(_, entry)| entry).collect();
        let at = self.clock.now();
        let sent = std::mem::replace(&mut *self.sent.lock(), Outstanding::new()).entries;
        let socket = sending.socket.take();
        drop(sending);
        drop(socket);
        Interrupted { at, sent, unsent }
    }

    /// Stops accepting requests permanently: the session has ended.
    pub(crate) fn over(&self) -> Interrupted<W> {
        self.sending.lock().gate = Gate::Over;
        self.down()
    }

    /// Closes the session. The requests that were handed over before are still written and answered; the close follows
    /// them.
    pub(crate) fn close(&self) {
        let mut sending = self.sending.lock();
        if sending.gate == Gate::Over || sending.closing.is_some() {
            return;
        }
        sending.closing = Some(self.clock.now());
        self.gather(&mut sending, usize::MAX);
        if sending.gate == Gate::Up {
            self.send_close(&mut sending);
        }
        drop(sending);
        self.task.wake();
    }

    /// Returns when the owner asked to close the session.
    pub(crate) fn closing(&self) -> Option<Instant> {
        self.sending.lock().closing
    }

    fn send_close(&self, sending: &mut Sending<W>) {
        let Ok(mut frame) = frame(&CloseSessionRequest {}) else { return };
        let mut entry = Entry::new(OpCode::CloseSession, frame.len() - PREFIX, sending.latest_write);
        sending.stamp(&mut frame, &mut entry, self.clock.now());
        self.sent.lock().entries.push_back(entry);
        sending.out.unsplit(frame);
        if sending.broken.is_none() {
            self.write_by_caller(sending);
        }
    }
}

impl<W> Sending<W> {
    /// Assigns the xid of a request just before it is written.
    fn stamp(&mut self, frame: &mut BytesMut, entry: &mut Entry<W>, now: Instant) {
        self.latest_xid = next_xid(self.latest_xid);
        (entry.xid, entry.sent, self.latest_write) = (self.latest_xid, now, now);
        if entry.proof().is_some() {
            self.latest_sign = now;
        }
        // The xid follows the length.
        if let Some(place) = frame.get_mut(PREFIX..PREFIX + 4) {
            place.copy_from_slice(&entry.xid.to_be_bytes());
        }
    }
}

/// Returns the next xid. Ordinary requests use no number below 1.
pub(crate) fn next_xid(latest: i32) -> i32 {
    latest.checked_add(1).unwrap_or(1)
}

fn frame(request: &impl Request) -> Result<BytesMut, Error> {
    frame_as(0, request)
}

fn frame_as(xid: i32, request: &impl Request) -> Result<BytesMut, Error> {
    let mut frame = BytesMut::with_capacity(128);
    let encoded = encode_request(xid, request, usize::MAX, &mut frame);
    encoded.map_err(|error| Error::BadArguments(error.to_string()))?;
    Ok(frame)
}
