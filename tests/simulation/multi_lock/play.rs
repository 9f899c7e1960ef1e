//! Workers that acquire several locks at once, each some of three.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::multi_lock::{Error, InterProcessMultiLock, MultiLockGuard};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::{Task, TestingServer};
use zookeeper_recipes::{Client, ErrorKind};

use crate::line::{Line, is_there};
use crate::seeds::Outcome;
use crate::trace::Trace;
use crate::watcher::{Holder, Watcher};
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 50;
const MOST_CLIENTS: usize = 7;
const MOST_WORKERS: usize = 8;
const PATHS: [&str; 3] = ["/lock-a", "/lock-b", "/lock-c"];

fn line(path: &'static str) -> Line {
    Line { path, bases: &["lock-"], readers: None, has_ids: false, watches_own: false }
}

/// One lock of a guard, for the watcher of that lock.
struct Part {
    guard: Arc<MultiLockGuard>,
    path: &'static str,
}

impl Holder for Part {
    fn token(&self) -> Option<i64> {
        // The guard holds all locks or none.
        self.guard.is_held().then(|| self.guard.fencing_token(self.path)).flatten()
    }
}

/// How a worker acquires the locks.
#[derive(Debug)]
enum Call {
    Acquire,
    /// `acquire`, dropped after this time.
    AcquireHalfWay(Duration),
    AcquireTimeout(Duration),
    TryAcquire,
}

/// How a worker releases the locks.
#[derive(Debug)]
enum Parting {
    Release,
    Drop,
    /// `release`, dropped after this time.
    ReleaseHalfWay(Duration),
}

#[derive(Debug)]
struct Plan {
    number: u64,
    paths: Vec<&'static str>,
    call: Call,
    hold: Duration,
    runs: bool,
    parting: Parting,
}

struct Worker {
    plan: Plan,
    locks: InterProcessMultiLock,
    client: Client,
    server: TestingServer,
    trace: Trace,
    watchers: [Arc<Watcher>; 3],
    hurry: watch::Receiver<bool>,
}

struct Play {
    world: World,
    watchers: [Arc<Watcher>; 3],
    came: u64,
    workers: Vec<(u64, Task<()>)>,
    hurry: watch::Sender<bool>,
    cancelled: u64,
}

/// Runs one seed.
pub(super) async fn run(seed: u64) -> Outcome {
    let watchers = PATHS.map(|path| Arc::new(Watcher::new(line(path))));
    let check = watchers.clone();
    let world = World::new(seed, move || check.iter().for_each(|watcher| watcher.look())).await;
    for watcher in &watchers {
        watcher.watch(&world);
    }
    let (workers, hurry) = (Vec::new(), watch::Sender::new(false));
    let mut play = Play { world, watchers: watchers.clone(), came: 0, workers, hurry, cancelled: 0 };
    let played = play.run().await;
    let Play { mut world, cancelled, .. } = play;
    let mut violation = None;
    for watcher in &watchers {
        watcher.release();
        let seen = watcher.seen();
        world.figures.turns += seen.turns;
        world.figures.hand_overs += seen.hand_overs;
        violation = violation.or(seen.violation);
    }
    world.figures.cancelled = cancelled;
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: violation.or(played.err()), trace: world.trace.lines() }
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
            self.act().await;
            if self.watchers.iter().any(|watcher| watcher.seen().violation.is_some()) {
                break;
            }
        }
        self.world.heal();
        self.all_are_done().await?;
        self.nothing_is_left().await?;
        self.world.close().await
    }

    async fn act(&mut self) {
        match self.world.random.u8(..20) {
            0..=8 if self.workers.len() < MOST_WORKERS => {
                let client = self.world.a_client();
                self.come(client);
            }
            0..=8 => {}
            9..=10 => self.dismiss(),
            11 => self.delete_by_hand(),
            12 => self.expire(),
            13 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            _ => self.world.fault(),
        }
    }

    /// Starts a worker for one, two or all of the locks, named in any order.
    fn come(&mut self, client: usize) {
        let number = self.came;
        self.came += 1;
        let most = self.world.timeout;
        let mut a_while = |most: Duration| self.world.a_while(most);
        let (short, long, hold, parting) =
            (a_while(most / 8), a_while(most * 3), a_while(most / 2), a_while(most / 16));
        let random = &mut self.world.random;
        let mut paths = PATHS.to_vec();
        random.shuffle(&mut paths);
        paths.truncate(random.usize(1..=PATHS.len()));
        let call = match random.u8(..10) {
            0..=4 => Call::Acquire,
            5 => Call::AcquireHalfWay(if random.bool() { short } else { long }),
            6..=7 => Call::AcquireTimeout(if random.bool() { short } else { long }),
            8 => Call::AcquireTimeout(long),
            _ => Call::TryAcquire,
        };
        let parting = match random.u8(..5) {
            0..=2 => Parting::Release,
            3 => Parting::Drop,
            _ => Parting::ReleaseHalfWay(parting),
        };
        let plan = Plan { number, paths, call, hold, runs: random.bool(), parting };
        self.world.trace.note(format_args!("of client {client} comes {plan:?}"));
        let client = self.world.clients[client].clone();
        let locks = plan
            .paths
            .iter()
            .map(|path| InterProcessMutex::builder(&client, *path).data(number.to_string()).build().expect("a mutex"));
        let worker = Worker {
            locks: InterProcessMultiLock::of(locks).expect("good locks"),
            plan,
            client: client.clone(),
            server: self.world.server.clone(),
            trace: self.world.trace.clone(),
            watchers: self.watchers.clone(),
            hurry: self.hurry.subscribe(),
        };
        self.workers.push((number, self.world.server.spawn(&client, worker.work())));
    }

    /// Cancels a worker at its current await.
    fn dismiss(&mut self) {
        let Some((number, task)) = self.world.random.choice(self.workers.iter_mut()) else { return };
        task.abort();
        self.cancelled += 1;
        self.world.trace.note(format_args!("{number} is dropped"));
    }

    fn delete_by_hand(&mut self) {
        let at = self.world.random.usize(..PATHS.len());
        let line = line(PATHS[at]).places(&self.world.server);
        let Some(place) = self.world.random.choice(line) else { return };
        // Its session may be ending at this moment.
        if self.world.server.delete_by_hand(&place.path).is_err() {
            return;
        }
        // Its holder need not notice, and the other locks are not touched: only this one may have two holders.
        self.watchers[at].depose(place.czxid, None);
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("{} is deleted by hand", place.path));
    }

    /// Ends a session by hand, which deletes all of its nodes at once.
    fn expire(&mut self) {
        let client = self.world.a_victim();
        let Some(session) = self.world.clients[client].session_id() else { return };
        for watcher in &self.watchers {
            watcher.depose_session(session, Instant::now() + self.world.timeout);
        }
        self.world.server.expire_session(&self.world.clients[client]);
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("the session of client {client} is ended by hand"));
    }

    /// Lets a process die, and starts another one.
    async fn crash(&mut self) {
        if let Some(client) = self.world.crash().await {
            self.come(client);
        }
    }

    /// Removes the workers that are done.
    fn settle(&mut self) {
        self.workers.retain_mut(|(_, task)| task.now_or_never().is_none());
    }

    /// Waits until every worker has acquired its locks and left, after healing.
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
                let lines = PATHS.map(|path| line(path).places(&self.world.server));
                return Err(format!("{workers:?} are not done long after healing; lines {lines:?}"));
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
            let places = PATHS.map(|path| line(path).places(&self.world.server));
            let watches = self.world.watches();
            if places.iter().all(Vec::is_empty) && watches == 0 {
                continue;
            }
            quiet_since = Instant::now();
            if quiet_since > deadline {
                return Err(format!("long after all are done there are {watches} watches, and places {places:?}"));
            }
        }
        Ok(())
    }
}

impl Worker {
    async fn work(self) {
        let Some(guard) = self.ask().await else { return };
        let guard = Arc::new(guard);
        let mut parts = Vec::new();
        for (path, watcher) in PATHS.into_iter().zip(&self.watchers) {
            if self.plan.paths.contains(&path) {
                let part = Arc::new(Part { guard: Arc::clone(&guard), path });
                watcher.sit(self.plan.number, &self.client, &part);
                parts.push(part);
            }
        }
        self.hold(&guard).await;
        drop(parts);
        let guard = Arc::into_inner(guard).expect("the watchers hold none");
        self.part(guard).await;
    }

    async fn ask(&self) -> Option<MultiLockGuard> {
        let begun = Instant::now();
        let got = match self.plan.call {
            Call::Acquire => self.locks.acquire().await.map(Some),
            Call::AcquireHalfWay(time) => match timeout(time, self.locks.acquire()).await {
                Ok(got) => got.map(Some),
                Err(_) => return None,
            },
            Call::AcquireTimeout(within) => self.locks.acquire_timeout(within).await,
            Call::TryAcquire => self.locks.try_acquire().await,
        };
        let tokens = |guard: &MultiLockGuard| guard.node_paths().map(str::to_owned).collect::<Vec<_>>();
        self.note(format_args!(
            "gets {:?} after {:?}",
            got.as_ref().map(|got| got.as_ref().map(tokens)),
            begun.elapsed()
        ));
        match got {
            Ok(Some(guard)) => Some(guard),
            Ok(None) => {
                self.nothing_is_left();
                None
            }
            Err(error) => {
                let may = match self.plan.call {
                    Call::Acquire | Call::AcquireHalfWay(_) => false,
                    _ => matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut),
                };
                if !may {
                    self.object(format_args!("its call failed: {error}"));
                }
                None
            }
        }
    }

    /// Checks that a call that returned `None` has left no node at any of the locks.
    fn nothing_is_left(&self) {
        let ours = self.plan.number.to_string().into_bytes();
        let mut left = PATHS.into_iter().flat_map(|path| line(path).places(&self.server));
        if let Some(left) = left.find(|place| place.data == ours && place.is_connected(&self.server)) {
            self.object(format_args!("it did not get the locks, but left {left:?}"));
        }
    }

    /// Works under the locks for the planned time, or until all workers have to hurry.
    async fn hold(&self, guard: &MultiLockGuard) {
        let mut hurry = self.hurry.clone();
        let enough = async {
            // This also ends when the sender is dropped, at the end of the seed.
            let hurried = async { drop(hurry.wait_for(|hurry| *hurry).await) };
            let _ = timeout(self.plan.hold, hurried).await;
            sleep(Duration::from_millis(2)).await;
        };
        if !self.plan.runs {
            return enough.await;
        }
        if guard.run(enough).await.is_err() && guard.is_held() {
            self.object("run() reports the locks as lost, but is_held() does not");
        }
    }

    async fn part(&self, guard: MultiLockGuard) {
        let nodes: Vec<_> = guard
            .paths()
            .zip(guard.node_paths())
            .map(|(path, node)| (node.to_owned(), guard.fencing_token(path).expect("it is one of them")))
            .collect();
        match self.plan.parting {
            Parting::Drop => drop(guard),
            Parting::Release => {
                let held = guard.is_held();
                let released = guard.release().await;
                self.note(format_args!("has released: {released:?}"));
                match released {
                    Ok(()) if !held => self.object("it released lost locks, but release() did not report the loss"),
                    Ok(()) => {
                        if let Some((node, _)) = nodes.iter().find(|(node, token)| is_there(&self.server, node, *token))
                        {
                            self.object(format_args!("it has released the locks, but left {node}"));
                        }
                    }
                    Err(Error::Lost { .. }) if !held => {}
                    Err(Error::Lost { .. }) => self.object("it held the locks, but release() reports a loss"),
                    Err(error) if error.kind() != ErrorKind::SessionLost => {
                        self.object(format_args!("it could not release the locks: {error}"));
                    }
                    Err(_) => {}
                }
            }
            Parting::ReleaseHalfWay(time) => {
                let _ = timeout(time, guard.release()).await;
            }
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("{} {what}", self.plan.number));
    }

    fn object(&self, what: impl std::fmt::Display) {
        self.watchers[0].object(format!("{}: {what}", self.plan.number));
    }
}
