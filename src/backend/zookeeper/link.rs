//! The sending side of a session: requests become frames and wait for their answers, in order.
//!
//! A caller that finds nothing else to be written writes by itself, unless many requests are under way; what the socket does
//! not take at once is left to the session's task, which alone waits for it. Nothing here blocks, and nothing needs a runtime.
//!
//! Locks are taken in this order: watches, `write`, `sent`. None is held while an answer is handed over.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::task::AtomicWaker;
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;

use super::lock;
use super::watches::Kind;
use crate::backend::{Error, Proof};
use crate::clock::{Clock, Instant};
use crate::protocol::{
    AnyResponse, CloseSessionRequest, ErrorCode, OpCode, PingRequest, RemoveWatchesRequest, Request, WatcherType,
    encode_request, xid,
};

/// More requests, or bytes of requests, without an answer are refused.
const MOST_REQUESTS: usize = 64 * 1024;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// With as many requests under way a further one is not written by its caller: the task writes all that come meanwhile at once.
const WRITTEN_BY_CALLERS: usize = 8;
/// What waited is put together up to this size.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

/// What a caller gets: the answer, and the watch that it armed.
pub(super) struct Answer<W> {
    pub(super) outcome: Result<AnyResponse, Error>,
    pub(super) watch: Option<W>,
}

/// The watch that a request arms.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    pub(super) path: Arc<str>,
}

impl Asked {
    /// The kind of watch that is armed after an answer of this code: `exists` leaves one on a missing node as well.
    pub(super) fn armed_by(&self, op: OpCode, code: ErrorCode) -> Option<Kind> {
        match (op, code) {
            (_, ErrorCode::Ok) => Some(self.kind),
            (OpCode::Exists, ErrorCode::NoNode) => Some(Kind::Exist),
            _ => None,
        }
    }
}

/// A request without an answer yet.
pub(super) struct Entry<W> {
    pub(super) xid: i32,
    pub(super) op: OpCode,
    pub(super) sent: Instant,
    pub(super) watch: Option<Asked>,
    /// The watch that it removes.
    pub(super) removes: Option<(WatcherType, Arc<str>)>,
    reply: Option<oneshot::Sender<Answer<W>>>,
    length: usize,
}

impl<W> Entry<W> {
    /// What an answer to it proves.
    pub(super) fn proof(&self) -> Proof {
        match self.op {
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::Multi => Proof::Quorum,
            OpCode::Sync => Proof::Leader,
            _ => Proof::Contact,
        }
    }

    pub(super) fn answer(self, outcome: Result<AnyResponse, Error>, watch: Option<W>) {
        if let Some(reply) = self.reply {
            // Who does not wait any more drops the watch with it.
            reply.send(Answer { outcome, watch }).ok();
        }
    }

    pub(super) fn fail(self, error: Error) {
        self.answer(Err(error), None);
    }

    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_none_or(|reply| !reply.is_closed())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Down,
    Up,
    Over,
}

struct Sending<W> {
    gate: Gate,
    /// When the owner asked for the end.
    closing: Option<Instant>,
    socket: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Bytes on their way, of requests that are in `sent`.
    out: BytesMut,
    /// A layer below may keep what it has taken.
    unflushed: bool,
    /// Behind `out`: frames without their xid.
    waiting: VecDeque<(BytesMut, Entry<W>)>,
    latest_xid: i32,
    latest_write: Instant,
    /// The session timeout of the connection.
    granted: Duration,
    broken: Option<io::Error>,
}

struct Sent<W> {
    entries: VecDeque<Entry<W>>,
    ping: Option<Instant>,
    /// Handed over and not answered, with those that wait to be written.
    requests: usize,
    bytes: usize,
    /// Watches that are being armed, by what the server will keep.
    asked: HashMap<(WatcherType, Arc<str>), usize>,
}

impl<W> Sent<W> {
    fn add(&mut self, entry: &Entry<W>) -> Result<(), Error> {
        let too_long = self.bytes > 0 && self.bytes + entry.length > MOST_BYTES;
        if too_long || self.requests >= MOST_REQUESTS {
            return Err(Error::Throttled);
        }
        self.requests += 1;
        self.bytes += entry.length;
        if let Some(Asked { kind, path }) = &entry.watch {
            *self.asked.entry((kind.at_server(), Arc::clone(path))).or_default() += 1;
        }
        Ok(())
    }

    /// Whether a request that is under way arms a watch that would go with this one.
    fn arms(&self, watcher: WatcherType, path: &Arc<str>) -> bool {
        let goes = |other: &WatcherType| {
            *other == watcher
                || watcher == WatcherType::Any
                || Kind::PERSISTENT.iter().any(|kind| kind.at_server() == *other)
        };
        let kept = Kind::ALL.into_iter().map(Kind::at_server);
        !self.asked.is_empty() && kept.filter(goes).any(|other| self.asked.contains_key(&(other, Arc::clone(path))))
    }

    fn remove(&mut self, length: usize, watch: Option<&Asked>) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(length);
        let Some(Asked { kind, path }) = watch else { return };
        let key = (kind.at_server(), Arc::clone(path));
        if let Some(count) = self.asked.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&key);
            }
        }
    }
}

/// What was under way when the connection went.
pub(super) struct Interrupted<W> {
    /// Nothing was written after this moment.
    pub(super) at: Instant,
    /// May have been carried out.
    pub(super) sent: VecDeque<Entry<W>>,
    /// Was never written.
    pub(super) unsent: Vec<Entry<W>>,
}

/// The first of several reasons to look at the connection, for the timer of the session's task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    pub(super) latest_write: Instant,
    /// When the oldest request without an answer was written, pings included.
    pub(super) oldest: Option<Instant>,
    pub(super) ping_out: bool,
    pub(super) closing: Option<Instant>,
}

/// `W` is what a holder gets for a watch.
pub(super) struct Link<W> {
    clock: Clock,
    sending: Mutex<Sending<W>>,
    sent: Mutex<Sent<W>>,
    /// The session's task.
    pub(super) task: AtomicWaker,
}

impl<W> fmt::Debug for Link<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl<W> Link<W> {
    pub(super) fn new(clock: Clock) -> Self {
        Link {
            clock,
            sending: Mutex::new(Sending {
                gate: Gate::Down,
                closing: None,
                socket: None,
                out: BytesMut::new(),
                unflushed: false,
                waiting: VecDeque::new(),
                latest_xid: 0,
                latest_write: clock.now(),
                granted: Duration::ZERO,
                broken: None,
            }),
            sent: Mutex::new(Sent {
                entries: VecDeque::new(),
                ping: None,
                requests: 0,
                bytes: 0,
                asked: HashMap::new(),
            }),
            task: AtomicWaker::new(),
        }
    }

    /// Whether a request would be taken.
    pub(super) fn is_open(&self) -> bool {
        let sending = lock(&self.sending);
        sending.gate == Gate::Up && sending.closing.is_none()
    }

    /// Takes a request, and writes it if nothing is before it.
    pub(super) fn hand_over(
        &self,
        request: &impl Request,
        watch: Option<Asked>,
    ) -> Result<oneshot::Receiver<Answer<W>>, Error> {
        let frame = frame(request)?;
        let (reply, answer) = oneshot::channel();
        let mut sending = lock(&self.sending);
        if sending.gate != Gate::Up || sending.closing.is_some() {
            return Err(Error::NotConnected);
        }
        if self.clock.now() >= sending.latest_write + sending.granted {
            // After such a pause, of the process, the session cannot live: what is written would be of unknown outcome.
            self.task.wake();
            return Err(Error::NotConnected);
        }
        let mut entry = self.entry(request.op(), &sending, &frame);
        (entry.watch, entry.reply) = (watch, Some(reply));
        self.enqueue(&mut sending, frame, entry)?;
        Ok(answer)
    }

    /// Asks the server to forget a watch, unless a request that is under way arms the same one: then it stays, and its event
    /// concerns nobody. The caller holds the lock of the watches, so that none is added meanwhile. Tells whether there is a
    /// connection.
    pub(super) fn remove_watch(&self, path: &Arc<str>, watcher: WatcherType) -> bool {
        let Ok(frame) = frame(&RemoveWatchesRequest { path, watcher }) else { return true };
        let mut sending = lock(&self.sending);
        if sending.gate != Gate::Up || sending.closing.is_some() {
            return false;
        }
        if lock(&self.sent).arms(watcher, path) {
            return true;
        }
        let mut entry = self.entry(OpCode::RemoveWatches, &sending, &frame);
        entry.removes = Some((watcher, Arc::clone(path)));
        // Where too much is waiting the watch stays.
        self.enqueue(&mut sending, frame, entry).ok();
        true
    }

    fn entry(&self, op: OpCode, sending: &Sending<W>, frame: &BytesMut) -> Entry<W> {
        let (sent, length) = (sending.latest_write, frame.len());
        Entry { xid: 0, op, sent, watch: None, removes: None, reply: None, length }
    }

    fn enqueue(
        &self,
        sending: &mut MutexGuard<'_, Sending<W>>,
        mut frame: BytesMut,
        mut entry: Entry<W>,
    ) -> Result<(), Error> {
        let idle =
            sending.out.is_empty() && sending.waiting.is_empty() && !sending.unflushed && sending.broken.is_none();
        let mut sent = lock(&self.sent);
        sent.add(&entry)?;
        if !idle || sent.entries.len() >= WRITTEN_BY_CALLERS {
            sending.waiting.push_back((frame, entry));
            if idle {
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

    /// Writes all there is; the task's way, which waits for the socket. An error is one of this or of an earlier write.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sending = lock(&self.sending);
        if let Some(error) = sending.broken.take() {
            return Poll::Ready(Err(error));
        }
        self.poll_write(&mut sending, cx)
    }

    fn poll_write(&self, sending: &mut Sending<W>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if sending.out.is_empty() && !sending.waiting.is_empty() {
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

    /// Moves what waits into `out`. What is not wanted any more is left out.
    fn gather(&self, sending: &mut Sending<W>, most: usize) {
        let now = self.clock.now();
        let mut sent = lock(&self.sent);
        while sending.out.len() < most
            && let Some((mut frame, mut entry)) = sending.waiting.pop_front()
        {
            if !entry.is_wanted() {
                sent.remove(entry.length, entry.watch.as_ref());
                continue;
            }
            sending.stamp(&mut frame, &mut entry, now);
            sent.entries.push_back(entry);
            sending.out.unsplit(frame);
        }
    }

    /// Writes a ping, unless bytes are waiting to be written anyway.
    pub(super) fn ping(&self) {
        let Ok(frame) = frame_as(xid::PING, &PingRequest {}) else { return };
        let mut sending = lock(&self.sending);
        let now = self.clock.now();
        sending.latest_write = now;
        if sending.gate != Gate::Up || !sending.out.is_empty() || sending.broken.is_some() {
            return;
        }
        lock(&self.sent).ping = Some(now);
        sending.out = frame;
        self.write_by_caller(&mut sending);
    }

    /// The ping that was answered.
    pub(super) fn take_ping(&self) -> Option<Instant> {
        lock(&self.sent).ping.take()
    }

    pub(super) fn pulse(&self) -> Pulse {
        let sending = lock(&self.sending);
        let sent = lock(&self.sent);
        let oldest = sent.entries.front().map(|entry| entry.sent);
        Pulse {
            latest_write: sending.latest_write,
            oldest: [oldest, sent.ping].into_iter().flatten().min(),
            ping_out: sent.ping.is_some(),
            closing: sending.closing,
        }
    }

    /// The request that is answered next, if it has this number.
    pub(super) fn take_answered(&self, xid: i32) -> Option<Entry<W>> {
        let mut sent = lock(&self.sent);
        if sent.entries.front().is_some_and(|entry| entry.xid == xid) { sent.entries.pop_front() } else { None }
    }

    /// Its answer is none: it fails with the connection.
    pub(super) fn put_back(&self, entry: Entry<W>) {
        lock(&self.sent).entries.push_front(entry);
    }

    /// That request is answered in full, its watch is in the table: it counts no longer.
    pub(super) fn settled(&self, entry: &Entry<W>) {
        lock(&self.sent).remove(entry.length, entry.watch.as_ref());
    }

    /// A new connection takes requests from now on; its latest xid is given. If the session is being closed, this is the
    /// first thing that is sent.
    pub(super) fn up(&self, socket: Box<dyn AsyncWrite + Send + Unpin>, latest_xid: i32, granted: Duration) {
        let mut sending = lock(&self.sending);
        sending.granted = granted;
        sending.gate = Gate::Up;
        sending.socket = Some(socket);
        sending.latest_xid = latest_xid;
        sending.latest_write = self.clock.now();
        if sending.closing.is_some() {
            self.send_close(&mut sending);
        }
    }

    /// The connection takes no more requests.
    pub(super) fn down(&self) -> Interrupted<W> {
        let mut sending = lock(&self.sending);
        if sending.gate == Gate::Up {
            sending.gate = Gate::Down;
        }
        sending.out = BytesMut::new();
        (sending.unflushed, sending.broken) = (false, None);
        let unsent = sending.waiting.drain(..).map(|(_, entry)| entry).collect();
        let at = self.clock.now();
        let mut sent = lock(&self.sent);
        let entries = std::mem::take(&mut sent.entries);
        (sent.requests, sent.bytes, sent.ping) = (0, 0, None);
        sent.asked.clear();
        drop(sent);
        let socket = sending.socket.take();
        drop(sending);
        drop(socket);
        Interrupted { at, sent: entries, unsent }
    }

    /// As `down`, for ever.
    pub(super) fn over(&self) -> Interrupted<W> {
        lock(&self.sending).gate = Gate::Over;
        self.down()
    }

    /// Ends the session: everything that has no answer fails, what was handed over is written all the same, and then the
    /// end. Tells whether it was not asked for before.
    pub(super) fn close(&self) -> bool {
        let mut sending = lock(&self.sending);
        if sending.gate == Gate::Over || sending.closing.is_some() {
            return false;
        }
        sending.closing = Some(self.clock.now());
        self.gather(&mut sending, usize::MAX);
        if sending.gate == Gate::Up {
            self.send_close(&mut sending);
        }
        let replies: Vec<_> = lock(&self.sent).entries.iter_mut().filter_map(|entry| entry.reply.take()).collect();
        drop(sending);
        for reply in replies {
            reply.send(Answer { outcome: Err(Error::SessionEnded), watch: None }).ok();
        }
        self.task.wake();
        true
    }

    /// When the owner asked for the end.
    pub(super) fn closing(&self) -> Option<Instant> {
        lock(&self.sending).closing
    }

    fn send_close(&self, sending: &mut Sending<W>) {
        let Ok(mut frame) = frame(&CloseSessionRequest {}) else { return };
        let mut entry = self.entry(OpCode::CloseSession, sending, &frame);
        sending.stamp(&mut frame, &mut entry, self.clock.now());
        lock(&self.sent).entries.push_back(entry);
        sending.out.unsplit(frame);
        if sending.broken.is_none() {
            self.write_by_caller(sending);
        }
    }
}

impl<W> Sending<W> {
    /// Gives a request its number, just before it is written.
    fn stamp(&mut self, frame: &mut BytesMut, entry: &mut Entry<W>, now: Instant) {
        self.latest_xid = next_xid(self.latest_xid);
        (entry.xid, entry.sent, self.latest_write) = (self.latest_xid, now, now);
        // Behind the length.
        if let Some(place) = frame.get_mut(4..8) {
            place.copy_from_slice(&entry.xid.to_be_bytes());
        }
    }
}

/// Numbers below 1 are not for ordinary requests.
pub(super) fn next_xid(latest: i32) -> i32 {
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
