//! Members that come and go all the time: together they always use most of the maximum, and no newcomer waits for
//! long.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep};
use zookeeper_recipes::testing::Task;
use zookeeper_recipes::throughput_balancer::{
    Error, Event, Events, Share, Shares, ThroughputBalancer, set_max_throughput,
};

use super::ledger::Ledger;
use crate::seeds::Outcome;
use crate::world::World;

const BASE: &str = "/throughput";
const MAXIMUM: u64 = 1_000_000;
/// How long members come and go.
const LASTS: Duration = Duration::from_secs(12);
/// How often the use is sampled.
const STEP: Duration = Duration::from_millis(10);
/// A newcomer has a share within this time: half a second of debounce, the others' time to follow, a few messages.
const NEWCOMER: Duration = Duration::from_millis(1_200);
/// A member has left within this time, if it need not wait for another member.
const LEAVING: Duration = Duration::from_millis(500);
/// The longest time that a member takes to apply a share.
const APPLYING: Duration = Duration::from_millis(300);
/// The average use that is required.
const USED: f64 = 0.8;

/// The continuous changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Churn {
    /// Members join.
    Joins,
    /// The oldest member, which leads, is replaced.
    Replaces,
    /// Members join and leave.
    Both,
}

/// How a member applies its share.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// It reads its share whenever it does something.
    Asks,
    /// Like `Asks`, and it keeps a stream from which it has read one share.
    AsksAndForgetsAStream,
    /// Its handler applies each share after this time.
    IsTold(Duration),
    /// Its handler applies its first share above 0, and never returns.
    Hangs,
}

struct Joined {
    balancer: ThroughputBalancer,
    hangs: bool,
    events: Events,
    _stream: Option<Shares>,
}

struct Member {
    number: u64,
    client: usize,
    joined: Joined,
    /// Since when it waits for its first share; `None` once it has one.
    waits: Option<Instant>,
}

type Joining = (u64, usize, Task<Result<Joined, Error>>);

struct Play {
    world: World,
    ledger: Ledger,
    churn: Churn,
    entered: u64,
    joining: Vec<Joining>,
    members: Vec<Member>,
    leaving: Vec<(u64, Instant, Task<()>)>,
    /// The throughput that was applied at each sample.
    used: Vec<u64>,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::default();
    let check = ledger.clone();
    let mut world = World::with_network(seed, 5, 0, move || check.look()).await;
    ledger.watch(&world.server);
    let churn = *world.random.choice(&[Churn::Joins, Churn::Replaces, Churn::Both]).expect("there are three");
    world.trace.note(format_args!("{churn:?}"));
    let (joining, members, leaving, used) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut play = Play { world, ledger: ledger.clone(), churn, entered: 0, joining, members, leaving, used };
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

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        set_max_throughput(&self.world.clients[0], BASE, MAXIMUM).await.expect("nothing is wrong");
        // With `Replaces`, the oldest members are replaced one after the other; one that hangs would prevent that.
        let hangs = self.churn != Churn::Replaces && self.world.random.bool();
        // With more members, one that is replaced takes a smaller share with it.
        let members = if self.churn == Churn::Replaces { 20..=40 } else { 8..=20 };
        for number in 0..self.world.random.u64(members) {
            self.join(if hangs && number == 1 { Some(Way::Hangs) } else { None });
            self.pass(Duration::from_millis(50)).await?;
        }
        self.pass(Duration::from_secs(3)).await?;
        self.used.clear();
        let begun = Instant::now();
        while begun.elapsed() < LASTS {
            let pause = match self.churn {
                Churn::Replaces => self.world.random.u64(100..=150),
                _ => self.world.random.u64(60..=400),
            };
            self.pass(Duration::from_millis(pause)).await?;
            match self.churn {
                Churn::Joins => self.join(None),
                Churn::Replaces => {
                    self.leave(0);
                    self.join(None);
                }
                Churn::Both if self.world.random.bool() && self.members.len() > 8 => {
                    let at = self.world.random.usize(..self.members.len());
                    self.leave(at);
                }
                Churn::Both => self.join(None),
            }
        }
        let used = self.used.iter().sum::<u64>() as f64 / (self.used.len() as u64 * MAXIMUM) as f64;
        let least = self.used.iter().min().copied().unwrap_or(0) as f64 / MAXIMUM as f64;
        self.world.trace.note(format_args!("{used:.3} of the maximum was used, {least:.3} at least"));
        if used < USED {
            return Err(format!("only {used:.3} of the maximum was used, {least:.3} at least, in {:?}", self.churn));
        }
        for member in self.members.drain(..) {
            self.ledger.forget(member.number);
            member.joined.balancer.leave().await;
        }
        for (_, _, joining) in self.joining.drain(..) {
            drop(joining.await);
        }
        self.world.pass(self.world.timeout).await;
        Ok(())
    }

    fn join(&mut self, way: Option<Way>) {
        let (number, client) = (self.entered, self.world.a_client());
        self.entered += 1;
        let way = way.unwrap_or_else(|| match self.world.random.u8(..4) {
            0 => Way::Asks,
            1 => Way::AsksAndForgetsAStream,
            _ => Way::IsTold(APPLYING.mul_f64(self.world.random.f64())),
        });
        self.world.trace.note(format_args!("{number} joins, of client {client}; {way:?}"));
        let (of, ledger) = (self.world.clients[client].clone(), self.ledger.clone());
        let joining = async move {
            let balancer = ThroughputBalancer::builder(&of, BASE).join().await?;
            let mut stream = None;
            match way {
                Way::Asks => ledger.asks(number, balancer.share()),
                Way::AsksAndForgetsAStream => {
                    ledger.asks(number, balancer.share());
                    let mut shares = balancer.shares();
                    shares.next().await;
                    stream = Some(shares);
                }
                Way::IsTold(takes) => drop(balancer.on_share(move |share: Share| {
                    let ledger = ledger.clone();
                    async move {
                        sleep(takes).await;
                        ledger.is_told(number, share);
                    }
                })),
                Way::Hangs => drop(balancer.on_share(move |share: Share| {
                    let ledger = ledger.clone();
                    async move {
                        let hangs = share.throughput() > 0;
                        ledger.is_told(number, share);
                        if hangs {
                            std::future::pending::<()>().await;
                        }
                    }
                })),
            }
            let events = balancer.events();
            Ok(Joined { balancer, hangs: matches!(way, Way::Hangs), events, _stream: stream })
        };
        let joining = self.world.server.spawn(&self.world.clients[client], joining);
        self.joining.push((number, client, joining));
    }

    fn leave(&mut self, at: usize) {
        // A member that hangs takes a session timeout to leave.
        let Some(at) = (at..self.members.len()).find(|&at| !self.members[at].joined.hangs) else { return };
        let Member { number, client, joined, .. } = self.members.remove(at);
        self.world.trace.note(format_args!("{number} leaves"));
        let leaving = async move { joined.balancer.leave().await };
        self.leaving.push((number, Instant::now(), self.world.server.spawn(&self.world.clients[client], leaving)));
    }

    /// Lets time pass, and takes samples.
    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.world.pass(STEP.min(until - Instant::now())).await;
            self.settle()?;
            self.used.push(self.ledger.applied().iter().map(|(_, throughput)| throughput).sum());
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// Notes finished actions.
    fn settle(&mut self) -> Result<(), String> {
        let Play { joining, members, leaving, ledger, world, .. } = self;
        joining.retain_mut(|(number, client, task)| match task.now_or_never() {
            None => true,
            Some(joined) => {
                let joined = joined.expect("no panic").expect("nothing fails");
                members.push(Member { number: *number, client: *client, joined, waits: Some(Instant::now()) });
                false
            }
        });
        leaving.retain_mut(|(number, _, task)| {
            let left = task.now_or_never().is_some();
            if left {
                ledger.forget(*number);
            }
            !left
        });
        if let Some((number, since, _)) = leaving.iter().find(|(_, since, _)| since.elapsed() > LEAVING + APPLYING) {
            return Err(format!("{number} has been leaving for {:?}", since.elapsed()));
        }
        for member in members {
            while let Some(Some(event)) = member.joined.events.next().now_or_never() {
                world.trace.note(format_args!("{}: {event:?}", member.number));
                match event {
                    Event::Settled { .. } => world.figures.turns += 1,
                    Event::TookOver { .. } => world.figures.hand_overs += 1,
                    _ => {}
                }
            }
            match member.waits {
                Some(_) if member.joined.balancer.throughput() > 0 => member.waits = None,
                Some(since) if since.elapsed() > NEWCOMER => {
                    return Err(format!("{} has had no share for {:?}", member.number, since.elapsed()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
