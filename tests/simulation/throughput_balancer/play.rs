//! The actions of members.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep};
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::testing::{Loss, Operation, Task};
use zookeeper_recipes::throughput_balancer::{
    Error, Event, Events, OnSuspended, Share, ThroughputBalancer, set_max_throughput,
};

use super::ledger::Ledger;
use crate::seeds::Outcome;
use crate::world::World;

const BASE: &str = "/throughput";
/// The number of actions in a seed.
const ACTS: u64 = 50;
const MOST_MEMBERS: usize = 8;

/// A member.
struct Seat {
    number: u64,
    client: usize,
    events: Events,
    balancer: ThroughputBalancer,
}

/// The members that have had the due share since it last changed.
#[derive(Default)]
struct Served {
    due: u64,
    members: BTreeSet<u64>,
}

impl Served {
    fn look(&mut self, due: u64, seats: &[Seat]) {
        if self.due != due {
            *self = Served { due, members: BTreeSet::new() };
        }
        // The granted share, not the applied one: a handler may take longer than such a lease lasts.
        self.members.extend(seats.iter().filter(|seat| seat.balancer.throughput() == due).map(|seat| seat.number));
    }
}

type Joining = (u64, usize, Task<Result<(ThroughputBalancer, Events), Error>>);

struct Play {
    world: World,
    ledger: Ledger,
    entered: u64,
    joining: Vec<Joining>,
    seats: Vec<Seat>,
    /// Members that are leaving, which apply a share until they are gone.
    leaving: Vec<(u64, Task<()>)>,
    /// Members of processes that have died.
    dead: Vec<Seat>,
}

/// How a member applies its share.
#[derive(Debug)]
enum Way {
    /// It reads its share whenever it does something.
    Asks,
    /// Like `Asks`, and it applies up to this without a lease.
    AsksWithRest(u64),
    /// Its handler applies each share after this time.
    IsTold(Duration),
    /// It has a limiter.
    IsLimited(ShareLimiter),
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::default();
    let check = ledger.clone();
    let world = World::new(seed, move || check.look()).await;
    ledger.watch(&world.server);
    let (joining, seats, leaving, dead) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut play = Play { world, ledger: ledger.clone(), entered: 0, joining, seats, leaving, dead };
    let played = play.run().await;
    play.seats.clear();
    ledger.release();
    let mut world = play.world;
    world.trace.note_records(&world.server);
    let mut violation = ledger.violation().or(played.err());
    if violation.is_none() {
        sweep(&world);
        violation = world.close().await.err();
    }
    if let Some(violation) = &violation {
        world.trace.note(format_args!("VIOLATION: {violation}"));
    }
    Outcome { figures: world.figures, violation, trace: world.trace.lines() }
}

/// Deletes the directories, which the recipe leaves.
pub(super) fn sweep(world: &World) {
    let mut paths = world.server.paths();
    paths.retain(|path| path.starts_with(BASE));
    for path in paths.iter().rev() {
        world.sweep(path);
    }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        self.set_maximum().await;
        for act in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle();
            self.act(act).await;
            if self.world.random.u8(..4) == 0 {
                self.world.fault();
            }
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        // Only the nodes of dead members are left.
        self.dead.clear();
        self.world.heal();
        self.end().await
    }

    /// Returns a maximum that the seed has at no other time.
    fn a_maximum(&mut self) -> u64 {
        let unit = self.world.figures.turns + self.world.figures.hand_overs + self.world.figures.faults;
        self.world.random.u64(..20) * 100_000 + unit
    }

    async fn set_maximum(&mut self) {
        let maximum = self.a_maximum();
        set_max_throughput(&self.world.clients[0], BASE, maximum).await.expect("nothing is wrong yet");
    }

    async fn act(&mut self, number: u64) {
        match self.world.random.u8(..16) {
            0..=3 if self.seats.len() + self.joining.len() < MOST_MEMBERS => self.join(),
            0..=3 => {}
            4..=5 => self.change_the_maximum(number),
            6 => self.leave(),
            7 => {
                if let Some(seat) = self.take_a_seat() {
                    self.world.trace.note(format_args!("{} is dropped", seat.number));
                    // A dropped handle must apply nothing more; a limiter stops by itself.
                    drop(seat.balancer);
                    self.ledger.look();
                    self.ledger.forget(seat.number);
                }
            }
            8 => {
                if let Some(call) = self.joining.pop() {
                    self.world.trace.note(format_args!("{} joins no more", call.0));
                    self.world.figures.cancelled += 1;
                    let mut task = call.2;
                    task.abort();
                }
            }
            9 => self.delete_by_hand("client"),
            10 => self.delete_by_hand("leader"),
            11 => {
                let client = self.world.a_client();
                let loss = if self.world.random.bool() { Loss::Applied } else { Loss::NotApplied };
                self.world.server.lose_next_reply(&self.world.clients[client], Operation::Multi, loss);
                self.world
                    .trace
                    .note(format_args!("the next reply to a multi of client {client} will be lost, {loss:?}"));
            }
            12 => self.die().await,
            13 => self.depose_in_the_middle(number).await,
            _ => self.hit_a_leader(),
        }
    }

    fn change_the_maximum(&mut self, number: u64) {
        let (maximum, client) = (self.a_maximum() + number * 1_000, self.world.a_client());
        self.world.trace.note(format_args!("the maximum is set to {maximum}"));
        let client = self.world.clients[client].clone();
        let set = async move { drop(set_max_throughput(&client, BASE, maximum).await) };
        drop(self.world.server.spawn(&self.world.clients[0], set));
    }

    /// Deletes the leader's node while the leader has something to write.
    async fn depose_in_the_middle(&mut self, number: u64) {
        self.change_the_maximum(number);
        let time = self.world.a_while(Duration::from_millis(100));
        self.world.pass(time).await;
        let line = self.world.server.children(&format!("{BASE}/leader"));
        let Some(first) = line.iter().min_by_key(|name| name.rsplit('-').next()) else { return };
        self.world.trace.note(format_args!("{first}, which leads, is deleted by hand"));
        self.world.figures.faults += 1;
        self.world.sweep(&format!("{BASE}/leader/{first}"));
    }

    /// Lets a process die, the leader's if there is one: it applies and sends nothing any more. Starts another one.
    async fn die(&mut self) {
        let (leader, any) = (self.seats.iter().find(|seat| seat.balancer.is_leader()), self.world.a_client());
        let client = leader.map_or(any, |seat| seat.client);
        self.world.trace.note(format_args!("client {client} dies"));
        self.world.figures.faults += 1;
        self.world.freeze(client);
        let died: Vec<Seat> = self.seats.extract_if(.., |seat| seat.client == client).collect();
        for seat in &died {
            self.ledger.forget(seat.number);
        }
        self.dead.extend(died);
        self.world.connect().await;
    }

    fn join(&mut self) {
        let (number, client) = (self.entered, self.world.a_client());
        self.entered += 1;
        let quiet = Duration::from_millis(if self.world.random.bool() { 0 } else { 200 });
        let way = match self.world.random.u8(..4) {
            0 => Way::Asks,
            3 => Way::AsksWithRest(self.world.random.u64(..1_000_000)),
            // A member that leaves waits for its handler for at most a session timeout, which is at least two ticks.
            1 => Way::IsTold(self.world.a_while(self.world.tick)),
            _ => Way::IsLimited(ShareLimiter::new(0)),
        };
        self.world.trace.note(format_args!("{number} joins, of client {client}; {way:?}"));
        let (of, ledger) = (self.world.clients[client].clone(), self.ledger.clone());
        let joining = async move {
            let mut builder = ThroughputBalancer::builder(&of, BASE).debounce(quiet, quiet * 10);
            if let Way::IsLimited(limiter) = &way {
                ledger.is_limited(number, limiter.clone());
                builder = builder.limiter(limiter);
            }
            if let Way::AsksWithRest(most) = &way {
                builder = builder.on_suspended(OnSuspended::AtMost(*most));
            }
            let balancer = builder.join().await?;
            match way {
                Way::IsLimited(_) => {}
                Way::Asks => ledger.asks(number, balancer.share()),
                Way::AsksWithRest(_) => ledger.asks_with_rest(number, balancer.share()),
                Way::IsTold(takes) => drop(balancer.on_share(move |share: Share| {
                    let ledger = ledger.clone();
                    async move {
                        sleep(takes).await;
                        ledger.is_told(number, share);
                    }
                })),
            }
            let events = balancer.events();
            Ok((balancer, events))
        };
        let joining = self.world.server.spawn(&self.world.clients[client], joining);
        self.joining.push((number, client, joining));
    }

    fn take_a_seat(&mut self) -> Option<Seat> {
        if self.seats.is_empty() {
            return None;
        }
        let at = self.world.random.usize(..self.seats.len());
        Some(self.seats.remove(at))
    }

    fn leave(&mut self) {
        let Some(seat) = self.take_a_seat() else { return };
        self.world.trace.note(format_args!("{} leaves", seat.number));
        let leaving = async move { seat.balancer.leave().await };
        self.leaving.push((seat.number, self.world.server.spawn(&self.world.clients[seat.client], leaving)));
    }

    fn delete_by_hand(&mut self, directory: &str) {
        let directory = format!("{BASE}/{directory}");
        let names = self.world.server.children(&directory);
        let Some(name) = self.world.random.choice(names.iter()) else { return };
        self.world.trace.note(format_args!("{directory}/{name} is deleted by hand"));
        self.world.figures.faults += 1;
        self.world.sweep(&format!("{directory}/{name}"));
    }

    /// Injects a fault that hits the leader more often than other members.
    fn hit_a_leader(&mut self) {
        let leader = self.seats.iter().find(|seat| seat.balancer.is_leader());
        self.world.focus = leader.and_then(|seat| self.world.clients[seat.client].session_id());
        self.world.fault();
    }

    /// Notes finished actions.
    fn settle(&mut self) {
        self.ledger.look_for_late_writes();
        let Play { joining, seats, leaving, ledger, world, .. } = self;
        joining.retain_mut(|(number, client, task)| match task.now_or_never() {
            None => true,
            Some(Ok(Ok((balancer, events)))) => {
                world.trace.note(format_args!("{number} is {:?}", balancer.member_id()));
                seats.push(Seat { number: *number, client: *client, events, balancer });
                false
            }
            Some(outcome) => {
                world.trace.note(format_args!("{number} has not joined: {outcome:?}"));
                false
            }
        });
        leaving.retain_mut(|(number, task)| {
            let left = task.now_or_never().is_some();
            if left {
                ledger.forget(*number);
            }
            !left
        });
        for seat in seats {
            while let Some(Some(event)) = seat.events.next().now_or_never() {
                world.trace.note(format_args!("{}: {event:?}", seat.number));
                match event {
                    Event::Settled { maximum, .. } => {
                        world.figures.turns += 1;
                        ledger.settled(maximum);
                    }
                    Event::TookOver { .. } => world.figures.hand_overs += 1,
                    _ => {}
                }
            }
        }
    }

    /// Checks that after healing every member has its due share, and keeps it unless leases expire all the time; then
    /// all leave.
    async fn end(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.world.timeout * 6 + Duration::from_secs(60);
        let mut calm_since = Instant::now();
        let mut served = Served::default();
        loop {
            self.world.pass(Duration::from_millis(100)).await;
            self.settle();
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
            let maximum = self.ledger.maximum().unwrap_or(0);
            let each = maximum.checked_div(self.seats.len() as u64).unwrap_or(0);
            let shares = self.ledger.applied();
            let is_seated = |number| self.seats.iter().any(|seat| seat.number == number);
            let all_are_there = self.joining.is_empty() && self.leaving.is_empty();
            // The handler of a dropped member may have been called with a last share.
            let calm = all_are_there
                && shares.iter().all(|(number, throughput)| *throughput == if is_seated(*number) { each } else { 0 });
            served.look(each, &self.seats);
            let done = if self.world.leases_may_expire() {
                all_are_there && self.seats.iter().all(|seat| served.members.contains(&seat.number))
            } else {
                calm && calm_since.elapsed() > Duration::from_secs(5)
            };
            if done {
                break;
            } else if !calm {
                calm_since = Instant::now();
            }
            if Instant::now() > deadline {
                let (dir, seats) = (format!("{BASE}/client"), self.seats.iter().map(|seat| seat.number));
                let records = self.world.server.children(&dir).into_iter().map(|name| {
                    let data = self.world.server.get(&format!("{dir}/{name}")).unwrap_or_default();
                    (name, String::from_utf8_lossy(&data).into_owned())
                });
                return Err(format!(
                    "after healing some members lack {each} of {maximum}: applied {shares:?}, seats {:?}, {:?}, {:?}",
                    seats.collect::<Vec<_>>(),
                    records.collect::<Vec<_>>(),
                    self.world.server.children(&format!("{BASE}/ack")),
                ));
            }
        }
        for seat in self.seats.drain(..) {
            seat.balancer.leave().await;
        }
        // A dropped member leaves in the background.
        self.world.pass(self.world.timeout * 3).await;
        for directory in ["client", "ack", "leader"] {
            let left = self.world.server.children(&format!("{BASE}/{directory}"));
            if !left.is_empty() {
                return Err(format!("all have left, but not from {directory}: {left:?}"));
            }
        }
        Ok(())
    }
}
