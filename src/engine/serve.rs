//! Serves a connection that takes requests: reads answers and events, writes what callers could not write, and detects
//! when the server falls silent.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;

use super::connect::cause;
use super::departure::{Departure, Leave};
use super::error::Error;
use super::frames::{Frame, Frames};
use super::handshake::silent;
use super::link::LinkTimes;
use super::observer::Proof;
use super::outstanding::Entry;
use super::refusal::refusal;
use super::shared::{HeldWatch, Shared};
use super::state::{SessionEnd, SessionState};
use crate::protocol::{AnyResponse, Decode, ErrorCode, Malformed, OpCode, Reader, ReplyHeader, WatcherEvent, xid};
use crate::util::clock::Instant;

/// The longest idle time of a connection, whatever the session timeout: network devices may drop an idle connection.
const LONGEST_IDLE: Duration = Duration::from_secs(10);

/// Why a connection is no longer served.
pub(crate) enum End {
    Lost(String),
    /// This client leaves the server.
    Left(Leave),
    Session(SessionEnd),
}

impl From<Malformed> for End {
    fn from(error: Malformed) -> Self {
        End::Lost(error.to_string())
    }
}

/// A connection that is no longer served.
pub(crate) struct Served {
    pub(crate) host: usize,
    /// It has answered something.
    pub(crate) is_usable: bool,
    pub(crate) end: End,
    /// May hold requests back, which must not be written any more.
    pub(crate) departure: Option<Departure>,
}

pub(crate) struct Serving<'a> {
    state: &'a mut SessionState,
    frames: Frames,
    host: usize,
    is_usable: bool,
    granted: Duration,
    /// How long the connection may be idle before a ping is sent.
    idle: Duration,
    /// How long the server may be silent while an answer is outstanding.
    patience: Duration,
    latest_read: Instant,
    timer: Pin<Box<Sleep>>,
    departure: Option<Departure>,
}

impl<'a> Serving<'a> {
    pub(crate) fn new(
        state: &'a mut SessionState,
        frames: Frames,
        latest_read: Instant,
        host: usize,
        is_usable: bool,
        departure: Option<Departure>,
    ) -> Self {
        let granted = state.shared.timeout();
        let patience = state.environment.options.silence(state.shortest);
        let idle = (state.shortest / 3).min(LONGEST_IDLE);
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Serving { state, frames, host, is_usable, granted, idle, patience, latest_read, timer, departure }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self) -> Served {
        let end = std::future::poll_fn(|cx| self.poll(cx)).await;
        Served { host: self.host, is_usable: self.is_usable, end, departure: self.departure }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        // Comes first, so that requests that callers enqueue from here on wake the task.
        self.state.shared.link.task.register(cx.waker());
        if let Err(end) = self.read(cx) {
            return Poll::Ready(end);
        }
        // A write error counts only after reading: answers may have arrived before the server closed the connection.
        if let Poll::Ready(Err(error)) = self.state.shared.link.poll_flush(cx) {
            return Poll::Ready(self.failed(&error));
        }
        if let Poll::Ready(end) = self.poll_timer(cx) {
            return Poll::Ready(end);
        }
        // Comes last: requests that were held back must not be written on a connection that is lost.
        let Some(departure) = &mut self.departure else { return Poll::Pending };
        departure.poll(cx).map(End::Left)
    }

    /// Reads until nothing more is available.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        loop {
            while let Some(frame) = self.frames.next().map_err(|error| End::Lost(error.to_string()))? {
                self.state.last_contact = self.latest_read;
                self.take(frame)?;
            }
            match self.frames.poll_fill(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(read) => {
                    self.latest_read = self.state.environment.now();
                    match read {
                        Ok(0) => return Err(self.closed("the server closed the connection".to_owned())),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                            return Err(self.closed(cause(&error)));
                        }
                        Err(error) => return Err(self.failed(&error)),
                    }
                }
            }
        }
    }

    /// Handles a connection that the server closed or reset. This counts as contact.
    fn closed(&mut self, cause: String) -> End {
        self.state.last_contact = self.latest_read;
        self.state.shared.link.ended_by_server();
        // The server also closes it after a session has ended, and the answer that says so may be lost.
        End::Lost(cause)
    }

    /// Handles an error of the socket. It may be the first sign that the server has ended the connection.
    fn failed(&self, error: &io::Error) -> End {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
            self.state.shared.link.ended_by_server();
        }
        End::Lost(cause(error))
    }

    fn take(&mut self, frame: Frame) -> Result<(), End> {
        match frame {
            Frame::Whole(frame) => self.take_whole(&frame),
            Frame::TooLong { head, length } => self.take_too_long(&head, length),
        }
    }

    fn take_whole(&mut self, frame: &Bytes) -> Result<(), End> {
        let mut from = Reader::new(frame);
        let header = ReplyHeader::decode(&mut from)?;
        // Must come before a caller gets the answer.
        self.state.shared.zxid.fetch_max(header.zxid, Ordering::Relaxed);
        if header.err == ErrorCode::SessionClosedRequireSaslAuth {
            return Err(End::Session(SessionEnd::AuthFailed));
        }
        match header.xid {
            xid::NOTIFICATION => {
                let event = WatcherEvent::decode(&mut from)?;
                self.state.shared.fire(&event);
                return Ok(());
            }
            xid::PING => {
                if let Some(sent) = self.state.shared.link.take_ping() {
                    self.state.observer.answered(sent, Proof::Contact);
                }
            }
            xid::AUTH if header.err == ErrorCode::AuthFailed => return Err(End::Session(SessionEnd::AuthFailed)),
            xid::AUTH | xid::SET_WATCHES => {}
            _ => self.take_answer(&header, from)?,
        }
        self.seen(header.zxid);
        Ok(())
    }

    /// Records the server's latest transaction. All events up to it have been received.
    fn seen(&mut self, zxid: i64) {
        self.state.identity.zxid = self.state.identity.zxid.max(zxid);
        if !self.is_usable {
            self.is_usable = true;
            self.state.environment.mark_usable(self.host);
        }
    }

    fn take_answer(&mut self, header: &ReplyHeader, mut from: Reader<'_>) -> Result<(), End> {
        let link = &self.state.shared.link;
        let Some(entry) = link.take_answered(header.xid) else {
            return Err(End::Lost(format!("the answer to request {} arrived out of order", header.xid)));
        };
        let outcome = match header.err {
            // An undecodable answer fails only its request: the frames after it are still readable.
            ErrorCode::Ok => {
                AnyResponse::decode(entry.op, &mut from).map_err(|error| Error::Undecodable(error.to_string()))
            }
            // The next connection shows the state of the session.
            ErrorCode::SessionMoved | ErrorCode::SessionExpired => {
                link.put_back(entry);
                return Err(End::Lost(format!("the server no longer serves the session ({:?})", header.err)));
            }
            code => Err(refusal(code, entry.needs)),
        };
        if entry.op == OpCode::CloseSession {
            return Err(End::Session(SessionEnd::Closed));
        }
        if let Some(proof) = entry.proof().filter(|_| is_proof(&outcome)) {
            self.state.observer.answered(entry.sent, proof);
        }
        let shared = &self.state.shared;
        let armed = self.armed(&entry, header.err);
        shared.settled(&entry);
        if let (ErrorCode::MarshallingError, Some((watcher, path))) = (header.err, &entry.removes)
            && watcher.is_persistent()
        {
            shared.remove_any(path);
        }
        entry.answer(outcome, armed);
        Ok(())
    }

    /// Returns the watch that the server has set with this answer.
    fn armed(&self, entry: &Entry<HeldWatch>, code: ErrorCode) -> Option<HeldWatch> {
        let wanted = entry.watch.as_ref()?;
        let kind = wanted.armed_by(entry.op, code)?;
        Some(Shared::arm(&self.state.shared, kind, &wanted.path))
    }

    /// Handles a frame that is too long: fails only the request that it answers.
    fn take_too_long(&mut self, head: &Bytes, length: usize) -> Result<(), End> {
        let header = ReplyHeader::from_frame(head)?;
        let Some(entry) = self.state.shared.link.take_answered(header.xid) else {
            return Err(End::Lost(format!("received a frame of {length} bytes that answers no request")));
        };
        // The server has set the watch. The caller drops it with the error, which removes it there.
        let armed = self.armed(&entry, header.err);
        self.state.shared.settled(&entry);
        let limit = self.frames.limit;
        entry.answer(Err(Error::AnswerTooLong { length, limit }), armed);
        self.seen(header.zxid);
        Ok(())
    }

    /// Sends pings when they are due, and detects a silent server.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = self.state.environment.now();
            let times = self.state.shared.link.times();
            if times.closing.is_some_and(|asked| now >= asked + self.granted) {
                return Poll::Ready(End::Session(SessionEnd::Closed));
            }
            if times.oldest.is_some_and(|oldest| now >= oldest.max(self.latest_read) + self.patience) {
                return Poll::Ready(End::Lost(silent(self.patience)));
            }
            if times.oldest.is_some_and(|oldest| now >= self.unanswered_until(oldest)) {
                return Poll::Ready(End::Lost(format!("no complete answer for {:?}", self.granted)));
            }
            if now >= times.latest_write + self.granted {
                // The process was suspended and the session must have expired: nothing more is written on this
                // connection.
                return Poll::Ready(End::Lost(format!("nothing was written for {:?}", self.granted)));
            }
            if !times.ping_out && now >= times.latest_sign + self.idle {
                self.state.shared.link.ping();
            }
            let wait = self.next_check(now);
            self.timer.as_mut().reset(tokio::time::Instant::now() + wait);
        }
        Poll::Pending
    }

    /// Returns when the oldest request must have been answered. Bytes alone do not keep a connection alive: while an
    /// answer trickles in, no other request is answered.
    fn unanswered_until(&self, oldest: Instant) -> Instant {
        oldest.max(self.state.last_contact) + self.granted
    }

    /// Returns how long to wait until the next check. What callers write in the meantime makes nothing due earlier.
    fn next_check(&self, now: Instant) -> Duration {
        let LinkTimes { latest_sign, oldest, ping_out, closing, .. } = self.state.shared.link.times();
        let silence = oldest.map_or(now, |oldest| oldest.max(self.latest_read)) + self.patience;
        // An outstanding ping may be answered by then, and the next one due: checks once more at that time.
        let ping = Some(latest_sign + self.idle).filter(|due| !ping_out || *due > now);
        let end = closing.map(|asked| asked + self.granted);
        let unanswered = oldest.map(|oldest| self.unanswered_until(oldest));
        let first = [Some(silence), ping, end, unanswered].into_iter().flatten().min().unwrap_or(now);
        first.since(now).max(Duration::from_millis(1))
    }
}

/// Returns whether the ensemble decided this outcome.
fn is_proof(outcome: &Result<AnyResponse, Error>) -> bool {
    match outcome {
        Ok(AnyResponse::Multi(multi)) => {
            multi.refused().is_none_or(|(_, code)| refusal(code, OpCode::Multi).is_verdict())
        }
        Ok(_) => true,
        Err(error) => error.is_verdict(),
    }
}
