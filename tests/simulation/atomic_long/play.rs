//! Handles of several processes change one number; it is written and deleted by hand as well.

use std::time::Duration;

use futures::{FutureExt, poll};
use tokio::time::{Instant, timeout};
use zookeeper_recipes::atomic_long::{DistributedAtomicLong, Error};
use zookeeper_recipes::testing::{Operation, Task};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::call::{Call, Ended, PATH, parsed};
use crate::history::{End, History};
use crate::seeds::Outcome;
use crate::world::World;

const LOCK: &str = "/lock";
/// The number of actions in a seed.
const ACTS: usize = 80;
const MOST_CLIENTS: usize = 7;
const MOST_HANDLES: usize = 10;
/// Numbers that are set are multiples of this; numbers that are added are smaller.
const SET: i64 = 1 << 40;
/// Numbers that are added are multiples of this; their sums stay below `SET`.
const ADD: i64 = 1 << 12;

struct Handle {
    client: usize,
    number: DistributedAtomicLong,
}

struct Under {
    id: usize,
    client: usize,
    task: Task<Result<Ended, Error>>,
}

struct Play {
    world: World,
    history: History<Call>,
    handles: Vec<Handle>,
    calls: Vec<Under>,
    /// The number of the next call.
    next: usize,
    /// Calls that have ended, to be compared again in the end.
    ended: Vec<(usize, End)>,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let history = History::new(PATH);
    let check = history.clone();
    let world = World::new(seed, move || check.look()).await;
    history.watch(&world.server);
    let mut play = Play { world, history, handles: Vec::new(), calls: Vec::new(), next: 0, ended: Vec::new() };
    let played = play.run().await;
    play.history.outcome(play.world, played)
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.open(client);
        }
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle()?;
            self.act().await?;
            if self.history.violation().is_some() {
                return Ok(());
            }
        }
        self.world.heal();
        self.finish().await?;
        self.leave().await?;
        self.world.sweep(PATH);
        self.world.close().await
    }

    /// Opens another handle of this client, by chance one with a lock.
    fn open(&mut self, client: usize) {
        if self.handles.len() >= MOST_HANDLES {
            return;
        }
        let mut builder = DistributedAtomicLong::builder(&self.world.clients[client], PATH);
        let tries = self.world.random.u32(..6);
        if tries < 3 {
            builder = builder.promoted_to_lock(LOCK).optimistic_tries(tries);
        }
        self.world.trace.note(format_args!("client {client} has a handle, tries {tries}"));
        if let Ok(number) = builder.build() {
            self.handles.push(Handle { client, number });
        }
    }

    async fn act(&mut self) -> Result<(), String> {
        match self.world.random.u8(..32) {
            0..=13 => self.call().await?,
            14..=15 => {
                let client = self.world.a_client();
                self.open(client);
            }
            16 => self.forget(),
            17 => self.drop_call(),
            18 => self.write_by_hand(),
            19 => self.delete_by_hand(),
            20..=22 => self.world.lose_a_reply(Operation::Multi),
            23 => self.world.expire(),
            24 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            _ => self.world.fault(),
        }
        Ok(())
    }

    /// Makes a call on a handle, by chance several at once.
    async fn call(&mut self) -> Result<(), String> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let at = self.world.random.usize(..self.handles.len());
        for _ in 0..self.world.random.u8(1..=3) {
            let id = self.next;
            self.next += 1;
            let number = i64::try_from(id).expect("few calls") + 1;
            let seen = self.held();
            let call = match self.world.random.u8(..12) {
                0 => Call::Set(number * SET),
                1..=2 => Call::Swap { expected: seen.unwrap_or(0), new: number * SET },
                3 => Call::Initialize(number * SET),
                _ => Call::Add(number * ADD),
            };
            self.begin(at, id, call).await?;
        }
        Ok(())
    }

    async fn begin(&mut self, at: usize, id: usize, call: Call) -> Result<(), String> {
        let Handle { client, number } = &self.handles[at];
        let (client, number) = (*client, number.clone());
        self.history.begins(id, call);
        let is_dropped = self.world.random.u8(..12) == 0;
        self.world.trace.note(format_args!("{id} of client {client}: {call:?}, dropped: {is_dropped}"));
        let work = async move { call.on(&number).await };
        if is_dropped && !self.world.server.is_frozen(&self.world.clients[client]) {
            let mut work = Box::pin(work);
            for _ in 0..self.world.random.u8(1..4) {
                if let std::task::Poll::Ready(outcome) = poll!(&mut work) {
                    return self.end(id, outcome);
                }
                tokio::task::yield_now().await;
            }
            drop(work);
            self.world.figures.cancelled += 1;
            self.ended.push((id, End::Unknown));
            return Ok(());
        }
        let task = self.world.server.spawn(&self.world.clients[client], work);
        self.calls.push(Under { id, client, task });
        Ok(())
    }

    fn held(&self) -> Option<i64> {
        self.world.server.get(PATH).as_deref().and_then(parsed)
    }

    fn end(&mut self, id: usize, outcome: Result<Ended, Error>) -> Result<(), String> {
        self.world.trace.note(format_args!("{id} ends: {outcome:?}"));
        let end = match &outcome {
            Ok((true, _)) => End::Done,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => End::Unknown,
            Ok((false, _)) | Err(_) => End::NotDone,
        };
        self.world.figures.turns += u64::from(end == End::Done);
        self.history.ended(id, end);
        self.ended.push((id, end));
        let Ok((_, Some(told))) = outcome else { return Ok(()) };
        let made = self.history.made(id);
        let made =
            made.and_then(|(before, after)| Some((before.as_deref().and_then(parsed).unwrap_or(0), parsed(&after)?)));
        if made == Some(told) { Ok(()) } else { Err(format!("call {id} returned {told:?}, but made {made:?}")) }
    }

    /// Drops a handle; its calls continue.
    fn forget(&mut self) {
        if self.handles.len() > 1 {
            let at = self.world.random.usize(..self.handles.len());
            self.handles.swap_remove(at);
            self.world.trace.note("a handle is dropped");
        }
    }

    fn drop_call(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let at = self.world.random.usize(..self.calls.len());
        let Under { id, mut task, .. } = self.calls.swap_remove(at);
        self.world.trace.note(format_args!("{id} is dropped"));
        task.abort();
        self.world.figures.cancelled += 1;
        self.ended.push((id, End::Unknown));
    }

    /// Returns the data for a write by hand.
    fn by_hand(&mut self) -> Vec<u8> {
        self.next += 1;
        let number = -i64::try_from(self.next).expect("few calls") * SET;
        let data = number.to_be_bytes().to_vec();
        self.history.by_hand(data.clone());
        data
    }

    fn write_by_hand(&mut self) {
        if self.world.server.stat(PATH).is_some() {
            let data = self.by_hand();
            self.world.trace.note(format_args!("{:?} is written by hand", parsed(&data)));
            self.world.server.set_data_by_hand(PATH, data).expect("it is there");
        }
    }

    /// Deletes a handle's node by hand; by chance all of them, and the number.
    fn delete_by_hand(&mut self) {
        let nodes = self.world.server.children(PATH);
        let all = self.world.random.bool();
        let one = self.world.random.usize(..nodes.len().max(1));
        for (at, name) in nodes.iter().enumerate() {
            if all || at == one {
                // Its session may be ending at this moment.
                let _ = self.world.server.delete_by_hand(&format!("{PATH}/{name}"));
            }
        }
        if all && self.world.server.delete_by_hand(PATH).is_ok() && self.world.random.bool() {
            let data = self.by_hand();
            let created = self.world.server.create_by_hand(PATH, data, CreateMode::Persistent);
            created.expect("it was deleted");
        }
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("deleted by hand: {}, all: {all}", nodes.len()));
    }

    async fn crash(&mut self) {
        if let Some(client) = self.world.crash().await {
            self.open(client);
        }
    }

    /// Notes which calls have ended.
    fn settle(&mut self) -> Result<(), String> {
        for mut under in std::mem::take(&mut self.calls) {
            match (&mut under.task).now_or_never() {
                None => self.calls.push(under),
                Some(Ok(outcome)) => self.end(under.id, outcome)?,
                Some(Err(_)) => return Err(format!("call {} of client {} has no result", under.id, under.client)),
            }
        }
        Ok(())
    }

    /// Checks that after healing all calls end, and each handle can add.
    async fn finish(&mut self) -> Result<(), String> {
        // Sessions are given up, and many calls of one handle take turns.
        let patience = self.world.timeout * 4 + Duration::from_secs(60);
        let deadline = Instant::now() + patience;
        self.world.pass(self.world.quiet()).await;
        while !self.calls.is_empty() {
            self.settle()?;
            if Instant::now() > deadline {
                let left: Vec<_> = self.calls.iter().map(|under| (under.id, under.client)).collect();
                return Err(format!("long after everything was healed, calls are under way: {left:?}"));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
        for at in 0..self.handles.len() {
            let number = self.handles[at].number.clone();
            // The reply to a handle whose node was deleted may still be lost.
            while !self.add_in_the_end(&number, patience).await? {}
            let read = timeout(patience, number.get()).await.map_err(|_| "a read does not end".to_owned())?;
            let held = self.held();
            if read != Ok(held.unwrap_or(0)) {
                return Err(format!("{read:?} was read, but the node has {held:?}"));
            }
        }
        for (id, end) in self.ended.clone() {
            self.history.ended(id, end);
        }
        Ok(())
    }

    /// Adds a last time. Returns whether the outcome is known.
    async fn add_in_the_end(&mut self, number: &DistributedAtomicLong, patience: Duration) -> Result<bool, String> {
        let id = self.next;
        self.next += 1;
        let call = Call::Add(i64::try_from(id).expect("few calls") * ADD + ADD);
        self.history.begins(id, call);
        self.world.trace.note(format_args!("{id}: {call:?}, in the end"));
        let added = timeout(patience, call.on(number)).await;
        let added = added.map_err(|_| format!("the last call {id} does not end"))?;
        let is_known = match &added {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => false,
            Err(error) => return Err(format!("the last call {id} failed: {error}")),
        };
        self.end(id, added)?;
        Ok(is_known)
    }

    /// Drops all handles, and waits until no node is left but the number.
    async fn leave(&mut self) -> Result<(), String> {
        self.handles.clear();
        let deadline = Instant::now() + self.world.timeout * 4 + Duration::from_secs(20);
        loop {
            self.world.pass(Duration::from_millis(50)).await;
            let server = &self.world.server;
            let (nodes, locks, watches) = (server.children(PATH), server.children(LOCK), self.world.watches());
            if nodes.is_empty() && locks.is_empty() && watches == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("long after all have left there are {watches} watches, {nodes:?} and {locks:?}"));
            }
        }
    }
}
