//! The participants, and what is done to them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::leader_selector::{Error, LeaderSelector, Outcomes, RequeuePolicy, RunningTerm, SelectorStatus};
use zookeeper_recipes::testing::{Dialect, Operation, Target, Task};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::ledger::Ledger;
use super::listener::Leader;
use crate::line::Line;
use crate::stage::{Play, Stage};
use crate::watcher::Holder;

const MOST_SEATS: usize = 8;

impl Holder for LeaderSelector {
    fn token(&self) -> Option<i64> {
        self.has_leadership().then(|| self.state().get().fencing_token()).flatten()
    }
}

/// A participant.
#[derive(Clone)]
struct Seat {
    number: u64,
    client: usize,
    selector: Arc<LeaderSelector>,
    ledger: Ledger,
}

pub(crate) struct Terms {
    entered: u64,
    seats: Vec<Seat>,
    closing: Vec<(u64, Task<Result<(), Error>>)>,
    /// The ledgers of all participants that ever entered.
    ledgers: Vec<(u64, Ledger)>,
    hurry: watch::Sender<bool>,
}

impl Play for Terms {
    const LINE: Line = Line { path: "/terms", bases: &["lock-"], readers: None, has_ids: true, watches_own: true };

    fn new(_stage: &mut Stage) -> Self {
        let hurry = watch::Sender::new(false);
        Terms { entered: 0, seats: Vec::new(), closing: Vec::new(), ledgers: Vec::new(), hurry }
    }

    async fn begin(&mut self, stage: &mut Stage) {
        if stage.world.random.u8(..8) == 0 {
            self.denied(stage).await;
        }
    }

    fn enter(&mut self, stage: &mut Stage, client: usize) {
        let number = self.entered;
        self.entered += 1;
        let ledger = Ledger::default();
        let most = stage.world.timeout;
        let mut now_and_then = |most: Duration| {
            let time = stage.world.a_while(most);
            if stage.world.random.bool() { time } else { Duration::ZERO }
        };
        let (delay, jitter, yield_to_others) = (now_and_then(most / 2), now_and_then(most / 2), now_and_then(most / 2));
        let (grace, longest) = (now_and_then(most), stage.world.a_while(most * 2));
        let policy = RequeuePolicy { delay, jitter, yield_to_others };
        let auto = stage.world.random.u8(..3) > 0;
        stage.world.trace.note(format_args!(
            "{number} enters, of client {client}: {policy:?} {auto}, grace {grace:?}, terms of up to {longest:?}"
        ));
        let client_of = stage.world.clients[client].clone();
        let leader = Leader {
            number,
            client: client_of.clone(),
            client_number: client,
            longest,
            grace,
            random: Mutex::new(Rng::with_seed(stage.world.random.u64(..))),
            ledger: ledger.clone(),
            server: stage.world.server.clone(),
            watcher: Arc::clone(&stage.watcher),
            thaws: stage.world.thaws.clone(),
            hurry: self.hurry.subscribe(),
        };
        let builder = LeaderSelector::builder(&client_of, Self::LINE.path).id(number.to_string()).grace_period(grace);
        let builder = if auto { builder.auto_requeue(policy) } else { builder };
        let selector = Arc::new(builder.start(leader).expect("a selector"));
        stage.watcher.sit(number, &client_of, &selector);
        stage.world.server.spawn(&client_of, follow(stage, number, client, selector.outcomes(), ledger.clone()));
        self.ledgers.push((number, ledger.clone()));
        self.seats.push(Seat { number, client, selector, ledger });
    }

    async fn act(&mut self, stage: &mut Stage) {
        match stage.world.random.u8(..10) {
            0..=2 if self.seats.len() < MOST_SEATS => {
                let client = stage.world.a_client();
                self.enter(stage, client);
            }
            0..=3 => self.requeue(stage),
            4..=5 => self.interrupt(stage),
            6 => self.close(stage),
            7 => self.leave(stage),
            _ => self.cancel(stage).await,
        }
    }

    /// Removes the participants that have closed.
    fn settle(&mut self, stage: &mut Stage) {
        self.closing.retain_mut(|(number, closing)| {
            let Some(closed) = closing.now_or_never() else { return true };
            stage.world.trace.note(format_args!("{number} has closed: {closed:?}"));
            let runs = self.seats.iter().any(|seat| seat.number == *number && seat.ledger.is_running());
            if runs || !matches!(closed, Ok(Ok(()))) {
                stage.watcher.object(format!("{number} closed: {closed:?}, and its listener is running: {runs}"));
            }
            self.seats.retain(|seat| seat.number != *number);
            false
        });
    }

    async fn end(&mut self, stage: &mut Stage) -> Result<(), String> {
        self.hurry.send_replace(true);
        self.turns_for_all(stage).await?;
        for seat in self.seats.drain(..) {
            let closed = seat.selector.close().await;
            closed.map_err(|error| format!("{} was not closed: {error}", seat.number))?;
            let status = seat.selector.state().get().status();
            if status != SelectorStatus::Closed {
                return Err(format!("{} has closed, but is {status}", seat.number));
            }
        }
        self.ledgers_are_right(stage).await
    }
}

/// Records what a selector reports about its terms.
fn follow(
    stage: &Stage,
    number: u64,
    client: usize,
    mut outcomes: Outcomes,
    ledger: Ledger,
) -> impl Future<Output = ()> + Send + use<> {
    let (world, watcher) = (&stage.world, Arc::clone(&stage.watcher));
    let (server, trace, client) = (world.server.clone(), world.trace.clone(), world.clients[client].clone());
    async move {
        while let Some(outcome) = outcomes.next().await {
            let token = outcome.fencing_token;
            trace.note(format_args!("term {token} of {number} is over: {}", outcome.end));
            let places = Terms::LINE.places(&server);
            let left = places.iter().find(|place| place.czxid == token && Some(place.session) == client.session_id());
            if let Some(left) = left {
                watcher.object(format!("term {token} of {number} is over, but its node is left: {left:?}"));
            }
            if let Some(error) = &outcome.release_error {
                watcher.object(format!("the node of term {token} of {number} could not be deleted: {error}"));
            }
            ledger.told(outcome);
        }
        ledger.over();
    }
}

impl Terms {
    /// Picks a participant, unless it is closing.
    fn a_seat(&mut self, stage: &mut Stage) -> Option<Seat> {
        let seat = stage.world.random.choice(self.seats.iter())?;
        let closing = self.closing.iter().any(|(number, _)| *number == seat.number);
        (!closing).then(|| seat.clone())
    }

    fn requeue(&mut self, stage: &mut Stage) {
        let Some(seat) = self.a_seat(stage) else { return };
        let news = seat.selector.requeue();
        stage.world.trace.note(format_args!("{} is requeued: {news}", seat.number));
    }

    fn interrupt(&mut self, stage: &mut Stage) {
        // Preferably a leader.
        let leading = self.seats.iter().find(|seat| seat.selector.has_leadership()).cloned();
        let Some(seat) = leading.or_else(|| self.a_seat(stage)) else { return };
        if seat.selector.interrupt_leadership() {
            stage.world.trace.note(format_args!("{} is interrupted", seat.number));
            if !seat.ledger.interrupt() {
                stage.watcher.object(format!("{} has accepted an interruption, but does not lead", seat.number));
            }
        }
    }

    /// Closes a selector, which is checked until that is done.
    fn close(&mut self, stage: &mut Stage) {
        let Some(seat) = self.a_seat(stage) else { return };
        let mode = if stage.world.random.u8(..3) == 0 { RunningTerm::Finish } else { RunningTerm::Interrupt };
        stage.world.trace.note(format_args!("{} closes: {mode:?}", seat.number));
        if mode == RunningTerm::Interrupt {
            seat.ledger.close();
        }
        let client = &stage.world.clients[seat.client];
        let closing = stage.world.server.spawn(client, async move { seat.selector.close_with(mode).await });
        self.closing.push((seat.number, closing));
    }

    /// Drops a selector without closing it.
    fn leave(&mut self, stage: &mut Stage) {
        let Some(seat) = self.a_seat(stage) else { return };
        stage.world.trace.note(format_args!("{} is dropped", seat.number));
        seat.ledger.close();
        self.seats.retain(|other| other.number != seat.number);
    }

    /// Makes a call and drops it half way.
    async fn cancel(&mut self, stage: &mut Stage) {
        let Some(seat) = stage.world.random.choice(self.seats.iter()).cloned() else { return };
        let (number, selector) = (seat.number, Arc::clone(&seat.selector));
        let which = stage.world.random.u8(..2);
        let call = async move {
            match which {
                0 => drop(selector.participants().await),
                _ => drop(selector.leader().await),
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

    /// Denies permission for the path: all selectors must report that, and retry ever more slowly.
    async fn denied(&mut self, stage: &mut Stage) {
        let server = stage.world.server.clone();
        // The seed may have created it already.
        let _ = server.create_by_hand(Self::LINE.path, "", CreateMode::Container);
        server.deny(Self::LINE.path);
        stage.world.trace.note("permission is denied");
        let before = server.count(Target::ALL, Operation::Create);
        for _ in 0..stage.world.random.u64(1..4) {
            let client = stage.world.a_client();
            self.enter(stage, client);
        }
        let seconds = stage.world.random.u64(2..40);
        stage.world.pass(Duration::from_secs(seconds)).await;
        let tries = server.count(Target::ALL, Operation::Create) - before;
        if tries > self.entered * (3 + seconds / 2) {
            stage.watcher.object(format!("{tries} creates of {} in {seconds} s, without permission", self.entered));
        }
        for seat in &self.seats {
            let mut state = seat.selector.state();
            let told = state.wait_for(|state| state.error().map(Error::kind) == Some(ErrorKind::NoAuth));
            // It may be trying right now; on Keeper, it loses sessions when it finds out what the servers lack.
            let within = Duration::from_secs(if stage.world.dialect == Dialect::ZooKeeper { 1 } else { 10 });
            if tokio::time::timeout(within, told).await.is_err() {
                stage.watcher.object(format!("{} is denied, but does not report it: {:?}", seat.number, seat.selector));
            }
        }
        server.allow(Self::LINE.path);
        stage.world.figures.faults += 1;
    }

    /// Checks that every selector leads within a bounded time after healing.
    async fn turns_for_all(&mut self, stage: &mut Stage) -> Result<(), String> {
        // A selector pauses after its listener has failed.
        let deadline = Instant::now() + stage.patience() + Duration::from_secs(10);
        if self.seats.is_empty() {
            self.enter(stage, 0);
        }
        let before: Vec<(u64, usize)> = self.seats.iter().map(|seat| (seat.number, seat.ledger.terms())).collect();
        for seat in &self.seats {
            seat.selector.requeue();
        }
        loop {
            self.settle(stage);
            let waits = |seat: &Seat| before.contains(&(seat.number, seat.ledger.terms()));
            let waiting: Vec<&Seat> = self.seats.iter().filter(|seat| waits(seat)).collect();
            // Those that are closing need not lead.
            if waiting.is_empty() && self.closing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let (seats, line): (Vec<_>, _) = (waiting.iter().map(|seat| &seat.selector).collect(), stage.places());
                return Err(format!("no turn long after healing: {seats:?}, line {line:?}"));
            }
            stage.world.pass(Duration::from_millis(50)).await;
        }
    }

    /// Checks that all outcomes were reported, and correctly.
    async fn ledgers_are_right(&mut self, stage: &mut Stage) -> Result<(), String> {
        let deadline = Instant::now() + stage.patience();
        for (number, ledger) in &self.ledgers {
            while !ledger.is_over() {
                if Instant::now() > deadline {
                    return Err(format!("{number} is gone, but its outcomes do not end"));
                }
                stage.world.pass(Duration::from_millis(50)).await;
            }
            ledger.check().map_err(|violation| format!("{number}: {violation}"))?;
        }
        Ok(())
    }
}
