//! A line of ephemeral sequential nodes: a lock, or an election.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::socket::{EPHEMERAL_SEQUENTIAL, Socket};
use super::{Column, timed};
use crate::line::{self, Kind};

/// A contender.
struct Lock {
    socket: Socket,
    dir: String,
    kind: Kind,
}

/// A place in the line.
struct Place {
    node: String,
    before: Option<Before>,
}

/// The node that a contender waits for.
struct Before {
    node: String,
    /// Whether the contender holds the lock once this node is deleted. Otherwise it lists the line again.
    is_last: bool,
}

/// Creates a node and lists the line in one write.
pub(super) fn enter(socket: &mut Socket, dir: &str, kind: Kind) -> (String, Vec<String>) {
    socket.add_create(&kind.prefix(dir), b"", EPHEMERAL_SEQUENTIAL);
    socket.add_list(dir);
    socket.send();
    let node = socket.answer().expect("created").string();
    (node, socket.answer().expect("listed").strings())
}

impl Lock {
    fn connect(addr: &str, dir: &str, kind: Kind) -> Lock {
        Lock { socket: Socket::connect(addr), dir: dir.to_owned(), kind }
    }

    fn cycle(&mut self) {
        let mut place = self.enter();
        self.wait(&mut place);
        self.socket.delete(&place.node);
    }

    fn enter(&mut self) -> Place {
        let (node, children) = enter(&mut self.socket, &self.dir, self.kind);
        let before = self.watch(children, &node);
        Place { node, before }
    }

    /// Watches the node ahead of ours, and our own as well if no further list will show it.
    fn watch(&mut self, mut children: Vec<String>, node: &str) -> Option<Before> {
        loop {
            let (before, is_last) = self.kind.before(children, node)?;
            let before = Before { node: format!("{}/{before}", self.dir), is_last };
            self.socket.add_get(&before.node, true);
            if is_last {
                self.socket.add_get(node, true);
            }
            self.socket.send();
            let found = self.socket.answer().is_some();
            if is_last {
                self.socket.answer().expect("our own node");
            }
            if found {
                return Some(before);
            }
            children = self.socket.list(&self.dir);
        }
    }

    /// Watches the leader's own node, as a latch does.
    fn watch_own(&mut self, place: &Place) {
        self.socket.add_get(&place.node, true);
        self.socket.send();
        self.socket.answer().expect("our own node");
    }

    /// Waits until no node is ahead.
    fn wait(&mut self, place: &mut Place) {
        while let Some(before) = place.before.take() {
            self.socket.wait_for_event(&before.node);
            if !before.is_last {
                let children = self.socket.list(&self.dir);
                place.before = self.watch(children, &place.node);
            }
        }
    }
}

pub(crate) fn free(addr: &str, dir: &str, kind: Kind, cycles: u64) -> Column {
    let mut lock = Lock::connect(addr, dir, kind);
    Column::new(move || timed(cycles, || lock.cycle()))
}

/// Runs a thread for each contender.
pub(crate) fn contended(addr: &str, dir: &str, kind: Kind, contenders: usize, turns: u64) -> Column {
    let (done, all_done) = channel();
    let threads: Vec<Sender<()>> =
        (0..contenders).map(|_| contender(Lock::connect(addr, dir, kind), turns, done.clone())).collect();
    Column::new(move || {
        let begun = Instant::now();
        threads.iter().for_each(|thread| thread.send(()).expect("the thread runs"));
        threads.iter().for_each(|_| all_done.recv().expect("the threads run"));
        vec![begun.elapsed() / u32::try_from(turns * contenders as u64).expect("few")]
    })
}

/// Starts a thread that takes this many turns for each order.
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

/// Measures the time from the leader's delete until the next contender has seen the event and listed the line.
pub(crate) fn fail_over(addr: &str, dir: &str, participants: usize, cycles: u64) -> Column {
    let mut line: VecDeque<(Lock, Place)> = VecDeque::new();
    for _ in 0..participants {
        let mut lock = Lock::connect(addr, dir, Kind::Mutex);
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
        // Keeps the session alive during the long wait.
        leader.socket.ping();
        let place = leader.enter();
        line.push_back((leader, place));
        took
    };
    Column::new(move || (0..cycles).map(|_| one(&mut line)).collect())
}

/// Measures the time from the writer's delete until all readers have seen the event.
pub(crate) fn readers_behind_a_writer(addr: &str, dir: &str, readers: usize, cycles: u64) -> Column {
    let mut writer = Lock::connect(addr, dir, Kind::Write);
    let mut readers: Vec<Lock> = (0..readers).map(|_| Lock::connect(addr, dir, Kind::Read)).collect();
    let mut one = move || -> Duration {
        let held = writer.enter();
        let mut places: Vec<Place> = readers.iter_mut().map(Lock::enter).collect();
        assert_eq!(writer.socket.list(&writer.dir).len(), 1 + places.len());
        std::thread::sleep(line::SETTLE);
        let begun = Instant::now();
        writer.socket.add_delete(&held.node);
        writer.socket.send();
        readers.iter_mut().zip(&mut places).for_each(|(reader, place)| reader.wait(place));
        let took = begun.elapsed();
        writer.socket.answer().expect("deleted");
        for (reader, place) in readers.iter_mut().zip(&places) {
            reader.socket.add_delete(&place.node);
            reader.socket.send();
        }
        readers.iter_mut().for_each(|reader| drop(reader.socket.answer().expect("deleted")));
        took
    };
    Column::new(move || (0..cycles).map(|_| one()).collect())
}

/// Measures the same with a thread for each reader, which waits on its own socket.
pub(crate) fn threads_behind_a_writer(addr: &str, dir: &str, readers: usize, cycles: u64) -> Column {
    let mut writer = Lock::connect(addr, dir, Kind::Write);
    let (done, any_done) = channel();
    let threads: Vec<Sender<Step>> =
        (0..readers).map(|_| reader(Lock::connect(addr, dir, Kind::Read), done.clone())).collect();
    let mut one = move || -> Duration {
        let all = |step| {
            threads.iter().for_each(|thread| thread.send(step).expect("the thread runs"));
            threads.iter().for_each(|_| any_done.recv().expect("the threads run"));
        };
        let held = writer.enter();
        all(Step::Enter);
        threads.iter().for_each(|thread| thread.send(Step::Wait).expect("the thread runs"));
        std::thread::sleep(line::SETTLE);
        let begun = Instant::now();
        writer.socket.add_delete(&held.node);
        writer.socket.send();
        threads.iter().for_each(|_| any_done.recv().expect("the threads run"));
        let took = begun.elapsed();
        writer.socket.answer().expect("deleted");
        all(Step::Leave);
        took
    };
    Column::new(move || (0..cycles).map(|_| one()).collect())
}

/// The next step of a reader.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Take a place.
    Enter,
    /// Wait until it may read.
    Wait,
    /// Delete the place.
    Leave,
}

fn reader(mut lock: Lock, done: Sender<()>) -> Sender<Step> {
    let (orders, told): (_, Receiver<Step>) = channel();
    std::thread::spawn(move || {
        let mut place = None;
        for step in told {
            match step {
                Step::Enter => place = Some(lock.enter()),
                Step::Wait => lock.wait(place.as_mut().expect("it has entered")),
                Step::Leave => drop(place.take().map(|place| lock.socket.delete(&place.node))),
            }
            done.send(()).expect("the benchmark runs");
        }
    });
    orders
}

/// Acquires and releases two locks on one session.
pub(crate) fn free_pair(addr: &str, dirs: [&str; 2], cycles: u64) -> Column {
    let mut socket = Socket::connect(addr);
    let dirs = dirs.map(str::to_owned);
    Column::new(move || {
        timed(cycles, || {
            let nodes = dirs.each_ref().map(|dir| {
                let (node, children) = enter(&mut socket, dir, Kind::Mutex);
                assert!(Kind::Mutex.before(children, &node).is_none(), "it is free");
                node
            });
            nodes.iter().rev().for_each(|node| socket.add_delete(node));
            socket.send();
            nodes.iter().for_each(|_| drop(socket.answer().expect("deleted")));
        })
    })
}
