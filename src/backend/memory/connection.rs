//! One connection between a client and a server: a line of messages each way, and what a cut does to them.

use std::collections::VecDeque;

use super::wire::{Message, Operation, Request};
use super::world::{Event, World};
use super::{ClientId, ConnId, Millis};

/// A request that the server has taken in. Answers leave in this order.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) ticket: u64,
    pub(super) kind: Option<Operation>,
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    /// Answered by this server when its turn comes.
    Local(Request),
    /// Waits for the leader.
    Remote,
    Answered(Message),
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) client: ClientId,
    pub(super) group: u32,
    pub(super) replica: usize,
    /// 0 until the server has accepted it.
    pub(super) session: i64,
    /// The session timeout that its server has granted on it.
    pub(super) timeout: Millis,
    /// The server's end.
    pub(super) open: bool,
    /// The client's end is closed: nothing reaches it.
    pub(super) deaf: bool,
    /// After a cut: how many of the requests under way still arrive.
    survivors: Option<usize>,
    under_way: usize,
    last_up: Millis,
    last_down: Millis,
    held_up: Vec<Request>,
    held_down: Vec<Message>,
    pub(super) slots: VecDeque<Slot>,
}

impl Conn {
    pub(super) fn new(client: ClientId, group: u32, replica: usize) -> Self {
        Conn {
            client,
            group,
            replica,
            session: 0,
            timeout: 0,
            open: true,
            deaf: false,
            survivors: None,
            under_way: 0,
            last_up: 0,
            last_down: 0,
            held_up: Vec::new(),
            held_down: Vec::new(),
            slots: VecDeque::new(),
        }
    }

    /// Whether a request that arrives now was read by the server.
    pub(super) fn admit(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        match &mut self.survivors {
            None => self.open,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

impl World {
    pub(super) fn latency(&mut self, group: u32) -> Millis {
        let latency = self.options.latency.clone();
        self.random.u64(latency) + self.faults.delay(group)
    }

    /// Sends from the client.
    pub(super) fn send_up(&mut self, id: ConnId, request: Request) {
        let Some(group) = self.conns.get(&id).map(|conn| conn.group) else {
            return;
        };
        let arrival = self.now + self.latency(group);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.last_up = conn.last_up.max(arrival);
        conn.under_way += 1;
        let at = conn.last_up;
        self.schedule(at, Event::Up(id, request));
    }

    /// Sends from the server, unless its end is closed.
    pub(super) fn send_down(&mut self, id: ConnId, message: Message) {
        let Some(group) = self.conns.get(&id).filter(|conn| conn.open).map(|conn| conn.group) else {
            return;
        };
        let arrival = self.now + self.latency(group);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.last_down = conn.last_down.max(arrival);
        let at = conn.last_down;
        self.schedule(at, Event::Down(id, message));
    }

    /// Keeps a message that came to a black hole, as TCP would send it again; returns it if there is none.
    pub(super) fn hold_up(&mut self, id: ConnId, request: Request) -> Option<Request> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(request);
        }
        conn.held_up.push(request);
        None
    }

    /// As `hold_up`, for the other direction.
    pub(super) fn hold_down(&mut self, id: ConnId, message: Message) -> Option<Message> {
        let conn = self.conns.get_mut(&id)?;
        if !self.faults.is_black_hole(conn.group) {
            return Some(message);
        }
        conn.held_down.push(message);
        None
    }

    /// Lets everything go that is held and need not be any more.
    pub(super) fn release_held(&mut self) {
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if self.faults.is_black_hole(conn.group) {
                continue;
            }
            let (up, down) = (std::mem::take(&mut conn.held_up), std::mem::take(&mut conn.held_down));
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
    pub(super) fn hang_up(&mut self, id: ConnId) {
        let partly = self.random.bool();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.deaf = true;
            if conn.survivors.is_none() && partly {
                conn.survivors = Some(self.random.usize(..conn.under_way + 1));
            }
        }
        self.send_up(id, Request::Fin);
    }

    /// Closes the server's end; the client reads what was sent before.
    pub(super) fn server_close(&mut self, id: ConnId) {
        self.send_down(id, Message::Closed);
        self.shut(id);
    }

    /// Cuts a connection at both ends at once: answers under way are lost, and of the requests under way some arrive.
    pub(super) fn cut(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| !conn.deaf) else {
            return;
        };
        conn.deaf = true;
        conn.survivors = Some(self.random.usize(..conn.under_way + 1));
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
