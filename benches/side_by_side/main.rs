//! Compares this library with the client crate `zookeeper-client` and with a bare socket, on a real server:
//! `cargo bench --features integration --bench side_by_side [-- part of a row's name]`.
//!
//! The bare socket is the limit: frames written by hand on blocking sockets, the same requests, no error handling. The
//! columns take turns, round by round, so that other load on the machine affects all of them; only the ratios count.
//!
//! Docker passes the host's connections through a proxy process, which takes a share of the processors.
//! `BENCH_SERVER=host:port` selects another server, for example a container that is reached at its own address.

mod bare;
mod client_crate;
mod items;
mod line;
mod measure;
mod ours;
mod table;

#[path = "../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use self::bare::socket::{PERSISTENT, Socket};
use self::items::{IN_HAND, Put};
use self::line::Kind;
use self::measure::{Column, Row, Unit};
use self::support::{ZooKeeper, unique_path};
use self::table::Table;

/// A real server.
enum Stage {
    /// In a container that is removed at the end.
    Own(Arc<ZooKeeper>),
    /// At this address.
    At(String),
}

impl Stage {
    fn new() -> Stage {
        let own = || Stage::Own(measure::runtime().block_on(ZooKeeper::shared()));
        std::env::var("BENCH_SERVER").map_or_else(|_| own(), Stage::At)
    }

    fn addr(&self) -> String {
        match self {
            Stage::Own(server) => server.connect_string(),
            Stage::At(addr) => addr.clone(),
        }
    }

    /// Creates a directory for each column. They are persistent, so the server does not remove them between rounds.
    fn directories(&self, name: &str) -> [String; 3] {
        let mut socket = Socket::connect(&self.addr());
        ["bare", "crate", "ours"].map(|column| {
            let path = unique_path(&format!("{name}-{column}"));
            socket.create(&path, b"", PERSISTENT);
            path
        })
    }
}

/// Prepares the measurement of a row.
type Setup = fn(&Stage) -> Row;

const ROWS: [(&str, Setup); 22] = [
    ("exists, one at a time", exists),
    ("mutex, free", free_mutex),
    ("mutex, 8 contenders", |stage| contended_mutex(stage, 8)),
    ("mutex, 32 contenders", |stage| contended_mutex(stage, 32)),
    ("read lock, free", |stage| free_lock(stage, Kind::Read)),
    ("write lock, free", |stage| free_lock(stage, Kind::Write)),
    ("write lock, 8 writers", |stage| contended_writers(stage, 8)),
    ("read-write lock, a writer, then 8 readers", |stage| {
        readers_behind_a_writer(stage, 8, bare::lock::readers_behind_a_writer)
    }),
    ("the same, bare with a thread a reader", |stage| {
        readers_behind_a_writer(stage, 8, bare::lock::threads_behind_a_writer)
    }),
    ("multi-lock of 2, free", free_multi_lock),
    ("semaphore, free, 1 permit", free_semaphore),
    ("atomic long, add, one at a time", add),
    ("latch, fail-over among 100", fail_over),
    ("queue, put and await, against creates", |stage| put_one_at_a_time(stage, Put::Create)),
    ("queue, put and await, against transactions", |stage| put_one_at_a_time(stage, Put::Transaction)),
    ("queue, put 1000 at once", put_at_once),
    ("queue, take and ack 300, 1 at a time", |stage| take_in_hands(stage, 300, 1)),
    ("queue, take and ack 1000, 32 at a time", |stage| take_in_hands(stage, 1_000, IN_HAND)),
    ("queue, put and take 1000, 1 consumer", |stage| put_and_take(stage, 1)),
    ("queue, put and take 1000, 4 consumers", |stage| put_and_take(stage, 4)),
    ("double barrier, enter and leave, 8 members", |stage| double_barrier(stage, 8)),
    ("double barrier, enter and leave, 32 members", |stage| double_barrier(stage, 32)),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let stage = Stage::new();
    let mut table = Table::default();
    for (name, row) in ROWS {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            table.add(name, row(&stage).measure());
        }
    }
    println!("{table}");
}

fn exists(stage: &Stage) -> Row {
    const CYCLES: u64 = 500;
    let [path, ..] = stage.directories("exists");
    Row::new(Unit::Micros, 30, CYCLES)
        .bare(bare::exists(&stage.addr(), &path, CYCLES))
        .client_crate(client_crate::exists(&stage.addr(), &path, CYCLES))
        .ours(ours::exists(&stage.addr(), &path, CYCLES))
}

fn free_mutex(stage: &Stage) -> Row {
    const CYCLES: u64 = 200;
    let [bare, other, own] = stage.directories("free");
    Row::new(Unit::Micros, 30, CYCLES)
        .bare(bare::lock::free(&stage.addr(), &bare, Kind::Mutex, CYCLES))
        .client_crate(client_crate::mutex::free(&stage.addr(), &other, CYCLES))
        .ours(ours::lock::free(&stage.addr(), &own, Kind::Mutex, CYCLES))
}

/// A cycle is a hand-over.
fn contended_mutex(stage: &Stage, contenders: usize) -> Row {
    let turns = 960 / contenders as u64;
    let [bare, other, own] = stage.directories("contended");
    Row::new(Unit::PerSecond, 15, turns * contenders as u64)
        .bare(bare::lock::contended(&stage.addr(), &bare, Kind::Mutex, contenders, turns))
        .client_crate(client_crate::mutex::contended(&stage.addr(), &other, contenders, turns))
        .ours(ours::lock::contended(&stage.addr(), &own, Kind::Mutex, contenders, turns))
}

/// Sends the requests of a free mutex, with other names of nodes.
fn free_lock(stage: &Stage, kind: Kind) -> Row {
    const CYCLES: u64 = 200;
    let [bare, _, own] = stage.directories("free");
    Row::new(Unit::Micros, 30, CYCLES)
        .bare(bare::lock::free(&stage.addr(), &bare, kind, CYCLES))
        .ours(ours::lock::free(&stage.addr(), &own, kind, CYCLES))
}

/// A cycle is a hand-over.
fn contended_writers(stage: &Stage, writers: usize) -> Row {
    let turns = 960 / writers as u64;
    let [bare, _, own] = stage.directories("writers");
    Row::new(Unit::PerSecond, 15, turns * writers as u64)
        .bare(bare::lock::contended(&stage.addr(), &bare, Kind::Write, writers, turns))
        .ours(ours::lock::contended(&stage.addr(), &own, Kind::Write, writers, turns))
}

/// Measures from the release of a writer until all readers behind it read. A cycle includes the readers' release and
/// all new places. One thread that reads one socket after the other costs least; each of our readers is a task, as an
/// independent reader would be.
fn readers_behind_a_writer(stage: &Stage, readers: usize, column: fn(&str, &str, usize, u64) -> Column) -> Row {
    const CYCLES: u64 = 50;
    let [bare, _, own] = stage.directories("readers");
    Row::new(Unit::Micros, 15, CYCLES)
        .bare(column(&stage.addr(), &bare, readers, CYCLES))
        .ours(ours::lock::readers_behind_a_writer(&stage.addr(), &own, readers, CYCLES))
}

/// Acquires one lock after the other, and deletes both nodes in one write.
fn free_multi_lock(stage: &Stage) -> Row {
    const CYCLES: u64 = 200;
    let ([one_bare, _, one_own], [other_bare, _, other_own]) = (stage.directories("one"), stage.directories("other"));
    Row::new(Unit::Micros, 30, CYCLES)
        .bare(bare::lock::free_pair(&stage.addr(), [&one_bare, &other_bare], CYCLES))
        .ours(ours::lock::free_pair(&stage.addr(), [&one_own, &other_own], CYCLES))
}

/// Creates a place in line and the node of a permit, and deletes both.
fn free_semaphore(stage: &Stage) -> Row {
    const CYCLES: u64 = 200;
    let [bare, _, own] = stage.directories("semaphore");
    Row::new(Unit::Micros, 30, CYCLES).bare(bare::semaphore::free(&stage.addr(), &bare, CYCLES)).ours(ours::lock::free(
        &stage.addr(),
        &own,
        Kind::Lease,
        CYCLES,
    ))
}

/// Each addition is a transaction that also changes its writer's node, so that an addition whose answer is lost is not
/// repeated.
fn add(stage: &Stage) -> Row {
    const CYCLES: u64 = 200;
    let [bare, _, own] = stage.directories("atomic");
    Row::new(Unit::Micros, 30, CYCLES).bare(bare::atomic::add(&stage.addr(), &bare, CYCLES)).ours(ours::atomic::add(
        &stage.addr(),
        &own,
        CYCLES,
    ))
}

/// Each participant has a session of its own. A cycle includes the former leader's new place at the end.
fn fail_over(stage: &Stage) -> Row {
    const PARTICIPANTS: usize = 100;
    const CYCLES: u64 = 20;
    let [bare, other, own] = stage.directories("fail-over");
    Row::new(Unit::Micros, 20, CYCLES)
        .bare(bare::lock::fail_over(&stage.addr(), &bare, PARTICIPANTS, CYCLES))
        .client_crate(client_crate::mutex::fail_over(&stage.addr(), &other, PARTICIPANTS, CYCLES))
        .ours(ours::latch::fail_over(&stage.addr(), &own, PARTICIPANTS, CYCLES))
}

/// Ours puts each item in a transaction that also counts the puts of its producer, so that a put whose answer is lost
/// can be retried without a second item. The other columns do the same, or only create the item.
fn put_one_at_a_time(stage: &Stage, put: Put) -> Row {
    const ITEMS: usize = 300;
    let [bare, other, own] = stage.directories("put");
    Row::new(Unit::PerSecond, 20, ITEMS as u64)
        .bare(bare::queue::put_one_at_a_time(&stage.addr(), &bare, ITEMS, put))
        .client_crate(client_crate::queue::put_one_at_a_time(&stage.addr(), &other, ITEMS, put))
        .ours(ours::queue::put_one_at_a_time(&stage.addr(), &own, ITEMS))
}

/// All columns put many items in a transaction.
fn put_at_once(stage: &Stage) -> Row {
    const ITEMS: usize = 1_000;
    let [bare, other, own] = stage.directories("puts");
    Row::new(Unit::PerSecond, 15, ITEMS as u64)
        .bare(bare::queue::put_at_once(&stage.addr(), &bare, ITEMS))
        .client_crate(client_crate::queue::put_at_once(&stage.addr(), &other, ITEMS))
        .ours(ours::queue::put_at_once(&stage.addr(), &own, ITEMS))
}

/// Reads, claims and acknowledges items. One write carries the acknowledgement, the next claim and the read ahead.
fn take_in_hands(stage: &Stage, items: usize, in_hand: usize) -> Row {
    let [bare, _, own] = stage.directories("taken");
    Row::new(Unit::PerSecond, 15, items as u64)
        .bare(bare::queue::take_in_hands(&stage.addr(), &bare, items, in_hand))
        .ours(ours::queue::take_in_hands(&stage.addr(), &own, items, in_hand))
}

/// Includes the puts in the measurement, with one or several consumers that share the items.
fn put_and_take(stage: &Stage, consumers: usize) -> Row {
    const ITEMS: usize = 1_000;
    let [bare, other, own] = stage.directories("take");
    let row = Row::new(Unit::PerSecond, 10, ITEMS as u64)
        .client_crate(client_crate::queue::put_and_take(&stage.addr(), &other, ITEMS, consumers))
        .ours(ours::queue::put_and_take(&stage.addr(), &own, ITEMS, consumers));
    if consumers > 1 {
        return row;
    }
    row.bare(bare::queue::put_and_take(&stage.addr(), &bare, ITEMS))
}

/// A cycle is a round of all members.
fn double_barrier(stage: &Stage, members: usize) -> Row {
    const CYCLES: u64 = 20;
    let [_, other, own] = stage.directories("barrier");
    Row::new(Unit::Micros, 15, CYCLES)
        .client_crate(client_crate::barrier::rounds(&stage.addr(), &other, members, CYCLES))
        .ours(ours::barrier::rounds(&stage.addr(), &own, members, CYCLES))
}
