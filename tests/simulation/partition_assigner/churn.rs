//! Members that come and go all the time, while nothing fails: few partitions move, no partition is without an owner
//! for long, and nearly all are owned at each moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep};
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::{Error, Event, Events, Owned, PartitionAssigner};
use zookeeper_recipes::testing::Task;

use super::ledger::{BASE, Ledger, STORE};
use crate::seeds::Outcome;
use crate::world::World;

/// How long members come and go.
const LASTS: Duration = Duration::from_secs(30);
/// How often the owners are sampled.
const STEP: Duration = Duration::from_millis(10);
/// The longest time that work takes to end.
const ENDING: Duration = Duration::from_millis(100);
/// A partition is without an owner for at most this time.
///
/// A member that leaves hands over when its work has ended (100 ms) and then deletes its nodes. The leader hears of
/// both, collects for 10 ms, waits for calm, 500 ms at most, writes, and the next owner takes: that are about 12
/// messages of 5 ms, so 670 ms. If the next owner leaves before it takes, or the leader leaves before it writes, this
/// begins again; a new leader decides at once. Pauses are so long that this hardly ever happens twice in a row: it may
/// take this time thrice.
const UNOWNED: Duration = Duration::from_millis(670 * 3);
/// A member has left within this time.
const LEAVING: Duration = Duration::from_millis(1_000);
/// The share of the time of all partitions in which they must be owned.
const OWNED: f64 = 0.95;

/// The continuous changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Churn {
    Joins,
    /// Members join and leave.
    Both,
    /// Members leave for a restart, and come back.
    Restarts,
}

struct Member {
    number: u64,
    id: String,
    client: usize,
    assigner: Arc<PartitionAssigner>,
    events: Events,
}

struct Joining {
    number: u64,
    id: String,
    client: usize,
    task: Task<Result<PartitionAssigner, Error>>,
}

struct Play {
    world: World,
    ledger: Ledger,
    churn: Churn,
    partitions: u32,
    entered: u64,
    joining: Vec<Joining>,
    members: Vec<Member>,
    leaving: Vec<(u64, Instant, Task<()>)>,
    /// The last owner of each partition, and since when it has none.
    owners: BTreeMap<String, (u64, Option<Instant>)>,
    /// How many partitions may have moved between members that stay, and how many have.
    may_move: u64,
    moved: u64,
    /// How often a member lost a partition and took it again.
    taken_again: u64,
    /// The samples of all partitions, and those in which they were owned.
    samples: (u64, u64),
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::default();
    let check = ledger.clone();
    let mut world = World::with_network(seed, 5, 0, move || check.look()).await;
    ledger.watch(&world);
    world.server.create_by_hand(STORE, "", CreateMode::Persistent).expect("nothing is wrong");
    let churn = *world.random.choice(&[Churn::Joins, Churn::Both, Churn::Restarts]).expect("there are three");
    let partitions = world.random.u32(24..=64);
    world.trace.note(format_args!("{churn:?}, {partitions} partitions"));
    let mut play = Play {
        world,
        ledger: ledger.clone(),
        churn,
        partitions,
        entered: 0,
        joining: Vec::new(),
        members: Vec::new(),
        leaving: Vec::new(),
        owners: BTreeMap::new(),
        may_move: 0,
        moved: 0,
        taken_again: 0,
        samples: (0, 0),
    };
    let played = play.run().await;
    play.members.clear();
    ledger.release();
    let mut world = play.world;
    let mut violation = ledger.violation().or(played.err());
    if violation.is_none() {
        super::play::sweep(&world);
        violation = world.close().await.err();
    }
    if let Some(violation) = &violation {
        world.trace.note(format_args!("VIOLATION: {violation}"));
    }
    Outcome { figures: world.figures, violation, trace: world.trace.lines() }
}

/// Works until another member is to get the partition, and then for a short time.
async fn work(owned: Owned, ledger: Ledger, number: u64, client: usize, of: zookeeper_recipes::Client, ends: Duration) {
    let _at_work = ledger.works(number, client, &of, &owned);
    owned.revoked().await;
    sleep(ends).await;
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        let members = self.world.random.u64(8..=16);
        for number in 0..members {
            self.join(format!("m{number}"));
            self.pass(Duration::from_millis(50)).await?;
        }
        self.pass(Duration::from_secs(3)).await?;
        (self.may_move, self.moved, self.taken_again, self.samples) = (0, 0, 0, (0, 0));
        let begun = Instant::now();
        while begun.elapsed() < LASTS {
            let pause = Duration::from_millis(self.world.random.u64(400..=2_000));
            self.pass(pause).await?;
            match self.churn {
                Churn::Joins => self.join(format!("m{}", self.entered)),
                Churn::Both if self.world.random.bool() && self.members.len() > 8 => {
                    let at = self.world.random.usize(..self.members.len());
                    self.leave(at);
                }
                Churn::Both => self.join(format!("m{}", self.entered)),
                Churn::Restarts => self.restart().await?,
            }
        }
        self.pass(Duration::from_secs(3)).await?;
        self.judge()?;
        for member in self.members.drain(..) {
            member.assigner.leave().await;
        }
        self.world.pass(self.world.timeout).await;
        let left = self.ledger.at_work();
        if left > 0 {
            return Err(format!("{left} futures work after all have left"));
        }
        Ok(())
    }

    /// Compares what happened with what may happen.
    fn judge(&mut self) -> Result<(), String> {
        let share = self.samples.1 as f64 / self.samples.0 as f64;
        let Play { moved, may_move, taken_again, .. } = *self;
        self.world.trace.note(format_args!(
            "{moved} of {may_move} have moved, {taken_again} were taken again; owned {share:.3} of the time"
        ));
        if moved > may_move || taken_again > 0 {
            return Err(format!("{moved} partitions moved, not {may_move}; {taken_again} were taken again"));
        }
        // A member that restarts takes its partitions with it.
        if share < OWNED && self.churn != Churn::Restarts {
            return Err(format!("partitions were owned for {share:.3} of the time"));
        }
        let owners = self.ledger.owners();
        let mut counts: BTreeMap<u64, usize> = self.members.iter().map(|member| (member.number, 0)).collect();
        owners.values().for_each(|owner| *counts.entry(*owner).or_default() += 1);
        let (most, least) = (counts.values().max().copied(), counts.values().min().copied());
        if owners.len() != self.partitions as usize || most > least.map(|least| least + 1) {
            return Err(format!("in the end the members hold {counts:?}"));
        }
        Ok(())
    }

    /// How long the leader waits for a member that is absent.
    fn delay(&self) -> Duration {
        Duration::from_secs(if self.churn == Churn::Restarts { 60 } else { 0 })
    }

    fn join(&mut self, id: String) {
        let (number, client) = (self.entered, self.world.a_client());
        self.entered += 1;
        // A member that restarts gets what it had.
        if self.churn != Churn::Restarts {
            // Others may leave before the next decision: two at most, as pauses are longer.
            let staying = (self.members.len() + self.joining.len()).saturating_sub(2).max(1);
            self.may_move += u64::from(self.partitions).div_ceil(staying as u64 + 1);
        }
        self.world.trace.note(format_args!("{number} joins as {id}, of client {client}"));
        let of = &self.world.clients[client];
        let options = PartitionAssigner::builder(of, BASE)
            .partitions(0..self.partitions)
            .id(id.clone())
            .grace_period(Duration::from_secs(1))
            .rebalance_delay(self.delay());
        let task = self.world.server.spawn(of, options.join());
        self.joining.push(Joining { number, id, client, task });
    }

    fn leave(&mut self, at: usize) {
        let Member { number, client, assigner, .. } = self.members.remove(at);
        self.world.trace.note(format_args!("{number} leaves"));
        let leaving = async move { assigner.leave().await };
        self.leaving.push((number, Instant::now(), self.world.server.spawn(&self.world.clients[client], leaving)));
    }

    /// Lets a member restart with the same id.
    async fn restart(&mut self) -> Result<(), String> {
        if self.members.is_empty() {
            return Ok(());
        }
        let at = self.world.random.usize(..self.members.len());
        let Member { number, client, assigner, id, .. } = self.members.remove(at);
        let mut held = self.ledger.held_by(number);
        self.world.trace.note(format_args!("{number} leaves for a restart"));
        let leaving = async move { assigner.leave_for_restart().await };
        let leaving = self.world.server.spawn(&self.world.clients[client], leaving);
        self.leaving.push((number, Instant::now(), leaving));
        let pause = Duration::from_millis(self.world.random.u64(1_000..=3_000));
        self.pass(pause).await?;
        let next = self.entered;
        self.join(id);
        self.pass(Duration::from_secs(1)).await?;
        let mut now = self.ledger.held_by(next);
        held.sort();
        now.sort();
        if held != now {
            return Err(format!("{number} held {held:?}, and {next}, which is the same member, holds {now:?}"));
        }
        self.moved -= held.len() as u64;
        Ok(())
    }

    /// Lets time pass, and takes samples.
    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.world.pass(STEP.min(until - Instant::now())).await;
            self.settle()?;
            self.sample()?;
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<(), String> {
        let (owners, now) = (self.ledger.owners(), Instant::now());
        self.samples.0 += u64::from(self.partitions);
        self.samples.1 += owners.len() as u64;
        let Play { owners: last, members, churn, taken_again, moved, .. } = self;
        for (partition, owner) in &owners {
            match last.insert(partition.clone(), (*owner, None)) {
                Some((before, since)) if before == *owner => *taken_again += u64::from(since.is_some()),
                // What a member that leaves has held goes to others.
                Some((before, _))
                    if *churn == Churn::Restarts || members.iter().any(|member| member.number == before) =>
                {
                    *moved += 1;
                }
                _ => {}
            }
        }
        let unowned = last.iter_mut().filter(|(partition, _)| !owners.contains_key(*partition));
        for (partition, (before, since)) in unowned {
            let since = *since.get_or_insert(now);
            if now - since > UNOWNED && *churn != Churn::Restarts {
                return Err(format!("{partition}, of {before}, has had no owner for {:?}", now - since));
            }
        }
        Ok(())
    }

    /// Notes finished actions.
    fn settle(&mut self) -> Result<(), String> {
        for mut joining in std::mem::take(&mut self.joining) {
            match (&mut joining.task).now_or_never() {
                None => self.joining.push(joining),
                Some(joined) => {
                    let assigner = Arc::new(joined.expect("no panic").expect("nothing fails"));
                    self.sit(joining, assigner);
                }
            }
        }
        self.leaving.retain_mut(|(_, _, task)| task.now_or_never().is_none());
        if let Some((number, since, _)) = self.leaving.iter().find(|(_, since, _)| since.elapsed() > LEAVING) {
            return Err(format!("{number} has been leaving for {:?}", since.elapsed()));
        }
        let Play { members, world, .. } = self;
        for member in members {
            while let Some(Some(event)) = member.events.next().now_or_never() {
                world.trace.note(format_args!("{}: {event:?}", member.number));
                match event {
                    Event::Settled { .. } => world.figures.turns += 1,
                    Event::TookOver { .. } => world.figures.hand_overs += 1,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn sit(&mut self, joining: Joining, assigner: Arc<PartitionAssigner>) {
        let Joining { number, id, client, .. } = joining;
        self.ledger.sit(number, &id, client, &assigner);
        let (ledger, of, events) = (self.ledger.clone(), self.world.clients[client].clone(), assigner.events());
        let random = Mutex::new(Rng::with_seed(self.world.random.u64(..)));
        let working = Arc::clone(&assigner);
        let runs = of.clone();
        // Dropping the handle of the task leaves it running.
        drop(self.world.server.spawn(&of, async move {
            let begin = move |owned| {
                let ends = ENDING.mul_f64(random.lock().map_or(0.0, |mut random| random.f64()));
                work(owned, ledger.clone(), number, client, runs.clone(), ends)
            };
            // It ends when the member has left.
            drop(working.run(begin).await);
        }));
        self.members.push(Member { number, id, client, assigner, events });
    }
}
