//! What the network does: it carries messages, holds them, and cuts connections.

use crate::testing::ensemble::wire::{Message, Request};
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ConnId, Millis};

impl World {
    fn latency(&mut self, group: u32) -> Millis {
        let latency = self.options.latency.clone();
        self.random.u64(latency) + self.faults.delay(group)
    }

    /// How long a message takes between two servers.
    pub(crate) fn link(&mut self) -> Millis {
        if self.replicas.len() == 1 {
            return 0;
        }
        let link = self.options.link.clone();
        self.random.u64(link)
    }

    /// Sends from the client.
    pub(crate) fn send_up(&mut self, id: ConnId, request: Request) {
        let Some(group) = self.conns.get(&id).map(|conn| conn.group) else {
            return;
        };
        let arrival = self.now + self.latency(group);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let at = conn.go_up(arrival);
        self.schedule(at, Event::Up(id, request));
    }

    /// Sends from the server, unless its end is closed.
    pub(crate) fn send_down(&mut self, id: ConnId, message: Message) {
        let Some(group) = self.conns.get(&id).filter(|conn| conn.open).map(|conn| conn.group) else {
            return;
        };
        let arrival = self.now + self.latency(group);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let at = conn.go_down(arrival);
        self.schedule(at, Event::Down(id, message));
    }

    /// Keeps a message that came to a black hole, as TCP would send it again; returns it if there is none.
    pub(crate) fn hold_up(&mut self, id: ConnId, request: Request) -> Option<Request> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(request);
        }
        conn.held_up.push(request);
        None
    }

    /// As `hold_up`, for the other direction.
    pub(crate) fn hold_down(&mut self, id: ConnId, message: Message) -> Option<Message> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(message);
        }
        conn.held_down.push(message);
        None
    }

    /// Lets everything go that is held and need not be any more.
    pub(crate) fn release_held(&mut self) {
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if self.faults.is_black_hole(conn.group) {
                continue;
            }
            let (up, down) = conn.take_held();
            let (now, group) = (self.now, conn.group);
            for request in up {
                self.schedule(now, Event::Up(id, request));
            }
            let down = down.into_iter().map(|message| Event::Down(id, message));
            match self.frozen.get_mut(&group) {
                // They came before it was frozen, so before all that waits for the thaw.
                Some(waiting) => drop(waiting.splice(0..0, down)),
                None => down.for_each(|message| self.schedule(now, message)),
            }
        }
    }

    /// Closes the client's end. By chance all that was sent still arrives, or only a part of it.
    pub(crate) fn hang_up(&mut self, id: ConnId) {
        let partly = self.random.bool();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.deaf = true;
            if partly && !conn.is_cut() {
                conn.cut_up(&mut self.random);
            }
        }
        self.send_up(id, Request::Fin);
    }

    /// Closes the server's end; the client reads what was sent before.
    pub(crate) fn server_close(&mut self, id: ConnId) {
        self.send_down(id, Message::Closed);
        self.shut(id);
    }

    /// Cuts a connection at both ends at once: answers under way are lost, and of the requests under way some arrive.
    pub(crate) fn cut(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else {
            return;
        };
        conn.deaf = true;
        conn.cut_up(&mut self.random);
        self.shut(id);
        self.schedule(self.now, Event::Broken(id));
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
