//! What happens to the tree, to the caches and to their clients.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zookeeper_recipes::testing::{Loss, Operation, Task};
use zookeeper_recipes::{Client, CreateMode};

use super::history::{PATHS, Part, TOP, ids, is_unreadable};
use super::ledger::Ledger;
use super::reader::{NEVER_LAGS, Plan, Slot, read};
use crate::seeds::Outcome;
use crate::world::{World, dialect_of};

/// The number of actions in a seed.
const ACTS: usize = 60;
const MOST_CACHES: usize = 4;

struct Reader {
    plan: Plan,
    slot: Slot,
    task: Task<()>,
}

/// A change of the tree.
#[derive(Debug, Clone, Copy)]
enum Write {
    /// The node is written, or created if it is missing.
    Put,
    /// It is deleted, with everything below.
    Delete,
    /// It is deleted, with everything below, and created again.
    Replace,
    /// It is written in one transaction with the nodes above it.
    Together,
}

pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) ledger: Ledger,
    /// How many of the paths the seed uses.
    paths: usize,
    written: u64,
    came: u64,
    readers: Vec<Reader>,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::new();
    let check = ledger.clone();
    let world = World::with_servers(seed, super::servers(seed), dialect_of(seed), 20, 300, move || check.look()).await;
    let mut play = Play::new(world, ledger);
    let played = play.run().await;
    play.over(played).await
}

impl Play {
    pub(crate) fn new(mut world: World, ledger: Ledger) -> Self {
        ledger.watch(&world.server, &world.trace);
        let paths = world.random.usize(4..=PATHS.len());
        let mut play = Play { world, ledger, paths, written: 0, came: 0, readers: Vec::new() };
        for _ in 0..play.world.random.u8(..12) {
            play.write_by_hand();
        }
        play
    }

    async fn run(&mut self) -> Result<(), String> {
        self.enter(None);
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.act();
            self.ledger.deposed_until(self.world.deposed_until);
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        self.world.heal();
        // A write that was sent before healing may arrive late.
        self.world.pass(self.world.quiet()).await;
        self.end(self.world.timeout * 3 + Duration::from_secs(20)).await
    }

    fn act(&mut self) {
        match self.world.random.u8(..20) {
            0..=8 => {
                for _ in 0..self.world.random.u8(1..=5) {
                    if self.world.random.u8(..3) == 0 { self.write_by_hand() } else { self.write() }
                }
            }
            9..=10 if self.readers.len() < MOST_CACHES => self.enter(None),
            9..=11 => self.leave(),
            12..=13 => self.lose_a_reply(),
            14 => self.expire(),
            _ => self.world.fault(),
        }
    }

    /// Starts a cache. With a bound, the network has no faults.
    pub(crate) fn enter(&mut self, bound: Option<Duration>) {
        let (number, client) = (self.came, self.world.a_client());
        self.came += 1;
        let random = &mut self.world.random;
        let (with_root, depth) = match random.u8(..8) {
            0..=3 => (true, usize::MAX),
            4 => (true, random.usize(..3)),
            5 => (false, random.usize(1..=2)),
            6 => (false, 1),
            _ => (true, 0),
        };
        let root = *random.choice(&[TOP, TOP, TOP, "/tree/a", "/tree/b"]).expect("there are some");
        let without = [None, None, Some("/tree/a/x"), Some("/tree/b")];
        let part = Part { root, with_root, depth, without: *random.choice(&without).expect("there are some") };
        let millis = |most: u64| Duration::from_millis(most);
        let plan = Plan {
            number,
            part,
            with_data: random.u8(..4) > 0,
            capacity: if random.u8(..4) == 0 { random.usize(1..=2) } else { NEVER_LAGS },
            slow: if random.u8(..3) == 0 { millis(random.u64(..2_000)) } else { Duration::ZERO },
            pause: if bound.is_some() { millis(100) } else { millis(1_500) },
            patience: millis(random.u64(1..20_000)),
            bound,
            seed: random.u64(..),
        };
        self.ledger.note(format_args!("of client {client} comes {plan:?}"));
        let (slot, of) = (Slot::default(), self.world.clients[client].clone());
        let reading = read(plan.clone(), of.clone(), self.ledger.clone(), slot.clone());
        let task = self.world.server.spawn(&of, reading);
        self.readers.push(Reader { plan, slot, task });
    }

    fn leave(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let at = self.world.random.usize(..self.readers.len());
        let mut reader = self.readers.remove(at);
        self.ledger.note(format_args!("cache {} is dropped", reader.plan.number));
        reader.task.abort();
        reader.slot.clear();
    }

    fn a_write(&mut self) -> (Write, &'static str, String) {
        self.written += 1;
        let random = &mut self.world.random;
        let write = match random.u8(..10) {
            0..=4 => Write::Put,
            5..=6 => Write::Delete,
            7..=8 => Write::Replace,
            _ => Write::Together,
        };
        // Upper nodes less often, as everything below is deleted with them.
        let path = PATHS[random.usize(..self.paths).max(random.usize(..self.paths))];
        (write, path, self.written.to_string())
    }

    pub(crate) fn write_by_hand(&mut self) {
        let (write, path, data) = self.a_write();
        self.ledger.note(format_args!("by hand: {write:?} {path} {data}"));
        let server = &self.world.server;
        if matches!(write, Write::Delete | Write::Replace) {
            for below in below(path) {
                // It may be missing.
                let _ = server.delete_by_hand(below);
                self.ledger.look();
            }
        }
        if matches!(write, Write::Put | Write::Replace | Write::Together) {
            for above in above(path) {
                // Either may fail: what is proposed but not committed yet counts, too.
                if server.stat(above).is_none() {
                    let _ = server.create_by_hand(above, &data, CreateMode::Persistent);
                } else if above == path {
                    let _ = server.set_data_by_hand(above, &data);
                }
                self.ledger.look();
            }
        }
    }

    /// Lets a client write, however long that takes and however it ends.
    fn write(&mut self) {
        let ((write, path, data), client) = (self.a_write(), self.world.a_client());
        // A leaf may be deleted with its session.
        let mode = if self.world.random.u8(..6) == 0 { CreateMode::Ephemeral } else { CreateMode::Persistent };
        self.ledger.note(format_args!("client {client}: {write:?} {path} {data}, {mode:?}"));
        let client = self.world.clients[client].clone();
        let writing = carry_out(client.clone(), write, path, data, mode);
        drop(self.world.server.spawn(&client, writing));
    }

    /// Loses a reply that caches wait for.
    fn lose_a_reply(&mut self) {
        let client = self.world.a_client();
        let all = [Operation::Exists, Operation::GetData, Operation::List, Operation::Sync, Operation::AddWatch];
        let operation = *self.world.random.choice(&all).expect("there are some");
        let loss = if self.world.random.bool() { Loss::Applied } else { Loss::NotApplied };
        self.world.server.lose_next_reply(&self.world.clients[client], operation, loss);
        self.ledger.note(format_args!("the next reply to {operation:?} of client {client} will be lost, {loss:?}"));
    }

    /// From time to time, makes the data of a node unreadable, or the data of all nodes readable again.
    pub(crate) fn fail_reads(&mut self) {
        let path = *self.world.random.choice(&PATHS).expect("there are some");
        match self.world.random.u8(..100) {
            0..=2 => {
                self.ledger.note(format_args!("{path} cannot be read"));
                self.world.server.fail_reads(path, Operation::GetData);
            }
            3 => self.world.heal(),
            _ => {}
        }
    }

    fn expire(&mut self) {
        let client = self.world.a_client();
        if self.world.server.expire_session(&self.world.clients[client]) {
            self.world.figures.faults += 1;
            self.ledger.note(format_args!("the session of client {client} is ended by hand"));
        }
    }

    /// Describes a cache that has shown no new snapshot for this time, although the tree changes all the time.
    pub(crate) fn stalled(&self, bound: Duration) -> Option<String> {
        let readers = self.readers.iter().filter(|reader| reader.plan.part.without.is_none());
        let mut all = readers.filter(|reader| reader.plan.part.root == TOP && reader.plan.part.depth > 3);
        all.find_map(|reader| {
            let last = self.ledger.last_snapshot(reader.plan.number)?;
            let stalled = last.elapsed() > bound;
            stalled.then(|| format!("cache {}: no snapshot for {:?}", reader.plan.number, last.elapsed()))
        })
    }

    /// Describes how a cache differs from the servers.
    fn differs(&self) -> Option<String> {
        self.readers.iter().find_map(|reader| {
            let number = reader.plan.number;
            let Some((cache, fold)) = reader.slot.get() else { return Some(format!("cache {number} has not started")) };
            let (shown, present) = (ids(&cache.snapshot()), self.ledger.present(&reader.plan.part));
            if shown != present {
                return Some(format!("cache {number} shows {shown:?} instead of {present:?}"));
            }
            if let Some(node) = cache.snapshot().iter().find(|node| is_unreadable(node)) {
                return Some(format!("cache {number} has not read {node:?} again"));
            }
            (fold != present).then(|| format!("the changes of cache {number} add up to {fold:?}, not {present:?}"))
        })
    }

    /// Checks that all caches come to have what the servers have, and keep it, once nothing changes any more.
    pub(crate) async fn end(&mut self, within: Duration) -> Result<(), String> {
        let (deadline, mut calm_since) = (Instant::now() + within, Instant::now());
        while calm_since.elapsed() < Duration::from_secs(3) {
            self.world.pass(Duration::from_millis(50)).await;
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
            if let Some(what) = self.differs() {
                calm_since = Instant::now();
                if calm_since > deadline {
                    return Err(format!("long after everything was healed, {what}"));
                }
            }
        }
        for reader in &self.readers {
            let Some((cache, _)) = reader.slot.get() else { continue };
            let synced = timeout(within, cache.synced()).await;
            let snapshot = synced.map_err(|_| format!("cache {}: synced does not return", reader.plan.number))?;
            let snapshot = snapshot.map_err(|error| format!("cache {}: {error}", reader.plan.number))?;
            if !snapshot.is_settled() || ids(&snapshot) != self.ledger.present(&reader.plan.part) {
                return Err(format!("cache {} is not settled, or differs: {snapshot:?}", reader.plan.number));
            }
        }
        Ok(())
    }

    /// Drops all caches, deletes all nodes, and checks that nothing else is left.
    pub(crate) async fn over(mut self, played: Result<(), String>) -> Outcome {
        while !self.readers.is_empty() {
            self.leave();
        }
        let counts = self.ledger.counts();
        let mut violation = self.ledger.violation().or(played.err());
        self.ledger.note(format_args!("{counts:?}"));
        self.ledger.release();
        let mut world = self.world;
        world.figures.turns = counts.synced;
        world.figures.hand_overs = counts.compared;
        world.figures.cancelled = counts.cancelled;
        if violation.is_none() {
            violation = leave_nothing(&mut world).await.err();
        }
        world.trace.note_records(&world.server);
        Outcome { figures: world.figures, violation, trace: world.trace.lines() }
    }
}

async fn leave_nothing(world: &mut World) -> Result<(), String> {
    world.pass(world.quiet()).await;
    if world.watches() > 0 {
        return Err(format!("long after all caches were dropped there are {} watches", world.watches()));
    }
    for path in PATHS.into_iter().rev() {
        world.sweep(path);
    }
    for path in world.server.paths().into_iter().rev() {
        world.sweep(&path);
    }
    world.close().await
}

/// Returns a path and all paths below it, the lowest first.
fn below(path: &'static str) -> impl Iterator<Item = &'static str> {
    PATHS
        .into_iter()
        .rev()
        .filter(move |at| at.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Returns all paths above a path and the path itself, the highest first.
fn above(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.match_indices('/').skip(1).map(move |(end, _)| &path[..end]).chain([path])
}

async fn carry_out(client: Client, write: Write, path: &'static str, data: String, mode: CreateMode) {
    let is_leaf = below(path).count() == 1;
    let mode_of = |at: &str| if at == path && is_leaf { mode } else { CreateMode::Persistent };
    // Each call may fail, with its session or because of other clients.
    match write {
        Write::Put => {
            if client.set(path, &data, None).await.is_err() {
                for above in above(path) {
                    let _ = client.create(above, &data, mode_of(above)).await;
                }
            }
        }
        Write::Delete | Write::Replace => {
            for below in below(path) {
                let _ = client.delete(below, None).await;
            }
            if matches!(write, Write::Replace) {
                for above in above(path) {
                    let _ = client.create(above, &data, mode_of(above)).await;
                }
            }
        }
        Write::Together => {
            let mut transaction = client.transaction();
            for above in above(path) {
                transaction = transaction.set_data(above, data.clone(), None);
            }
            let _ = transaction.commit().await;
        }
    }
}
