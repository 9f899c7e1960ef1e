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
use crate::testing::ensemble::log::Happening;
use crate::testing::ensemble::wire::{Loss, Message, Outcome, Request};
use crate::testing::ensemble::world::{Event, World};

/// How often TCP sends the first packet of a connection again.
const AGAIN: Millis = 1_000;

impl World {
    /// The first packet of a connection.
    pub(crate) fn dial(&mut self, dial: Dial) {
        let Dial { group, server, .. } = dial;
        if self.over || dial.connected.is_closed() {
            return;
        }
        // By chance it came through just before.
        if self.faults.is_black_hole(group) && self.random.u8(..4) > 0 {
            self.schedule(self.now + AGAIN, Event::Dial(dial));
            return;
        }
        let Some((id, _)) = self.accept(group, server, inside(group)) else {
            dial.connected.send(Err(io::ErrorKind::ConnectionRefused.into())).ok();
            return;
        };
        // A delay is one of messages: so a request that is late is one that was written.
        let latency = self.options.latency.clone();
        let at = self.now + self.random.u64(latency);
        self.schedule(at, Event::Dialled(id, dial.connected));
    }

    /// A server takes a connection, unless it refuses.
    pub(crate) fn accept(&mut self, group: u32, server: usize, peer: SocketAddr) -> Option<(ConnId, Arc<Inbox>)> {
        if self.over || !self.running || self.faults.refuses(group) || server >= self.replicas.len() {
            return None;
        }
        let (id, conn) = (self.next_id(), Conn::new(group, server, peer, self.now));
        let inbox = Arc::clone(&conn.inbox);
        self.conns.insert(id, conn);
        Some((id, inbox))
    }

    /// The client hears that the connection stands.
    pub(crate) fn dialled(&mut self, id: ConnId, connected: oneshot::Sender<io::Result<ConnId>>) {
        if connected.send(Ok(id)).is_err() {
            self.hang_up(id);
        }
    }

    /// The client writes on its connection.
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
            let (session, group) = (conn.welcomed, conn.group);
            if let Some(kind) = incoming.request.kind() {
                self.log.request(self.now, session, group, kind, incoming.request.path());
            }
            self.send_up(id, incoming);
        }
        Ok(bytes.len())
    }

    /// A message from the server arrives.
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
            Message::Event { path, event, .. } => self.log.event(now, conn.welcomed, group, *event, path),
            Message::Answer { outcome: Outcome::Connected { session, .. }, .. } => {
                conn.welcomed = *session;
                self.log.note(now, *session, Happening::Connected);
            }
            Message::Answer { outcome: Outcome::Expired, .. } => self.log.note(now, conn.asked, Happening::Expired),
            Message::Answer { outcome: Outcome::Goodbye, loss, .. } if *loss != Some(Loss::Truncated) => {
                let session = std::mem::take(&mut conn.welcomed);
                self.log.note(now, session, Happening::Closed);
            }
            Message::Answer { .. } => {}
        }
        conn.inbox.receive(|bytes| {
            // No message is as long as a frame can be.
            codec::encode(&message, |session| options.password(session), bytes).ok();
        });
    }

    /// The client's end is closed.
    pub(crate) fn ended(&mut self, id: ConnId, end: End) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else { return };
        conn.deaf = true;
        conn.inbox.end(end);
        if conn.welcomed != 0 {
            self.log.note(self.now, conn.welcomed, Happening::Disconnected);
        }
    }

    /// Resumes a session on a connection whose answers are ignored, to a server to which its client is not connected,
    /// unless that was done before. Returns whether the session is there.
    #[cfg(test)]
    pub(crate) fn take_over(&mut self, session: i64) -> bool {
        let Some(group) = self.leader.sessions.get(&session).map(|known| known.group) else { return false };
        let other = self.conns.iter().find(|(_, conn)| conn.group == group && conn.open && conn.deaf);
        if let Some((other, _)) = other {
            return self.leader.sessions.get(&session).is_some_and(|known| known.conn == *other);
        }
        let taken = self.conns.values().find(|conn| conn.welcomed == session).map(|conn| conn.replica);
        let server = (0..self.replicas.len()).find(|server| Some(*server) != taken).expect("another server");
        let id = self.next_id();
        let mut conn = Conn::new(group, server, inside(group), self.now);
        conn.deaf = true;
        self.conns.insert(id, conn);
        let password = Secret(self.options.password(session).to_vec());
        let timeout = self.leader.sessions.get(&session).map_or(0, |known| known.timeout);
        self.send_up(id, unframed(Request::Connect { session, password, timeout, last_zxid: 0 }));
        false
    }
}

/// What stands for the address of a client in this process, which has none: its number as the port.
fn inside(group: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(group).unwrap_or(u16::MAX)))
}
