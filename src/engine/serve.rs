//! Serves a connection that takes requests: reads answers and events, writes what callers could not write, and detects
//! a silent server.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;

use super::connect::cause;
use super::error::Error;
use super::frames::{Frame, Frames};
use super::handshake::silent;
use super::link::Pulse;
use super::observer::Proof;
use super::refusal::refusal;
use super::shared::Shared;
use super::state::{SessionEnd, SessionState};
use crate::protocol::{AnyResponse, Decode, ErrorCode, Malformed, OpCode, Reader, ReplyHeader, WatcherEvent, xid};
use crate::util::clock::Instant;

/// The longest idle time of a connection, whatever the session timeout: devices on its path may forget it.
const LONGEST_IDLE: Duration = Duration::from_secs(10);

/// Why a connection is no longer served.
#[derive(Debug)]
pub(crate) enum End {
    Lost(String),
    Session(SessionEnd),
}

impl From<Malformed> for End {
    fn from(error: Malformed) -> Self {
        End::Lost(error.to_string())
    }
}

pub(crate) struct Serving<'a> {
    state: &'a mut SessionState,
    frames: Frames,
    host: usize,
    works: bool,
    granted: Duration,
    /// How long nothing may be written before a ping is sent.
    idle: Duration,
    /// How long the server may be silent while an answer is outstanding.
    patience: Duration,
    latest_read: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Serving<'a> {
    pub(crate) fn new(
        state: &'a mut SessionState,
        frames: Frames,
        latest_read: Instant,
        host: usize,
        works: bool,
    ) -> Self {
        let granted = state.shared.timeout();
        let patience = state.environment.options.silence(state.shortest);
        let idle = (state.shortest / 3).min(LONGEST_IDLE);
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Serving { state, frames, host, works, granted, idle, patience, latest_read, timer }
    }

    /// Serves the connection. Returns the host, and whether it answered anything.
    pub(crate) async fn run(mut self) -> (usize, bool, End) {
        let end = std::future::poll_fn(|cx| self.poll(cx)).await;
        (self.host, self.works, end)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        // First, so that requests which callers leave from here on wake the task.
        self.state.shared.link.task.register(cx.waker());
        if let Err(end) = self.read(cx) {
            return Poll::Ready(end);
        }
        // A write error counts only now: answers may have come before the server closed the connection.
        if let Poll::Ready(Err(error)) = self.state.shared.link.poll_flush(cx) {
            return Poll::Ready(self.failed(&error));
        }
        self.watch_the_time(cx)
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

    /// Handles a connection that the server closed or reset: that, too, is a contact.
    fn closed(&mut self, cause: String) -> End {
        self.state.last_contact = self.latest_read;
        self.state.shared.link.ended_by_server();
        // The server does so after the end of a session, and its answer may be lost then.
        End::Lost(cause)
    }

    /// Handles an error of the socket, which may be the first to show that the server has ended the connection.
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
        // Before a caller gets the answer.
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

    /// Records the server's latest transaction; it comes after all events that were received before.
    fn seen(&mut self, zxid: i64) {
        self.state.identity.zxid = self.state.identity.zxid.max(zxid);
        if !self.works {
            self.works = true;
            self.state.environment.works(self.host);
        }
    }

    fn take_answer(&mut self, header: &ReplyHeader, mut from: Reader<'_>) -> Result<(), End> {
        let link = &self.state.shared.link;
        let Some(entry) = link.take_answered(header.xid) else {
            return Err(End::Lost(format!("an answer to request {} came out of turn", header.xid)));
        };
        let outcome = match header.err {
            // The frames behind it can be read all the same.
            ErrorCode::Ok => {
                AnyResponse::decode(entry.op, &mut from).map_err(|error| Error::Undecodable(error.to_string()))
            }
            // The next connection shows the state of the session.
            ErrorCode::SessionMoved | ErrorCode::SessionExpired => {
                link.put_back(entry);
                return Err(End::Lost(format!("the server does not serve the session ({:?})", header.err)));
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
        let armed = entry.watch.as_ref().and_then(|asked| {
            let kind = asked.armed_by(entry.op, header.err)?;
            Some(Shared::arm(shared, kind, &asked.path))
        });
        shared.settled(&entry);
        if let (ErrorCode::MarshallingError, Some((watcher, path))) = (header.err, &entry.removes)
            && watcher.is_persistent()
        {
            shared.remove_any(path);
        }
        entry.answer(outcome, armed);
        Ok(())
    }

    /// Handles a frame that is too long: only the request that it belongs to fails.
    fn take_too_long(&mut self, head: &Bytes, length: usize) -> Result<(), End> {
        let header = ReplyHeader::from_frame(head)?;
        let Some(entry) = self.state.shared.link.take_answered(header.xid) else {
            return Err(End::Lost(format!("a frame of {length} bytes belongs to no request")));
        };
        self.state.shared.settled(&entry);
        let limit = self.frames.limit;
        entry.fail(Error::AnswerTooLong { length, limit });
        self.seen(header.zxid);
        Ok(())
    }

    /// Sends pings, and detects silence.
    fn watch_the_time(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = self.state.environment.now();
            let pulse = self.state.shared.link.pulse();
            if pulse.closing.is_some_and(|asked| now >= asked + self.granted) {
                return Poll::Ready(End::Session(SessionEnd::Closed));
            }
            if pulse.oldest.is_some_and(|oldest| now >= oldest.max(self.latest_read) + self.patience) {
                return Poll::Ready(End::Lost(silent(self.patience)));
            }
            if pulse.oldest.is_some_and(|oldest| now >= self.unanswered_until(oldest)) {
                return Poll::Ready(End::Lost(format!("no whole answer for {:?}", self.granted)));
            }
            if now >= pulse.latest_write + self.granted {
                // The process was stopped: the session cannot be alive, so nothing more is written on this connection.
                return Poll::Ready(End::Lost(format!("nothing was written for {:?}", self.granted)));
            }
            if !pulse.ping_out && now >= pulse.latest_sign + self.idle {
                self.state.shared.link.ping();
            }
            let wait = self.next_look(now);
            self.timer.as_mut().reset(tokio::time::Instant::now() + wait);
        }
        Poll::Pending
    }

    /// Bytes alone do not keep a connection for ever: an answer that trickles hides that nothing else is answered.
    fn unanswered_until(&self, oldest: Instant) -> Instant {
        oldest.max(self.state.last_contact) + self.granted
    }

    /// Returns how long nothing is due. What callers write meanwhile makes nothing due earlier than that.
    fn next_look(&self, now: Instant) -> Duration {
        let Pulse { latest_sign, oldest, ping_out, closing, .. } = self.state.shared.link.pulse();
        let silence = oldest.map_or(now, |oldest| oldest.max(self.latest_read)) + self.patience;
        // An outstanding ping is checked once more in that time: it may be answered by then, and the next one due.
        let ping = Some(latest_sign + self.idle).filter(|due| !ping_out || *due > now);
        let end = closing.map(|asked| asked + self.granted);
        let unanswered = oldest.map(|oldest| self.unanswered_until(oldest));
        let first = [Some(silence), ping, end, unanswered].into_iter().flatten().min().unwrap_or(now);
        first.since(now).max(Duration::from_millis(1))
    }
}

/// Returns whether an outcome was decided by the ensemble.
fn is_proof(outcome: &Result<AnyResponse, Error>) -> bool {
    match outcome {
        Ok(AnyResponse::Multi(multi)) => {
            multi.refused().is_none_or(|(_, code)| refusal(code, OpCode::Multi).is_verdict())
        }
        Ok(_) => true,
        Err(error) => error.is_verdict(),
    }
}
