//! One connection between a client and a server: a line of messages each way, and what a cut does to them.

use std::collections::VecDeque;

use fastrand::Rng;

use super::wire::{Message, Operation, Request};
use super::{ClientId, Millis};

/// A request that the server has taken in. Answers leave in this order.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) ticket: u64,
    pub(crate) kind: Option<Operation>,
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// Answered by this server when its turn comes.
    Local(Request),
    /// Waits for the leader.
    Remote,
    Answered(Message),
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) client: ClientId,
    pub(crate) group: u32,
    pub(crate) replica: usize,
    /// 0 until the server has accepted it.
    pub(crate) session: i64,
    /// The session timeout that its server has granted on it.
    pub(crate) timeout: Millis,
    /// The server's end.
    pub(crate) open: bool,
    /// The client's end is closed: nothing reaches it.
    pub(crate) deaf: bool,
    /// After a cut: how many of the requests under way still arrive.
    survivors: Option<usize>,
    under_way: usize,
    last_up: Millis,
    last_down: Millis,
    pub(crate) held_up: Vec<Request>,
    pub(crate) held_down: Vec<Message>,
    pub(crate) slots: VecDeque<Slot>,
}

impl Conn {
    pub(crate) fn new(client: ClientId, group: u32, replica: usize) -> Self {
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

    /// The next request arrives no earlier than those before it; when.
    pub(crate) fn go_up(&mut self, arrival: Millis) -> Millis {
        self.under_way += 1;
        self.last_up = self.last_up.max(arrival);
        self.last_up
    }

    /// As [`go_up`](Self::go_up), for a message to the client.
    pub(crate) fn go_down(&mut self, arrival: Millis) -> Millis {
        self.last_down = self.last_down.max(arrival);
        self.last_down
    }

    /// Of the requests under way only some still arrive.
    pub(crate) fn cut_up(&mut self, random: &mut Rng) {
        self.survivors = Some(random.usize(..self.under_way + 1));
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.survivors.is_some()
    }

    /// What a black hole has held, in each direction.
    pub(crate) fn take_held(&mut self) -> (Vec<Request>, Vec<Message>) {
        (std::mem::take(&mut self.held_up), std::mem::take(&mut self.held_down))
    }

    /// Whether a request that arrives now was read by the server.
    pub(crate) fn admit(&mut self) -> bool {
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
