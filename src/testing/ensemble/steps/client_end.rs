//! The client's end of connections: how one is made, what the client writes on it, and what reaches it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::oneshot;

#[cfg(test)]
use crate::protocol::Secret;
use crate::testing::ensemble::ConnId;
use crate::testing::ensemble::Millis;
use crate::testing::ensemble::codec;
#[cfg(test)]
use crate::testing::ensemble::connection::unframed;
use crate::testing::ensemble::connection::{Conn, Dial};
use crate::testing::ensemble::inbox::{End, Inbox};
use crate::testing::ensemble::log::RecordKind;
use crate::testing::ensemble::wire::{Loss, Message, Outcome, Request};
use crate::testing::ensemble::world::{Event, World};

/// How often TCP retransmits the first packet of a connection.
const AGAIN: Millis = 1_000;

impl World {
    /// Sends the first packet of a connection.
    pub(crate) fn dial(&mut self, dial: Dial) {
        let Dial { group, server, .. } = dial;
        if self.over || dial.connected.is_closed() {
            return;
        }
        // One packet in four gets through, as if it came just before the black hole.
        if self.faults.is_black_hole(group) && self.random.u8(..4) > 0 {
            self.schedule(self.now + AGAIN, Event::Dial(dial));
            return;
        }
        let Some((id, _)) = self.accept(group, server, inside(group)) else {
            dial.connected.send(Err(io::ErrorKind::ConnectionRefused.into())).ok();
            return;
        };
        // The delay lever affects only messages, so that a late request is one that was written.
        let latency = self.options.latency.clone();
        let at = self.now + self.random.u64(latency);
        self.schedule(at, Event::Dialled(id, dial.connected));
    }

    /// Accepts a connection at a server; `None` if it is refused.
    pub(crate) fn accept(&mut self, group: u32, server: usize, peer: SocketAddr) -> Option<(ConnId, Arc<Inbox>)> {
        if self.over || !self.running || self.faults.refuses(group) || server >= self.replicas.len() {
            return None;
        }
        let (id, conn) = (self.next_id(), Conn::new(group, server, peer, self.now));
        let inbox = Arc::clone(&conn.inbox);
        self.conns.insert(id, conn);
        Some((id, inbox))
    }

    /// Reports to the client that its connection is established.
    pub(crate) fn dialled(&mut self, id: ConnId, connected: oneshot::Sender<io::Result<ConnId>>) {
        if connected.send(Ok(id)).is_err() {
            self.hang_up(id);
        }
    }

    /// Takes the bytes that the client writes on its connection.
    pub(crate) fn written(&mut self, id: ConnId, bytes: &[u8]) -> io::Result<usize> {
        let most = self.options.max_buffer;
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        conn.write(bytes);
        while let Some(conn) = self.conns.get_mut(&id)
            && let Some(incoming) = conn.next(most)
        {
            if let Request::Connect { session, .. } = &incoming.request {
                conn.asked = *session;
            }
            let (session, group) = (conn.known_as, conn.group);
            if let Some(kind) = incoming.request.kind() {
                self.log.request(self.now, session, group, kind, incoming.request.path());
            }
            self.send_up(id, incoming);
        }
        Ok(bytes.len())
    }

    /// Handles the arrival of a message from the server.
    pub(crate) fn deliver(&mut self, id: ConnId, message: Message) {
        let Some(message) = self.hold_down(id, message) else { return };
        let (now, options) = (self.now, &self.options);
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else { return };
        let group = conn.group;
        conn.due = conn.due.saturating_sub(message.length());
        match &message {
            Message::Closed => {
                self.ended(id, End::Closed);
                return;
            }
            Message::Event { path, event, .. } => self.log.event(now, conn.known_as, group, *event, path),
            Message::Answer { outcome: Outcome::Connected { session, .. }, .. } => {
                conn.known_as = *session;
                self.log.note(now, *session, RecordKind::Connected);
            }
            Message::Answer { outcome: Outcome::Expired, .. } => self.log.note(now, conn.asked, RecordKind::Expired),
            Message::Answer { outcome: Outcome::Goodbye, loss, .. } if *loss != Some(Loss::Truncated) => {
                let session = std::mem::take(&mut conn.known_as);
                self.log.note(now, session, RecordKind::Closed);
            }
            Message::Answer { .. } => {}
        }
        conn.inbox.receive(|bytes| {
            // Cannot fail, because no message exceeds the length of a frame.
            codec::encode(&message, |session| options.password(session), bytes).ok();
        });
    }

    /// Closes the client's end.
    pub(crate) fn ended(&mut self, id: ConnId, end: End) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else { return };
        conn.deaf = true;
        conn.inbox.end(end);
        if conn.known_as != 0 {
            self.log.note(self.now, conn.known_as, RecordKind::Disconnected);
        }
    }

    /// Resumes a session on a connection whose answers are ignored, to a server to which its client is not connected,
    /// unless an earlier call did so. Returns whether an earlier call has moved it.
    #[cfg(test)]
    pub(crate) fn take_over(&mut self, session: i64) -> bool {
        let Some(group) = self.leader.sessions.get(&session).map(|known| known.group) else { return false };
        let other = self.conns.iter().find(|(_, conn)| conn.group == group && conn.open && conn.deaf);
        if let Some((other, _)) = other {
            return self.leader.sessions.get(&session).is_some_and(|known| known.conn == *other);
        }
        let taken = self.conns.values().find(|conn| conn.known_as == session).map(|conn| conn.replica);
        let server = (0..self.replicas.len()).find(|server| Some(*server) != taken).expect("another server");
        let id = self.next_id();
        let mut conn = Conn::new(group, server, inside(group), self.now);
        conn.deaf = true;
        self.conns.insert(id, conn);
        let password = Secret(self.options.password(session).to_vec());
        let timeout = self.leader.sessions.get(&session).map_or(0, |known| known.timeout);
        self.send_up(id, unframed(Request::Connect { session, password, timeout, last_zxid: 0, read_only: false }));
        false
    }
}

/// Returns an address for a client in this process, which has none: its number is the port.
fn inside(group: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(group).unwrap_or(u16::MAX)))
}
