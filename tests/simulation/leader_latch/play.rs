//! The actions of participants.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use zookeeper_recipes::leader_latch::{Error, LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::Task;

use super::ranks::{a_priority, is_ranked};
use super::requests::{Requests, grace};
use crate::line::{Line, Place};
use crate::stage::{Play, Stage};
use crate::watcher::Holder;

const MOST_SEATS: usize = 8;

impl Holder for LeaderLatch {
    fn token(&self) -> Option<i64> {
        let leads = self.has_leadership();
        leads.then(|| Some(self.state().get().leadership()?.fencing_token())).flatten()
    }
}

/// A participant.
#[derive(Clone)]
struct Seat {
    number: u64,
    client: usize,
    latch: Arc<LeaderLatch>,
    grace: Option<Duration>,
}

pub(crate) struct Election {
    entered: u64,
    seats: Vec<Seat>,
    closing: Vec<(u64, Task<Result<(), Error>>)>,
    requests: Requests,
}

impl Play for Election {
    const LINE: Line = Line { path: "/election", bases: &["latch-"], readers: None, has_ids: true, watches_own: true };

    fn new(_stage: &mut Stage) -> Self {
        Election { entered: 0, seats: Vec::new(), closing: Vec::new(), requests: Requests::default() }
    }

    fn enter(&mut self, stage: &mut Stage, client: usize) {
        let number = self.entered;
        self.entered += 1;
        let (grace, priority) = (grace(stage), a_priority(stage));
        let client_of = &stage.world.clients[client];
        let mut latch = LeaderLatch::builder(client_of, Self::LINE.path).id(number.to_string());
        if let Some(grace) = grace {
            latch = latch.revocable(grace);
        }
        if let Some(priority) = priority {
            latch = latch.priority(priority);
        }
        let latch = Arc::new(latch.start().expect("a latch"));
        stage.world.trace.note(format_args!(
            "{number} enters, of client {client}, with {grace:?} to resign and the priority {priority:?}"
        ));
        stage.watcher.sit(number, client_of, &latch);
        self.seats.push(Seat { number, client, latch, grace });
    }

    async fn act(&mut self, stage: &mut Stage) {
        match stage.world.random.u8(..16) {
            0..=4 if self.seats.len() < MOST_SEATS => {
                let client = stage.world.a_client();
                self.enter(stage, client);
            }
            0..=4 => {}
            5..=6 => {
                if let Some(seat) = self.a_seat(stage) {
                    self.close(stage, seat);
                }
            }
            7 => self.leave(stage),
            8 => self.hesitate(stage).await,
            9..=10 => self.cancel(stage).await,
            11..=12 => self.requests.ask(stage),
            13..=14 => self.requests.transfer(stage, &Self::LINE),
            _ => self.resign(stage),
        }
    }

    /// Removes the participants that have closed.
    fn settle(&mut self, stage: &mut Stage) {
        self.requests.settle(stage);
        self.closing.retain_mut(|(number, closing)| {
            let Some(closed) = closing.now_or_never() else { return true };
            stage.world.trace.note(format_args!("{number} has closed: {closed:?}"));
            self.seats.retain(|seat| seat.number != *number);
            false
        });
    }

    async fn end(&mut self, stage: &mut Stage) -> Result<(), String> {
        self.one_leader(stage).await?;
        for seat in self.seats.drain(..) {
            let closed = seat.latch.close().await;
            closed.map_err(|error| format!("{} was not closed: {error}", seat.number))?;
        }
        Ok(())
    }
}

impl Election {
    /// Picks a participant, unless it is closing.
    fn a_seat(&mut self, stage: &mut Stage) -> Option<Seat> {
        let seat = stage.world.random.choice(self.seats.iter())?;
        let closing = self.closing.iter().any(|(number, _)| *number == seat.number);
        (!closing).then(|| seat.clone())
    }

    /// Closes a latch, which is checked until that is done.
    fn close(&mut self, stage: &mut Stage, seat: Seat) {
        stage.world.trace.note(format_args!("{} closes", seat.number));
        let client = &stage.world.clients[seat.client];
        let closing = stage.world.server.spawn(client, async move { seat.latch.close().await });
        self.closing.push((seat.number, closing));
    }

    /// Enters, and closes the latch before that is done.
    async fn hesitate(&mut self, stage: &mut Stage) {
        let client = stage.world.a_client();
        self.enter(stage, client);
        let Some(seat) = self.seats.last().cloned() else { return };
        let time = stage.world.a_while(Duration::from_millis(100));
        stage.world.pass(time).await;
        self.close(stage, seat);
    }

    /// Drops a latch without closing it.
    fn leave(&mut self, stage: &mut Stage) {
        let Some(seat) = self.a_seat(stage) else { return };
        stage.world.trace.note(format_args!("{} is dropped", seat.number));
        self.seats.retain(|other| other.number != seat.number);
    }

    /// Lets a leader resign by itself.
    fn resign(&mut self, stage: &mut Stage) {
        let Some(seat) = self.seats.iter().find(|seat| seat.latch.has_leadership()) else { return };
        if let Some(leadership) = seat.latch.state().get().leadership() {
            // Polled once, it is done; the term ends when the task of the latch runs.
            let _ = seat.latch.resign(&leadership).now_or_never();
            stage.world.trace.note(format_args!("{} resigns", seat.number));
        }
    }

    /// Returns whether this participant resigns in the end when it is asked.
    fn makes_room(&self, number: u64) -> bool {
        let seat = self.seats.iter().find(|seat| seat.number == number);
        seat.and_then(|seat| seat.grace).is_some_and(|grace| grace < Duration::MAX)
    }

    /// Makes a call and drops it half way.
    async fn cancel(&mut self, stage: &mut Stage) {
        let Some(seat) = stage.world.random.choice(self.seats.iter()).cloned() else { return };
        let (number, latch) = (seat.number, Arc::clone(&seat.latch));
        let which = stage.world.random.u8(..4);
        let call = async move {
            match which {
                0 => drop(latch.wait_for_leadership().await),
                1 => drop(latch.participants().await),
                2 => drop(latch.leader().await),
                _ => drop(latch.observe_leader().take(3).collect::<Vec<_>>().await),
            }
        };
        let mut call = stage.world.server.spawn(&stage.world.clients[seat.client], call);
        drop(seat);
        let most = stage.world.timeout / 2;
        let time = stage.world.a_while(most);
        stage.world.pass(time).await;
        if (&mut call).now_or_never().is_none() {
            call.abort();
            stage.world.figures.cancelled += 1;
            stage.world.trace.note(format_args!("call {which} of {number} is cancelled"));
        }
    }

    /// Checks that after healing there is one leader within a bounded time, which is first in line, and that every
    /// latch is in line when the line moves, and that none with a lower number waits for one with a higher one. (A
    /// waiter whose node was deleted may find out only when it lists the line, before it leads.)
    async fn one_leader(&mut self, stage: &mut Stage) -> Result<(), String> {
        let mut deadline = Instant::now() + stage.patience();
        let mut moves = 0;
        loop {
            self.settle(stage);
            if self.seats.is_empty() {
                // No latch entered, or all have closed.
                let client = stage.world.a_client();
                self.enter(stage, client);
            }
            stage.world.pass(Duration::from_millis(50)).await;
            self.settle(stage);
            let (leaders, line) = (stage.watcher.holders(), stage.places());
            let settled = self
                .seats
                .iter()
                .all(|seat| matches!(seat.latch.state().get().status(), LatchStatus::Waiting | LatchStatus::Leading));
            if let [(leader, token)] = leaders[..]
                && settled
                && self.closing.is_empty()
                && self.requests.is_empty()
                && let Some(first) = line.first()
                && first.czxid == token
                && line.len() <= self.seats.len()
                && is_ranked(&line, self.makes_room(leader))
            {
                if line.len() == self.seats.len() {
                    if is_calm(stage, &line).await {
                        return Ok(());
                    }
                // Each move wakes the next in line, so there are no more moves than participants.
                } else if moves < self.seats.len() && stage.world.server.delete_by_hand(&first.path).is_ok() {
                    stage
                        .world
                        .trace
                        .note(format_args!("{} are missing in the line: it moves", self.seats.len() - line.len()));
                    stage.watcher.depose(token, Some(Instant::now() + stage.world.timeout));
                    moves += 1;
                    deadline = Instant::now() + stage.patience();
                    continue;
                }
            }
            if Instant::now() > deadline {
                let seats: Vec<String> = self.seats.iter().map(|seat| format!("{:?}", seat.latch)).collect();
                return Err(format!("no leader after healing: leaders {leaders:?}, line {line:?}, seats {seats:?}"));
            }
        }
    }
}

/// Returns whether no participant moves for a while. One whose grace period ends then has a reason to.
async fn is_calm(stage: &mut Stage, line: &[Place]) -> bool {
    let time = stage.world.timeout / 4;
    stage.world.pass(time).await;
    let paths = |line: &[Place]| line.iter().map(|place| place.path.clone()).collect::<Vec<_>>();
    paths(line) == paths(&stage.places())
}
