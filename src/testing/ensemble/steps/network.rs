//! The network: carries messages, holds them, and cuts connections.

use crate::testing::ensemble::connection::{Conn, unframed};
use crate::testing::ensemble::inbox::End;
use crate::testing::ensemble::wire::{Incoming, Message, Request};
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ConnId, Millis};

/// The most bytes that a server keeps for a client that does not read. If there are more, it cuts the connection.
pub(crate) const MOST_UNREAD: usize = 64 * 1024 * 1024;

impl World {
    /// Returns how long the next message of a connection takes. The delay lever affects sessions, not four-letter
    /// words, so that a late request is one that was written.
    fn latency(&mut self, id: ConnId) -> Option<Millis> {
        let conn = self.conns.get(&id)?;
        let delay = if conn.is_asked() { 0 } else { self.faults.delay(conn.group) };
        let latency = self.options.latency.clone();
        Some(self.random.u64(latency) + delay)
    }

    /// Returns whether no more requests are read for now from a client outside this process. All others wait while its
    /// requests are answered, so few may be under way at once; more if messages take time.
    pub(crate) fn is_throttled(&self, id: ConnId) -> bool {
        let takes_time = |group| *self.options.latency.end() > 0 || self.faults.delay(group) > 0;
        let most = |conn: &Conn| if takes_time(conn.group) { 256 } else { 16 };
        self.conns.get(&id).is_some_and(|conn| conn.is_throttled(most(conn)))
    }

    /// Returns how long a message takes between two servers.
    pub(crate) fn link(&mut self) -> Millis {
        if self.replicas.len() == 1 {
            return 0;
        }
        let link = self.options.link.clone();
        self.random.u64(link)
    }

    /// Sends a request from the client.
    pub(crate) fn send_up(&mut self, id: ConnId, request: Incoming) {
        let Some(latency) = self.latency(id) else { return };
        let arrival = self.now + latency;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let at = conn.go_up(arrival);
        self.schedule(at, Event::Up(id, request));
    }

    /// Sends a message from the server, unless the server's end is closed.
    pub(crate) fn send_down(&mut self, id: ConnId, message: Message) {
        if !self.conns.get(&id).is_some_and(|conn| conn.open) {
            return;
        }
        let Some(latency) = self.latency(id) else { return };
        let arrival = self.now + latency;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let at = conn.go_down(arrival);
        conn.due += message.length();
        if conn.due + conn.inbox.unread() > MOST_UNREAD {
            // Checked before the message is encoded, because it may refer to the same data many times.
            self.cut(id);
            return;
        }
        self.schedule(at, Event::Down(id, message));
    }

    /// Holds a request in a black hole, because TCP would retransmit it later; otherwise returns it.
    pub(crate) fn hold_up(&mut self, id: ConnId, request: Incoming) -> Option<Incoming> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(request);
        }
        conn.held_up.push(request);
        None
    }

    /// Does the same as `hold_up` in the other direction.
    pub(crate) fn hold_down(&mut self, id: ConnId, message: Message) -> Option<Message> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(message);
        }
        conn.held_down.push(message);
        None
    }

    /// Releases all messages that need no longer be held.
    pub(crate) fn release_held(&mut self) {
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if self.faults.is_black_hole(conn.group) {
                continue;
            }
            let (up, down) = conn.take_held();
            let now = self.now;
            for request in up {
                self.schedule(now, Event::Up(id, request));
            }
            for message in down {
                self.schedule(now, Event::Down(id, message));
            }
        }
    }

    /// Closes the client's end. At random, all or only a part of what was sent still arrives.
    pub(crate) fn hang_up(&mut self, id: ConnId) {
        let partly = self.random.bool();
        self.ended(id, End::Closed);
        if let Some(conn) = self.conns.get_mut(&id)
            && partly
            && !conn.is_cut()
        {
            conn.cut_up(&mut self.random);
        }
        self.send_up(id, unframed(Request::Fin));
    }

    /// Closes the server's end; the client still reads what was sent before.
    pub(crate) fn server_close(&mut self, id: ConnId) {
        self.send_down(id, Message::Closed);
        self.shut(id);
    }

    /// Cuts a connection at both ends at once: answers in flight are lost, and some of the requests in flight arrive.
    pub(crate) fn cut(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else {
            return;
        };
        conn.cut_up(&mut self.random);
        self.shut(id);
        self.ended(id, End::Reset);
    }

    fn shut(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.open = false;
        conn.slots.clear();
        if let Some(replica) = self.replicas.get_mut(conn.replica) {
            replica.watches.forget(id);
        }
    }
}
