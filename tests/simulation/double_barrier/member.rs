//! A member that passes rounds and checks each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};

use super::ledger::{Inside, Ledger};
use crate::trace::Trace;
use crate::world::Thaws;

/// The resolution of tokio's timers.
const GRAIN: Duration = Duration::from_millis(2);

/// The current call of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    Entering,
    Inside,
    Leaving,
}

/// How a call is made.
#[derive(Debug, Clone, Copy)]
enum Call {
    ForEver,
    Timed(Duration),
    /// Without a limit, and dropped after this time.
    HalfWay(Duration),
}

/// The counts that all members of a seed share.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) entered: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

pub(super) struct Member {
    pub(super) name: String,
    pub(super) barrier: DoubleBarrier,
    pub(super) client_number: usize,
    /// The session timeout.
    pub(super) timeout: Duration,
    pub(super) random: Rng,
    pub(super) ledger: Arc<Ledger>,
    pub(super) trace: Trace,
    pub(super) thaws: Thaws,
    pub(super) doing: watch::Sender<Doing>,
    /// Set when no more rounds are to begin.
    pub(super) enough: watch::Receiver<bool>,
    pub(super) tally: Arc<Tally>,
    /// The last call ended by itself, so no request of it is under way.
    pub(super) clean: bool,
}

impl Member {
    pub(super) async fn work(mut self) {
        while !*self.enough.borrow() {
            self.doing.send_replace(Doing::Entering);
            if let Some(inside) = self.enter().await {
                self.doing.send_replace(Doing::Inside);
                let stay = self.a_while(self.timeout / 4);
                sleep(stay).await;
                self.doing.send_replace(Doing::Leaving);
                self.leave(inside).await;
            }
            self.doing.send_replace(Doing::Nothing);
            let pause = self.a_while(self.timeout / 8);
            sleep(pause).await;
        }
    }

    fn a_while(&mut self, most: Duration) -> Duration {
        Duration::from_millis(1) + most.mul_f64(self.random.f64().powi(3))
    }

    fn call(&mut self) -> Call {
        let most = self.timeout;
        match self.random.u8(..10) {
            0..=3 => Call::ForEver,
            4..=5 => Call::Timed(self.a_while(most * 3)),
            6..=8 => Call::Timed(self.a_while(most / 2)),
            _ => Call::HalfWay(self.a_while(most / 4)),
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("{}: {what}", self.name));
    }

    /// Enters. Returns `None` if it did not, and otherwise its place, if its node exists.
    async fn enter(&mut self) -> Option<Option<Inside>> {
        let (mark, call, begun) = (self.ledger.mark(&self.name), self.call(), Instant::now());
        let brought = match call {
            Call::ForEver => Some(self.barrier.enter().await.map(|()| true)),
            Call::Timed(limit) => Some(self.barrier.enter_timeout(limit).await),
            Call::HalfWay(after) => {
                timeout(after, self.barrier.enter()).await.ok().map(|entered| entered.map(|()| true))
            }
        };
        self.note(format_args!("enter, {call:?}: {brought:?}"));
        let clean = std::mem::replace(&mut self.clean, false);
        match self.outcome("enter", call, begun, brought)? {
            true => {
                self.tally.entered.fetch_add(1, Ordering::Relaxed);
                self.clean = true;
                // A frozen process learns of nothing until it runs again.
                let heard_by = |gone| self.thaws.effective_deadline(self.client_number, gone) + self.timeout * 2;
                Some(self.ledger.entered(&self.name, mark, heard_by))
            }
            false => {
                self.clean = true;
                if clean {
                    self.ledger.gave_up(&self.name, mark);
                }
                None
            }
        }
    }

    async fn leave(&mut self, inside: Option<Inside>) {
        let (call, begun) = (self.call(), Instant::now());
        let brought = match call {
            Call::ForEver => Some(self.barrier.leave().await.map(|()| true)),
            Call::Timed(limit) => Some(self.barrier.leave_timeout(limit).await),
            Call::HalfWay(after) => timeout(after, self.barrier.leave()).await.ok().map(|left| left.map(|()| true)),
        };
        self.note(format_args!("leave, {call:?}: {brought:?}"));
        self.clean = false;
        let Some(all) = self.outcome("leave", call, begun, brought) else { return };
        self.clean = true;
        if let Some(inside) = inside {
            self.ledger.left(&self.name, &inside, all);
        }
    }

    /// Returns the answer, if there is one. Reports unexpected errors and late returns as violations.
    fn outcome(&self, doing: &str, call: Call, begun: Instant, brought: Option<Result<bool, Error>>) -> Option<bool> {
        if let Call::Timed(limit) = call {
            let deadline = self.thaws.effective_deadline(self.client_number, begun + limit) + GRAIN;
            if Instant::now() > deadline {
                self.ledger.object(format!("{} had {limit:?} to {doing}, took {:?}", self.name, begun.elapsed()));
            }
        }
        match brought {
            Some(Ok(answer)) => Some(answer),
            Some(Err(error)) => {
                let timed = matches!(call, Call::Timed(_));
                match error.kind() {
                    ErrorKind::SessionLost => {}
                    ErrorKind::OutcomeUnknown if timed => {}
                    // No server could be reached in time, so nothing was left on any.
                    ErrorKind::TimedOut if timed && doing == "enter" => {}
                    ErrorKind::NoNode if doing == "leave" => {}
                    _ => self.ledger.object(format!("{} cannot {doing}: {error}", self.name)),
                }
                None
            }
            None => {
                self.tally.cancelled.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}
