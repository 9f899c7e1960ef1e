//! A queue of persistent sequential nodes.

use std::time::Instant;

use super::Column;
use super::socket::{EPHEMERAL, PERSISTENT, PERSISTENT_SEQUENTIAL, Socket};
use crate::items::{self, IN_HAND, ITEM, Put};

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

    /// Transactions, all of them in one write.
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

    /// As many as a consumer has in hand at a time: claim and read in one write, then acknowledge.
    fn take(&mut self) {
        for hand in self.names().chunks(IN_HAND) {
            for name in hand {
                let (item, claim) = (self.item(name), items::claim(&self.dir, name));
                self.socket.add_multi(|multi| {
                    multi.check(&item);
                    multi.create(&claim, b"", EPHEMERAL);
                });
                self.socket.add_get(&item, false);
            }
            self.socket.send();
            for _ in hand {
                self.socket.answer().expect("claimed").committed();
                self.socket.answer().expect("read");
            }
            for name in hand {
                let (item, claim) = (self.item(name), items::claim(&self.dir, name));
                self.socket.add_multi(|multi| {
                    multi.delete(&claim);
                    multi.delete(&item);
                });
            }
            self.socket.send();
            hand.iter().for_each(|_| self.socket.answer().expect("acknowledged").committed());
        }
    }

    fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Takes away what was put.
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

/// To be done after each round of puts, in each column.
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

pub(crate) fn put_and_take(addr: &str, dir: &str, items: usize) -> Column {
    let mut queue = Queue::connect(addr, dir);
    Column::new(move || {
        let begun = Instant::now();
        queue.put_at_once(items);
        queue.take();
        vec![begun.elapsed() / items as u32]
    })
}
