//! A line of ephemeral sequential nodes: a lock, or an election.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::socket::{EPHEMERAL_SEQUENTIAL, Socket};
use super::{Column, timed};
use crate::line;

/// A contender.
struct Lock {
    socket: Socket,
    dir: String,
}

/// A place in the line.
struct Place {
    node: String,
    before: Option<Before>,
}

/// The node that is waited for.
struct Before {
    node: String,
    /// Once it is deleted the next one is the first; behind any other node that takes a list.
    is_head: bool,
}

impl Lock {
    fn connect(addr: &str, dir: &str) -> Lock {
        Lock { socket: Socket::connect(addr), dir: dir.to_owned() }
    }

    fn cycle(&mut self) {
        let mut place = self.enter();
        self.wait(&mut place);
        self.socket.delete(&place.node);
    }

    /// Creates and lists in one write, then watches.
    fn enter(&mut self) -> Place {
        self.socket.add_create(&line::prefix(&self.dir), b"", EPHEMERAL_SEQUENTIAL);
        self.socket.add_list(&self.dir);
        self.socket.send();
        let node = self.socket.answer().expect("created").string();
        let children = self.socket.answer().expect("listed").strings();
        let before = self.watch(children, &node);
        Place { node, before }
    }

    /// Watches the node before ours; ours as well where no list will show it.
    fn watch(&mut self, mut children: Vec<String>, node: &str) -> Option<Before> {
        loop {
            let (before, is_head) = line::before(children, node)?;
            let before = Before { node: format!("{}/{before}", self.dir), is_head };
            self.socket.add_get(&before.node, true);
            if is_head {
                self.socket.add_get(node, true);
            }
            self.socket.send();
            let found = self.socket.answer().is_some();
            if is_head {
                self.socket.answer().expect("our own node");
            }
            if found {
                return Some(before);
            }
            children = self.socket.list(&self.dir);
        }
    }

    /// A leader watches its own node, as a latch does.
    fn watch_own(&mut self, place: &Place) {
        self.socket.add_get(&place.node, true);
        self.socket.send();
        self.socket.answer().expect("our own node");
    }

    /// Until nothing is before it.
    fn wait(&mut self, place: &mut Place) {
        while let Some(before) = place.before.take() {
            self.socket.wait_for_event(&before.node);
            if !before.is_head {
                let children = self.socket.list(&self.dir);
                place.before = self.watch(children, &place.node);
            }
        }
    }
}

pub(crate) fn free(addr: &str, dir: &str, cycles: u64) -> Column {
    let mut lock = Lock::connect(addr, dir);
    Column::new(move || timed(cycles, || lock.cycle()))
}

/// A thread for each contender.
pub(crate) fn contended(addr: &str, dir: &str, contenders: usize, turns: u64) -> Column {
    let (done, all_done) = channel();
    let threads: Vec<Sender<()>> =
        (0..contenders).map(|_| contender(Lock::connect(addr, dir), turns, done.clone())).collect();
    Column::new(move || {
        let begun = Instant::now();
        threads.iter().for_each(|thread| thread.send(()).expect("the thread runs"));
        threads.iter().for_each(|_| all_done.recv().expect("the threads run"));
        vec![begun.elapsed() / u32::try_from(turns * contenders as u64).expect("few")]
    })
}

/// Takes so many turns whenever it is told to.
fn contender(mut lock: Lock, turns: u64, done: Sender<()>) -> Sender<()> {
    let (orders, told): (_, Receiver<()>) = channel();
    std::thread::spawn(move || {
        for () in told {
            (0..turns).for_each(|_| lock.cycle());
            done.send(()).expect("the benchmark runs");
        }
    });
    orders
}

/// The line, the leader first. How long from its delete until the next one has seen the event, and looked.
pub(crate) fn fail_over(addr: &str, dir: &str, participants: usize, cycles: u64) -> Column {
    let mut line: VecDeque<(Lock, Place)> = VecDeque::new();
    for _ in 0..participants {
        let mut lock = Lock::connect(addr, dir);
        let place = lock.enter();
        line.push_back((lock, place));
    }
    let one = move |line: &mut VecDeque<(Lock, Place)>| -> Duration {
        let (mut leader, place) = line.pop_front().expect("a leader");
        let (next, next_place) = line.front_mut().expect("a waiter");
        std::thread::sleep(line::SETTLE);
        let begun = Instant::now();
        leader.socket.add_delete(&place.node);
        leader.socket.send();
        next.wait(next_place);
        let took = begun.elapsed();
        next.watch_own(next_place);
        leader.socket.answer().expect("deleted");
        // So that one that waits for long does not lose its session.
        leader.socket.ping();
        let place = leader.enter();
        line.push_back((leader, place));
        took
    };
    Column::new(move || (0..cycles).map(|_| one(&mut line)).collect())
}
