//! A queue of persistent sequential nodes.

use std::time::Instant;

use super::Column;
use super::socket::{EPHEMERAL, PERSISTENT, PERSISTENT_SEQUENTIAL, Socket};
use crate::items::{self, HOLDER, IN_HAND, ITEM, Put};

struct Queue {
    socket: Socket,
    dir: String,
}

impl Queue {
    fn connect(addr: &str, dir: &str) -> Queue {
        let mut socket = Socket::connect(addr);
        for beside in [format!("{dir}-claims"), items::producer(dir)] {
            if !socket.exists(&beside) {
                socket.create(&beside, b"", PERSISTENT);
            }
        }
        Queue { socket, dir: dir.to_owned() }
    }

    fn put(&mut self, put: Put) {
        match put {
            Put::Create => drop(self.socket.create(&format!("{}/queue-", self.dir), ITEM, PERSISTENT_SEQUENTIAL)),
            Put::Transaction => self.put_at_once(1),
        }
    }

    /// Puts the items in transactions, all of them in one write.
    fn put_at_once(&mut self, items: usize) {
        let prefix = format!("{}/queue-", self.dir);
        for size in items::transactions(items) {
            let producer = items::producer(&self.dir);
            self.socket.add_multi(|multi| {
                multi.set_data(&producer, b"0");
                (0..size).for_each(|_| multi.create(&prefix, ITEM, PERSISTENT_SEQUENTIAL));
            });
        }
        self.socket.send();
        items::transactions(items).for_each(|_| self.socket.answer().expect("put").committed());
    }

    fn names(&mut self) -> Vec<String> {
        let mut names = self.socket.list(&self.dir);
        names.sort_unstable();
        names
    }

    /// Takes `in_hand` items at a time: one write acknowledges those in hand, claims the next ones, and reads those
    /// after them.
    fn take(&mut self, in_hand: usize) {
        let names = self.names();
        let hands: Vec<&[String]> = names.chunks(in_hand).collect();
        let hand = |at: usize| hands.get(at).copied().unwrap_or_default();
        for at in 0..hands.len() + 2 {
            let (acked, claimed, read) =
                (at.checked_sub(2).map_or(&[][..], hand), at.checked_sub(1).map_or(&[][..], hand), hand(at));
            acked.iter().for_each(|name| self.add_ack(name));
            claimed.iter().for_each(|name| self.add_claim(name));
            for name in read {
                let item = self.item(name);
                self.socket.add_get(&item, false);
            }
            self.socket.send();
            (0..acked.len() + claimed.len()).for_each(|_| self.socket.answer().expect("carried out").committed());
            read.iter().for_each(|_| drop(self.socket.answer().expect("read")));
        }
    }

    fn add_claim(&mut self, name: &str) {
        let (item, claim) = (self.item(name), items::claim(&self.dir, name));
        self.socket.add_multi(|multi| {
            multi.create(&claim, HOLDER, EPHEMERAL);
            multi.set_data(&claim, HOLDER);
            multi.set_data(&item, ITEM);
        });
    }

    fn add_ack(&mut self, name: &str) {
        let (item, claim) = (self.item(name), items::claim(&self.dir, name));
        self.socket.add_multi(|multi| {
            multi.delete(&item);
            multi.delete(&claim);
        });
    }

    fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Deletes the items.
    fn clear(&mut self) {
        let names = self.names();
        for name in &names {
            let item = self.item(name);
            self.socket.add_delete(&item);
        }
        self.socket.send();
        names.iter().for_each(|_| drop(self.socket.answer().expect("deleted")));
    }
}

/// Returns the work to do after each round of puts, in each column.
pub(crate) fn clearing(addr: &str, dir: &str) -> impl FnMut() + 'static {
    let mut queue = Queue::connect(addr, dir);
    move || queue.clear()
}

pub(crate) fn put_one_at_a_time(addr: &str, dir: &str, items: usize, put: Put) -> Column {
    let mut queue = Queue::connect(addr, dir);
    Column::new(move || super::timed(items as u64, || queue.put(put))).afterwards(clearing(addr, dir))
}

pub(crate) fn put_at_once(addr: &str, dir: &str, items: usize) -> Column {
    let mut queue = Queue::connect(addr, dir);
    Column::new(move || {
        let begun = Instant::now();
        queue.put_at_once(items);
        vec![begun.elapsed() / items as u32]
    })
    .afterwards(clearing(addr, dir))
}

/// The puts are not measured.
pub(crate) fn take_in_hands(addr: &str, dir: &str, items: usize, in_hand: usize) -> Column {
    let mut queue = Queue::connect(addr, dir);
    Column::new(move || {
        queue.put_at_once(items);
        let begun = Instant::now();
        queue.take(in_hand);
        vec![begun.elapsed() / items as u32]
    })
}

pub(crate) fn put_and_take(addr: &str, dir: &str, items: usize) -> Column {
    let mut queue = Queue::connect(addr, dir);
    Column::new(move || {
        let begun = Instant::now();
        queue.put_at_once(items);
        queue.take(IN_HAND);
        vec![begun.elapsed() / items as u32]
    })
}
