//! The workers that use a lock, and when they start.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::testing::Task;
use zookeeper_recipes::{Client, mutex};

use crate::line::Line;
use crate::lock::Lock;
use crate::stage::{Play, Stage};
use crate::worker::{Asked, Call, Count, Grip, Parting, Plan, Worker};
use crate::world::World;

const MOST_WORKERS: usize = 8;
const MOST_OBJECTS: usize = 4;

/// The lock recipe under test.
pub(crate) trait Recipe {
    const LINE: Line;

    /// Returns a lock of this client whose nodes have this data.
    fn lock(client: &Client, data: String, random: &mut Rng) -> Lock;
}

/// A lock object that several tasks may use.
struct Object {
    client: usize,
    lock: Lock,
}

/// A running worker.
struct Working {
    number: u64,
    task: Task<()>,
}

pub(crate) struct Workshop<R> {
    came: u64,
    objects: Vec<Object>,
    workers: Vec<Working>,
    /// Set once everything is healed: from then on, the lock is held only briefly.
    hurry: watch::Sender<bool>,
    cancelled: Arc<Count>,
    asked: Arc<Asked>,
    recipe: PhantomData<R>,
}

impl<R: Recipe> Play for Workshop<R> {
    const LINE: Line = R::LINE;

    fn new(_stage: &mut Stage) -> Self {
        Workshop {
            came: 0,
            objects: Vec::new(),
            workers: Vec::new(),
            hurry: watch::Sender::new(false),
            cancelled: Arc::default(),
            asked: Arc::default(),
            recipe: PhantomData,
        }
    }

    /// Starts a worker with a lock object of its own.
    fn enter(&mut self, stage: &mut Stage, client: usize) {
        let World { clients, random, .. } = &mut stage.world;
        let lock = R::lock(&clients[client], self.came.to_string(), random);
        let plan = self.plan(stage, true);
        self.work(stage, client, lock, plan);
    }

    async fn act(&mut self, stage: &mut Stage) {
        match stage.world.random.u8(..10) {
            0..=5 if self.workers.len() < MOST_WORKERS => self.come(stage),
            0..=5 => {}
            6..=7 => self.dismiss(stage),
            8 => self.revoke(stage),
            _ => self.change_objects(stage),
        }
    }

    /// Removes the workers that are done.
    fn settle(&mut self, stage: &mut Stage) {
        self.workers.retain_mut(|working| (&mut working.task).now_or_never().is_none());
        stage.world.figures.cancelled = self.cancelled.get();
    }

    /// Waits until every worker has acquired the lock and left; then checks that the lock is free.
    async fn end(&mut self, stage: &mut Stage) -> Result<(), String> {
        self.hurry.send_replace(true);
        let deadline = Instant::now() + stage.patience();
        loop {
            self.settle(stage);
            if self.workers.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                let workers: Vec<u64> = self.workers.iter().map(|working| working.number).collect();
                return Err(format!("{workers:?} are not done long after healing; line {:?}", stage.places()));
            }
            stage.world.pass(Duration::from_millis(50)).await;
        }
        self.objects.clear();
        stage.until_all_have_left().await?;
        self.free(stage).await
    }
}

impl<R: Recipe> Workshop<R> {
    /// Starts a worker, with a shared lock object or one of its own.
    fn come(&mut self, stage: &mut Stage) {
        let object = stage.world.random.choice(self.objects.iter());
        let Some((client, lock)) = object.map(|object| (object.client, object.lock.clone())) else {
            let client = stage.world.a_client();
            return self.enter(stage, client);
        };
        if stage.world.random.u8(..3) == 0 {
            return self.enter(stage, client);
        }
        let plan = self.plan(stage, false);
        self.work(stage, client, lock, plan);
    }

    fn plan(&mut self, stage: &mut Stage, alone: bool) -> Plan {
        let number = self.came;
        self.came += 1;
        let most = stage.world.timeout;
        let mut a_while = |most: Duration| stage.world.a_while(most);
        let (short, long, hold, parting) = (a_while(most / 8), a_while(most * 3), a_while(most), a_while(most / 16));
        let random = &mut stage.world.random;
        let call = match random.u8(..12) {
            0..=5 => Call::Acquire,
            6 => Call::AcquireHalfWay(if random.bool() { short } else { long }),
            7..=8 => Call::AcquireTimeout(short),
            9..=10 => Call::AcquireTimeout(long),
            _ => Call::TryAcquire,
        };
        let grip = match random.u8(..6) {
            0..=2 => Grip::Bare,
            3 => Grip::Run,
            4 => Grip::UntilLost,
            _ => Grip::UntilRevoked,
        };
        let parting = match random.u8(..6) {
            0..=2 => Parting::Release,
            3 => Parting::Drop,
            4 => Parting::ReleaseHalfWay(Duration::ZERO),
            _ => Parting::ReleaseHalfWay(parting),
        };
        Plan { number, alone, call, grip, hold, again: random.u8(..4) == 0, parting }
    }

    fn work(&mut self, stage: &mut Stage, client: usize, lock: Lock, plan: Plan) {
        stage.world.trace.note(format_args!("of client {client} comes {plan:?}"));
        let client_of = stage.world.clients[client].clone();
        let number = plan.number;
        let worker = Worker {
            plan,
            lock,
            line: R::LINE,
            client: client_of.clone(),
            client_number: client,
            timeout: stage.world.timeout,
            server: stage.world.server.clone(),
            trace: stage.world.trace.clone(),
            thaws: stage.world.thaws.clone(),
            watcher: Arc::clone(&stage.watcher),
            hurry: self.hurry.subscribe(),
            cancelled: Arc::clone(&self.cancelled),
            asked: Arc::clone(&self.asked),
        };
        let task = stage.world.server.spawn(&client_of, worker.work());
        self.workers.push(Working { number, task });
    }

    /// Cancels a worker at its current await.
    fn dismiss(&mut self, stage: &mut Stage) {
        let Some(working) = stage.world.random.choice(self.workers.iter_mut()) else { return };
        working.task.abort();
        self.cancelled.add();
        stage.world.trace.note(format_args!("{} is dropped", working.number));
    }

    /// Asks a participant to release.
    fn revoke(&mut self, stage: &mut Stage) {
        let line = stage.places();
        let Some(place) = stage.world.random.choice(line) else { return };
        let client = stage.world.a_client();
        stage.world.trace.note(format_args!("client {client} revokes {}", place.path));
        self.asked.add(&place.path);
        let client = stage.world.clients[client].clone();
        let asking = client.clone();
        stage.world.server.spawn(&client, async move {
            // It may fail with its session.
            let _ = mutex::revoke(&asking, &place.path).await;
        });
    }

    /// Adds an object, or drops one while its locks may be held or waited for.
    fn change_objects(&mut self, stage: &mut Stage) {
        if self.objects.len() == MOST_OBJECTS {
            let gone = stage.world.random.usize(..MOST_OBJECTS);
            self.objects.remove(gone);
            return;
        }
        let client = stage.world.a_client();
        let World { clients, random, .. } = &mut stage.world;
        let lock = R::lock(&clients[client], String::new(), random);
        self.objects.push(Object { client, lock });
    }

    /// Checks that every client can acquire the lock when no worker is left.
    async fn free(&mut self, stage: &mut Stage) -> Result<(), String> {
        let within = stage.patience();
        let World { clients, random, .. } = &mut stage.world;
        for (number, client) in clients.iter().enumerate() {
            let lock = R::lock(client, String::new(), random);
            let got = lock.acquire_timeout(within).await;
            let guard = got.map_err(|error| format!("client {number} cannot acquire the free lock: {error:?}"))?;
            let guard = guard.ok_or_else(|| format!("client {number} did not get the free lock"))?;
            guard.release().await.map_err(|error| format!("client {number} cannot release: {error:?}"))?;
            let tried = lock.try_acquire().await;
            let tried = tried.map_err(|error| format!("client {number} cannot try the free lock: {error:?}"))?;
            drop(tried.ok_or_else(|| format!("client {number} finds the free lock taken"))?);
        }
        Ok(())
    }
}
