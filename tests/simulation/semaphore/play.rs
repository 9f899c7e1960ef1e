//! Workers that acquire permits, some several at once, while the number of permits changes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::testing::Task;

use super::ledger::Ledger;
use super::worker::{Call, Parting, Plan, Worker};
use crate::line::{Line, Place};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 50;
const MOST_CLIENTS: usize = 7;
const MOST_WORKERS: usize = 8;
const MOST_PERMITS: i32 = 4;
const PATH: &str = "/semaphore";
const COUNT: &str = "/count";

pub(super) const LINE: Line =
    Line { path: "/semaphore/locks", bases: &["lock-"], readers: None, has_ids: false, watches_own: false };
pub(super) const LEASES: Line =
    Line { path: "/semaphore/leases", bases: &["lease-"], readers: None, has_ids: false, watches_own: false };

struct Play {
    world: World,
    ledger: Arc<Ledger>,
    /// The number of permits is read from a node; otherwise it is fixed.
    is_counted: bool,
    came: u64,
    workers: Vec<(u64, Task<()>)>,
    hurry: watch::Sender<bool>,
    cancelled: u64,
}

/// Runs one seed.
pub(super) async fn run(seed: u64) -> Outcome {
    let ledger = Arc::new(Ledger::default());
    let check = Arc::clone(&ledger);
    let mut world = World::new(seed, move || check.look()).await;
    ledger.watch(&world);
    let (is_counted, permits) = (world.random.bool(), world.random.i32(1..=MOST_PERMITS));
    ledger.set(permits);
    if is_counted {
        world.server.create_by_hand(COUNT, permits.to_be_bytes(), CreateMode::Persistent).expect("a new node");
    }
    world.trace.note(format_args!("{permits} permits, of a node: {is_counted}"));
    let (workers, hurry) = (Vec::new(), watch::Sender::new(false));
    let mut play = Play { world, ledger: Arc::clone(&ledger), is_counted, came: 0, workers, hurry, cancelled: 0 };
    let played = play.run().await;
    let Play { mut world, cancelled, .. } = play;
    ledger.release();
    let seen = ledger.seen();
    world.figures.turns = seen.turns;
    world.figures.hand_overs = seen.hand_overs;
    world.figures.cancelled = cancelled;
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: seen.violation.or(played.err()), trace: world.trace.lines() }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.come(client);
        }
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle();
            self.world.focus = self.ledger.a_session();
            self.act().await;
            if self.ledger.seen().violation.is_some() {
                break;
            }
        }
        self.world.heal();
        if self.is_counted {
            // Enough for any worker that waits.
            self.change(MOST_PERMITS);
        }
        self.all_are_done().await?;
        self.nothing_is_left().await?;
        self.all_permits_are_free().await?;
        self.nothing_is_left().await?;
        self.world.sweep(COUNT);
        self.world.close().await
    }

    async fn act(&mut self) {
        match self.world.random.u8(..22) {
            0..=8 if self.workers.len() < MOST_WORKERS => {
                let client = self.world.a_client();
                self.come(client);
            }
            0..=8 => {}
            9..=10 => self.dismiss(),
            11 => self.delete_by_hand(LEASES),
            12 => self.delete_by_hand(LINE),
            13 => self.expire(),
            14 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            15..=16 if self.is_counted => {
                let permits = self.world.random.i32(-1..=MOST_PERMITS);
                self.change(permits);
            }
            _ => self.world.fault(),
        }
    }

    fn semaphore(&self, client: usize, data: String) -> InterProcessSemaphore {
        let builder = InterProcessSemaphore::builder(&self.world.clients[client], PATH).data(data);
        let builder = if self.is_counted {
            builder.permits_from(COUNT)
        } else {
            builder.permits(u32::try_from(self.ledger.in_force()).expect("a fixed number"))
        };
        builder.build().expect("a semaphore")
    }

    /// Starts a worker for one permit or several.
    fn come(&mut self, client: usize) {
        let number = self.came;
        self.came += 1;
        let most = self.world.timeout;
        let mut a_while = |most: Duration| self.world.a_while(most);
        let (short, long, hold, parting) =
            (a_while(most / 8), a_while(most * 3), a_while(most / 2), a_while(most / 16));
        let random = &mut self.world.random;
        let limit = if self.is_counted { i64::from(MOST_PERMITS) } else { self.ledger.in_force() };
        let permits = if random.bool() { 1 } else { random.u32(1..=u32::try_from(limit).expect("a few")) };
        let call = match random.u8(..10) {
            0..=4 => Call::Acquire,
            5 => Call::AcquireHalfWay(if random.bool() { short } else { long }),
            6 => Call::AcquireTimeout(short),
            7 => Call::AcquireTimeout(long),
            _ => Call::TryAcquire,
        };
        let parting = match random.u8(..5) {
            0..=2 => Parting::Release,
            3 => Parting::Drop,
            _ => Parting::ReleaseHalfWay(parting),
        };
        let plan = Plan { number, permits, call, hold, runs: random.bool(), parting };
        self.world.trace.note(format_args!("of client {client} comes {plan:?}"));
        let worker = Worker {
            semaphore: self.semaphore(client, number.to_string()),
            plan,
            client: self.world.clients[client].clone(),
            server: self.world.server.clone(),
            trace: self.world.trace.clone(),
            ledger: Arc::clone(&self.ledger),
            hurry: self.hurry.subscribe(),
        };
        let task = self.world.server.spawn(&self.world.clients[client], worker.work());
        self.workers.push((number, task));
    }

    /// Cancels a worker at its current await.
    fn dismiss(&mut self) {
        let Some((number, task)) = self.world.random.choice(self.workers.iter_mut()) else { return };
        task.abort();
        self.cancelled += 1;
        self.world.trace.note(format_args!("{number} is dropped"));
    }

    /// Changes the number of permits, as an operator does.
    fn change(&mut self, permits: i32) {
        self.world.trace.note(format_args!("{permits} permits from now on"));
        // Noted before it is written, as it may be read as soon as it is written.
        self.ledger.set(permits);
        self.world.server.set_data_by_hand(COUNT, permits.to_be_bytes()).expect("it exists");
    }

    fn delete_by_hand(&mut self, line: Line) {
        let Some(place) = self.world.random.choice(line.places(&self.world.server)) else { return };
        // Its session may be ending at this moment.
        if self.world.server.delete_by_hand(&place.path).is_err() {
            return;
        }
        // The holder of a lease need not notice. A place in line protects nothing.
        if line.path == LEASES.path {
            self.ledger.depose(place.path.clone());
        }
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("{} is deleted by hand", place.path));
    }

    /// Ends a session by hand, which deletes all of its nodes at once.
    fn expire(&mut self) {
        let client = self.world.a_victim();
        let Some(session) = self.world.clients[client].session_id() else { return };
        self.ledger.depose_session(session, Instant::now() + self.world.timeout);
        self.world.server.expire_session(&self.world.clients[client]);
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("the session of client {client} is ended by hand"));
    }

    /// Lets a process die, and starts another one.
    async fn crash(&mut self) {
        let client = self.world.a_victim();
        self.world.trace.note(format_args!("client {client} dies"));
        self.world.figures.faults += 1;
        self.world.freeze(client);
        // The servers may be unreachable for a while.
        if self.world.connect().await {
            self.come(self.world.clients.len() - 1);
        }
    }

    /// Removes the workers that are done.
    fn settle(&mut self) {
        self.workers.retain_mut(|(_, task)| task.now_or_never().is_none());
    }

    /// Waits until every worker has acquired its permits and left, after healing.
    async fn all_are_done(&mut self) -> Result<(), String> {
        self.hurry.send_replace(true);
        let deadline = Instant::now() + self.world.timeout * 4 + Duration::from_secs(20);
        loop {
            self.settle();
            if self.workers.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let workers: Vec<u64> = self.workers.iter().map(|(number, _)| *number).collect();
                return Err(format!("{workers:?} are not done long after healing; nodes {:?}", self.places()));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
    }

    /// Waits until no node and no watch is left, soon after all are done.
    async fn nothing_is_left(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.world.timeout * 2;
        let mut quiet_since = Instant::now();
        // A call that was dropped may have a create under way, sent before everything was healed.
        while quiet_since.elapsed() < self.world.quiet() {
            self.world.pass(Duration::from_millis(50)).await;
            let (places, watches) = (self.places(), self.world.watches());
            if places.is_empty() && watches == 0 {
                continue;
            }
            quiet_since = Instant::now();
            if quiet_since > deadline {
                return Err(format!("long after all are done there are {watches} watches, and nodes {places:?}"));
            }
        }
        Ok(())
    }

    /// Checks that every client can acquire all permits when no worker is left.
    async fn all_permits_are_free(&mut self) -> Result<(), String> {
        let all = u32::try_from(self.ledger.in_force()).expect("some");
        for client in 0..self.world.clients.len() {
            let semaphore = self.semaphore(client, String::new());
            let got = semaphore.acquire_timeout(all, self.world.timeout * 3).await;
            let guard = got.map_err(|error| format!("client {client} cannot acquire the free permits: {error}"))?;
            let guard = guard.ok_or_else(|| format!("client {client} did not get the free permits"))?;
            guard.release().await.map_err(|error| format!("client {client} cannot release: {error}"))?;
        }
        Ok(())
    }

    fn places(&self) -> Vec<Place> {
        [LINE, LEASES].into_iter().flat_map(|line| line.places(&self.world.server)).collect()
    }
}
