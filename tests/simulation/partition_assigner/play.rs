//! The actions of members.

mod end;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::{Error, Event, Events, PartitionAssigner};
use zookeeper_recipes::testing::{Loss, Operation, Task};

use super::hands::Hands;
use super::ledger::{BASE, Ledger, STORE};
use super::worker::{Worker, write};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: u64 = 50;
const MOST_MEMBERS: usize = 7;
const MOST_CLIENTS: usize = 10;
/// The ids of members.
const IDS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j~k"];
/// The longest pause before work that ended by itself is started again, and before a leader tries again.
const PAUSES: Duration = Duration::from_secs(30);

/// A member.
struct Seat {
    number: u64,
    id: &'static str,
    client: usize,
    is_candidate: bool,
    assigner: Arc<PartitionAssigner>,
    events: Events,
    worker: Arc<Worker>,
    /// What it does with its partitions.
    at_work: Option<Task<()>>,
}

impl Seat {
    /// Drops everything that the process does, and the handle.
    fn vanish(mut self) {
        if let Some(mut at_work) = self.at_work.take() {
            at_work.abort();
        }
    }
}

/// A member that joins.
struct Joining {
    number: u64,
    id: &'static str,
    client: usize,
    is_candidate: bool,
    task: Task<Result<PartitionAssigner, Error>>,
}

struct Play {
    world: World,
    ledger: Ledger,
    hands: Hands,
    delay: Duration,
    is_weighted: bool,
    entered: u64,
    joining: Vec<Joining>,
    seats: Vec<Seat>,
    /// Members that leave, and what they still do.
    leaving: Vec<(u64, Task<()>, Option<Task<()>>)>,
    /// Work of members that have left, which must end.
    ending: Vec<(u64, Task<()>)>,
    /// Members of processes that have died.
    dead: Vec<Seat>,
    hurry: watch::Sender<bool>,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::default();
    let check = ledger.clone();
    let mut world = World::new(seed, move || check.look()).await;
    ledger.watch(&world);
    let delay = if world.random.u8(..3) == 0 { world.timeout * world.random.u32(1..=6) } else { Duration::ZERO };
    let is_weighted = world.random.u8(..8) == 0;
    world.trace.note(format_args!("rebalanced after {delay:?}; weighted: {is_weighted}"));
    let hands = Hands::new(&mut world, !delay.is_zero());
    world.server.create_by_hand(STORE, "", CreateMode::Persistent).expect("nothing is wrong yet");
    let mut play = Play {
        world,
        ledger: ledger.clone(),
        hands,
        delay,
        is_weighted,
        entered: 0,
        joining: Vec::new(),
        seats: Vec::new(),
        leaving: Vec::new(),
        ending: Vec::new(),
        dead: Vec::new(),
        hurry: watch::Sender::new(false),
    };
    let played = play.run().await;
    play.seats.drain(..).chain(play.dead.drain(..)).for_each(Seat::vanish);
    ledger.release();
    let mut world = play.world;
    world.trace.note_records(&world.server);
    world.trace.note(format_args!("{} moves, {} writes", ledger.moves(), ledger.writes()));
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

/// Deletes the directories, which the recipe leaves, and the nodes of the seed itself.
pub(super) fn sweep(world: &World) {
    let mut paths = world.server.paths();
    paths.retain(|path| path.starts_with(BASE) || path == STORE || path == "/list");
    for path in paths.iter().rev() {
        world.sweep(path);
    }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle();
            self.act().await;
            if self.world.random.u8(..4) == 0 {
                self.world.fault();
            }
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        // Only the nodes of dead members are left.
        self.dead.drain(..).for_each(Seat::vanish);
        self.world.heal();
        self.hurry.send_replace(true);
        self.end().await
    }

    async fn act(&mut self) {
        match self.world.random.u8(..24) {
            0..=4 if self.seats.len() + self.joining.len() < MOST_MEMBERS => self.join(None),
            0..=4 => {}
            5..=6 => self.leave(),
            7 => {
                if let Some(seat) = self.take_a_seat() {
                    self.world.trace.note(format_args!("{} is dropped", seat.number));
                    seat.vanish();
                }
            }
            8 => {
                if let Some(mut call) = self.joining.pop() {
                    self.world.trace.note(format_args!("{} joins no more", call.number));
                    self.ledger.is_back(call.id);
                    self.world.figures.cancelled += 1;
                    call.task.abort();
                }
            }
            9 => self.stop_or_start_work(),
            10 => self.release(),
            11..=12 => self.write_late(),
            13..=14 => self.hands.meddle(&mut self.world),
            15 => {
                let ids: Vec<&str> = self.seats.iter().map(|seat| seat.id).collect();
                self.hands.configure(&mut self.world, &self.ledger, &ids);
            }
            16 if self.hands.is_listed() => self.hands.change_the_set(&mut self.world, &self.ledger),
            16..=17 => {
                let client = self.world.a_client();
                let loss = if self.world.random.bool() { Loss::Applied } else { Loss::NotApplied };
                self.world.server.lose_next_reply(&self.world.clients[client], Operation::Multi, loss);
                let of = format!("the next reply to a multi of client {client} will be lost, {loss:?}");
                self.world.trace.note(of);
            }
            18..=19 if self.world.clients.len() < MOST_CLIENTS => self.die().await,
            20 => self.expire(),
            _ => self.hit_a_leader(),
        }
    }

    /// Returns an id that no member has, or sometimes any.
    fn an_id(&mut self) -> &'static str {
        let used: BTreeSet<&str> =
            self.seats.iter().map(|seat| seat.id).chain(self.joining.iter().map(|joining| joining.id)).collect();
        let any = self.world.random.u8(..16) == 0;
        let free: Vec<&'static str> = IDS.into_iter().filter(|id| any || !used.contains(id)).collect();
        self.world.random.choice(free).unwrap_or(IDS[0])
    }

    fn join(&mut self, id: Option<&'static str>) {
        let id = id.unwrap_or_else(|| self.an_id());
        let client = self.world.a_client();
        let is_candidate = self.world.random.u8(..4) > 0;
        self.join_with(id, client, is_candidate);
    }

    fn join_with(&mut self, id: &'static str, client: usize, is_candidate: bool) {
        let number = self.entered;
        self.entered += 1;
        let quiet = Duration::from_millis(if self.world.random.bool() { 0 } else { 200 });
        let grace = match self.world.random.u8(..3) {
            0 => Duration::ZERO,
            _ => self.world.a_while(Duration::from_secs(1)),
        };
        let weight = if self.is_weighted { self.world.random.u64(1..=3) } else { 1 };
        let of = self.world.clients[client].clone();
        let options = PartitionAssigner::builder(&of, BASE)
            .partitions(self.hands.source())
            .id(id)
            .weight(weight)
            .candidate(is_candidate)
            .debounce(quiet, quiet * 5)
            .grace_period(grace)
            .rebalance_delay(self.delay);
        self.world.trace.note(format_args!(
            "{number} joins as {id}, of client {client}, a candidate: {is_candidate}, quiet {quiet:?}, grace {grace:?}"
        ));
        let task = self.world.server.spawn(&of, options.join());
        self.joining.push(Joining { number, id, client, is_candidate, task });
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
        self.let_leave(seat);
    }

    fn let_leave(&mut self, seat: Seat) {
        let number = seat.number;
        let (comes_back, is_dropped) = (self.world.random.u8(..3) == 0, self.world.random.u8(..4) == 0);
        self.world.trace.note(format_args!("{number} leaves; for a restart: {comes_back}, dropped: {is_dropped}"));
        let assigner = seat.assigner;
        self.world.figures.cancelled += u64::from(is_dropped);
        let leaving = async move {
            let leave = async {
                if comes_back {
                    assigner.leave_for_restart().await;
                } else {
                    assigner.leave().await;
                }
            };
            if is_dropped {
                // The member leaves in the background.
                let _ = leave.now_or_never();
            } else {
                leave.await;
            }
        };
        let leaving = self.world.server.spawn(&self.world.clients[seat.client], leaving);
        self.leaving.push((number, leaving, seat.at_work));
    }

    /// Returns whether no other member has this id.
    fn is_only(&self, id: &str) -> bool {
        let others = self.seats.iter().map(|seat| seat.id).chain(self.joining.iter().map(|joining| joining.id));
        !others.chain(self.dead.iter().map(|seat| seat.id)).any(|other| other == id)
    }

    /// Drops the future that works, or calls it again.
    fn stop_or_start_work(&mut self) {
        let Some(seat) = self.world.random.choice(self.seats.iter_mut()) else { return };
        match seat.at_work.take() {
            Some(mut at_work) => {
                self.world.trace.note(format_args!("{} stops work", seat.number));
                self.world.figures.cancelled += 1;
                at_work.abort();
            }
            None => {
                self.world.trace.note(format_args!("{} starts work", seat.number));
                seat.at_work = Some(start_work(&mut self.world, seat.client, &seat.assigner, &seat.worker));
            }
        }
    }

    fn release(&mut self) {
        let holds = self.ledger.holds();
        let Some(owned) = self.world.random.choice(holds) else { return };
        self.world.trace.note(format_args!("{owned:?} is released"));
        owned.release();
        if owned.is_held() {
            self.ledger.object(format!("{owned:?} was released"));
        }
    }

    /// Writes under a hold that is probably over.
    fn write_late(&mut self) {
        let random = self.world.random.u64(..);
        let Some((client, owned)) = self.ledger.an_old_hold(random) else { return };
        let (client, most) = (self.world.clients[client].clone(), self.world.timeout);
        self.world.server.spawn(&client.clone(), async move { write(&client, &owned, most).await });
    }

    /// Lets a process die, and perhaps its members come back with the same ids in another process.
    async fn die(&mut self) {
        let leader = self.seats.iter().find(|seat| seat.assigner.is_leader()).map(|seat| seat.client);
        let any = self.world.a_client();
        let client = leader.filter(|_| self.world.random.bool()).unwrap_or(any);
        self.world.hit(format_args!("client {client} dies"));
        self.world.freeze(client);
        let died: Vec<Seat> = self.seats.extract_if(.., |seat| seat.client == client).collect();
        let comes_back = self.world.connect().await && self.world.random.u8(..3) > 0;
        for seat in &died {
            if !self.delay.is_zero() && self.is_only(seat.id) {
                self.ledger.reserve(seat.number, &self.world.clients[client], Instant::now() + self.delay);
            }
            if comes_back {
                self.join_with(seat.id, self.world.clients.len() - 1, seat.is_candidate);
            }
        }
        self.dead.extend(died);
    }

    /// Ends a session by hand: its members do not know it at once.
    fn expire(&mut self) {
        let client = self.world.a_victim();
        self.ledger.excuse(client, Instant::now() + self.world.timeout);
        self.world.server.expire_session(&self.world.clients[client]);
        self.world.hit(format_args!("the session of client {client} is ended by hand"));
    }

    /// Injects a fault that hits the leader more often than other members.
    fn hit_a_leader(&mut self) {
        let leader = self.seats.iter().find(|seat| seat.assigner.is_leader());
        self.world.focus = leader.and_then(|seat| self.world.clients[seat.client].session_id());
        self.world.fault();
    }

    /// Notes finished actions.
    fn settle(&mut self) {
        for mut joining in std::mem::take(&mut self.joining) {
            match (&mut joining.task).now_or_never() {
                None => self.joining.push(joining),
                Some(Ok(Ok(assigner))) => self.sit(joining, assigner),
                Some(outcome) => {
                    self.world.trace.note(format_args!("{} has not joined: {outcome:?}", joining.number));
                }
            }
        }
        for (number, mut task, at_work) in std::mem::take(&mut self.leaving) {
            match (&mut task).now_or_never() {
                None => self.leaving.push((number, task, at_work)),
                Some(left) => {
                    self.world.trace.note(format_args!("{number} has left: {left:?}"));
                    self.ending.extend(at_work.map(|at_work| (number, at_work)));
                }
            }
        }
        self.ending.retain_mut(|(_, task)| task.now_or_never().is_none());
        let Play { seats, world, ledger, .. } = self;
        for seat in seats {
            while let Some(Some(event)) = seat.events.next().now_or_never() {
                world.trace.note(format_args!("{}: {event:?}", seat.number));
                match event {
                    Event::Settled { .. } => world.figures.turns += 1,
                    Event::TookOver { .. } => world.figures.hand_overs += 1,
                    Event::Registered { member } => ledger.is_back(&member),
                    _ => {}
                }
            }
        }
    }

    fn sit(&mut self, joining: Joining, assigner: PartitionAssigner) {
        let Joining { number, id, client, is_candidate, .. } = joining;
        self.ledger.is_back(id);
        self.world.trace.note(format_args!("{number} has joined"));
        let assigner = Arc::new(assigner);
        self.ledger.sit(number, id, client, &assigner);
        let worker = Arc::new(Worker {
            number,
            client: self.world.clients[client].clone(),
            client_number: client,
            longest: self.world.a_while(self.world.timeout),
            random: Mutex::new(Rng::with_seed(self.world.random.u64(..))),
            ledger: self.ledger.clone(),
            hurry: self.hurry.subscribe(),
        });
        let events = assigner.events();
        let at_work = Some(start_work(&mut self.world, client, &assigner, &worker));
        self.seats.push(Seat { number, id, client, is_candidate, assigner, events, worker, at_work });
    }
}

/// Starts what a member does with its partitions: it works on each, or follows the changes.
fn start_work(world: &mut World, client: usize, assigner: &Arc<PartitionAssigner>, worker: &Arc<Worker>) -> Task<()> {
    let (worker, of) = (Arc::clone(worker), world.clients[client].clone());
    if world.random.u8(..3) == 0 {
        return world.server.spawn(&of, worker.follow(assigner.changes()));
    }
    let assigner = Arc::clone(assigner);
    world.server.spawn(&of, async move {
        let ledger = worker.ledger.clone();
        let number = worker.number;
        // An earlier call may not have been dropped yet.
        if let Err(error) = assigner.run(move |owned| Arc::clone(&worker).work(owned)).await {
            ledger.note(format_args!("{number} does not work: {error}"));
        }
    })
}
