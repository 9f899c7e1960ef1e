//! One connection between a client and a server: a queue of messages in each direction, and what a cut does to them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use fastrand::Rng;
use tokio::sync::oneshot;

use super::codec;
use super::identity::Identity;
use super::inbox::Inbox;
use super::wire::{Header, Incoming, Message, Operation, Outcome, Request};
use super::{ConnId, Millis};
use crate::protocol::OpCode;

/// While a client has this many unread bytes of answers, no more of its requests are read.
const THROTTLE_BYTES: usize = 1 << 20;
/// The number of bytes that hold the length of a frame.
const PREFIX: usize = 4;

/// A request that the server has accepted. Answers are sent in the order of the slots.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) ticket: u64,
    pub(crate) kind: Option<Operation>,
    pub(crate) header: Header,
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// Answered by this server when its turn comes.
    Local(Request),
    /// Waits for the leader.
    Remote,
    Answered(Outcome),
}

/// A client that waits for a connection.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) group: u32,
    pub(crate) server: usize,
    pub(crate) connected: oneshot::Sender<io::Result<ConnId>>,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) group: u32,
    pub(crate) replica: usize,
    /// The address of the client.
    pub(crate) peer: SocketAddr,
    /// Who sends its requests.
    pub(crate) identity: Arc<Identity>,
    /// When it was accepted.
    pub(crate) since: Millis,
    /// How many requests the server has read.
    pub(crate) received: u64,
    /// How many answers and events the server has sent.
    pub(crate) sent: u64,
    /// What has arrived at the client's end.
    pub(crate) inbox: Arc<Inbox>,
    /// The bytes of a frame that the client has not written completely.
    begun: BytesMut,
    /// Whether the client has written a whole first frame.
    is_greeted: bool,
    /// Whether the client has written an invalid frame or a four-letter word. Later bytes are ignored.
    is_spoilt: bool,
    /// 0 until the server has accepted it.
    pub(crate) session: i64,
    /// The session that the client requests.
    pub(crate) asked: i64,
    /// The session as the client knows it; 0 until the connect response has arrived, and after the close.
    pub(crate) known_as: i64,
    /// The session timeout that the server has granted on this connection.
    pub(crate) timeout: Millis,
    /// Whether the server's end is open.
    pub(crate) open: bool,
    /// Whether the client's end is closed, so that nothing reaches it.
    pub(crate) deaf: bool,
    /// After a cut: how many of the requests in flight still arrive.
    survivors: Option<usize>,
    under_way: usize,
    last_up: Millis,
    last_down: Millis,
    pub(crate) held_up: Vec<Incoming>,
    pub(crate) held_down: Vec<Message>,
    /// The bytes of the messages on their way to the client.
    pub(crate) due: usize,
    pub(crate) slots: VecDeque<Slot>,
    /// The requests that the client sent before the connect response.
    pub(crate) early: Vec<Incoming>,
}

impl Conn {
    pub(crate) fn new(group: u32, replica: usize, peer: SocketAddr, since: Millis) -> Self {
        Conn {
            group,
            replica,
            peer,
            identity: Arc::new(Identity::Client { address: peer.ip(), users: Vec::new() }),
            since,
            received: 0,
            sent: 0,
            inbox: Arc::default(),
            begun: BytesMut::new(),
            is_greeted: false,
            is_spoilt: false,
            session: 0,
            asked: 0,
            known_as: 0,
            timeout: 0,
            open: true,
            deaf: false,
            survivors: None,
            under_way: 0,
            last_up: 0,
            last_down: 0,
            held_up: Vec::new(),
            held_down: Vec::new(),
            due: 0,
            slots: VecDeque::new(),
            early: Vec::new(),
        }
    }

    /// Returns whether the client sent a four-letter word instead of opening a session.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_spoilt && !self.is_greeted
    }

    /// Accepts bytes from the client.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if !self.is_spoilt {
            self.begun.extend_from_slice(bytes);
        }
    }

    /// Returns the next request that the client has written completely. One longer than `most` bytes is garbage.
    pub(crate) fn next(&mut self, most: usize) -> Option<Incoming> {
        let prefix = *self.begun.first_chunk::<PREFIX>()?;
        if !self.is_greeted && prefix.iter().all(u8::is_ascii_lowercase) {
            self.is_spoilt = true;
            self.begun.clear();
            return Some(unframed(Request::Word(prefix)));
        }
        let Some(length) = usize::try_from(i32::from_be_bytes(prefix)).ok().filter(|length| *length <= most) else {
            return Some(self.spoil());
        };
        if self.begun.len() < PREFIX + length {
            return None;
        }
        self.begun.advance(PREFIX);
        let frame: Bytes = self.begun.split_to(length).freeze();
        let read = if std::mem::replace(&mut self.is_greeted, true) { codec::request } else { codec::connect };
        Some(read(&frame).unwrap_or_else(|_| self.spoil()))
    }

    fn spoil(&mut self) -> Incoming {
        self.is_spoilt = true;
        self.begun.clear();
        unframed(Request::Garbage)
    }

    fn unanswered(&self) -> usize {
        self.under_way + self.slots.len() + self.early.len()
    }

    fn unread(&self) -> usize {
        self.due + self.inbox.unread()
    }

    /// Returns whether the client sends requests faster than they are answered, so that more than `most` are
    /// unanswered, or faster than it reads the answers.
    pub(crate) fn is_throttled(&self, most: usize) -> bool {
        self.unanswered() > most || self.unread() > THROTTLE_BYTES
    }

    /// Returns whether the client waits for an answer, or for the bytes of one.
    pub(crate) fn has_pending_answers(&self) -> bool {
        self.unanswered() + self.unread() > 0
    }

    /// Returns when the next request arrives: no earlier than those before it.
    pub(crate) fn go_up(&mut self, arrival: Millis) -> Millis {
        self.under_way += 1;
        self.last_up = self.last_up.max(arrival);
        self.last_up
    }

    /// Returns when the next message to the client arrives: no earlier than those before it.
    pub(crate) fn go_down(&mut self, arrival: Millis) -> Millis {
        self.sent += 1;
        self.last_down = self.last_down.max(arrival);
        self.last_down
    }

    /// Cuts the direction to the server: only some of the requests in flight still arrive.
    pub(crate) fn cut_up(&mut self, random: &mut Rng) {
        self.survivors = Some(random.usize(..self.under_way + 1));
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.survivors.is_some()
    }

    /// Takes the messages that a black hole has held, in each direction.
    pub(crate) fn take_held(&mut self) -> (Vec<Incoming>, Vec<Message>) {
        (std::mem::take(&mut self.held_up), std::mem::take(&mut self.held_down))
    }

    /// Records that a request has arrived. Returns whether the server reads it.
    pub(crate) fn admit(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        let is_read = match &mut self.survivors {
            None => self.open,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        };
        self.received += u64::from(is_read);
        is_read
    }
}

/// Wraps a request that has no frame.
pub(crate) fn unframed(request: Request) -> Incoming {
    let header = Header { xid: 0, op: OpCode::Notification, steps: Vec::new(), path: String::new() };
    Incoming { header, request }
}
