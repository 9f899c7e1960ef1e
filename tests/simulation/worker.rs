//! A worker that acquires the lock, works under it, releases it, and checks the result of each call.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::mutex;
use zookeeper_recipes::read_write_lock::{self, ReadGuard};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use crate::line::{Line, Place, is_there};
use crate::lock::{Failure, Guard, Held, Lock};
use crate::trace::Trace;
use crate::watcher::Watcher;
use crate::world::Thaws;

/// The resolution of tokio's timers.
const GRAIN: Duration = Duration::from_millis(2);
/// A holder that waits for the loss is notified within this time: that takes no message.
const TOLD: Duration = Duration::from_millis(25);

/// The plan of one worker.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    /// No other worker uses the mutex object, so its data identifies the node.
    pub(crate) alone: bool,
    pub(crate) call: Call,
    pub(crate) grip: Grip,
    pub(crate) hold: Duration,
    /// The lock is entered again and released twice, or downgraded.
    pub(crate) again: bool,
    pub(crate) parting: Parting,
}

/// How a worker acquires the lock.
#[derive(Debug)]
pub(crate) enum Call {
    Acquire,
    /// `acquire`, dropped after this time.
    AcquireHalfWay(Duration),
    AcquireTimeout(Duration),
    TryAcquire,
}

/// What a worker does with the lock.
#[derive(Debug)]
pub(crate) enum Grip {
    Bare,
    Run,
    UntilLost,
    UntilRevoked,
}

/// How a worker releases the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parting {
    Release,
    Drop,
    /// `release`, dropped after this time.
    ReleaseHalfWay(Duration),
}

/// The nodes whose participants were asked to release.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<BTreeSet<String>>);

impl Asked {
    pub(crate) fn add(&self, node: &str) {
        self.0.lock().expect("no panic").insert(node.to_owned());
    }

    fn contains(&self, node: &str) -> bool {
        self.0.lock().expect("no panic").contains(node)
    }
}

/// How often something happened.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Worker {
    pub(crate) plan: Plan,
    pub(crate) lock: Lock,
    pub(crate) line: Line,
    pub(crate) client: Client,
    pub(crate) client_number: usize,
    /// The session timeout.
    pub(crate) timeout: Duration,
    pub(crate) server: TestingServer,
    pub(crate) trace: Trace,
    pub(crate) thaws: Thaws,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) hurry: watch::Receiver<bool>,
    pub(crate) cancelled: Arc<Count>,
    pub(crate) asked: Arc<Asked>,
}

impl Worker {
    pub(crate) async fn work(self) {
        let Some(guard) = self.come().await else { return };
        let held = self.sit(guard);
        self.hold(&held.guard).await;
        let (held, again) = match (self.plan.again, &held.guard) {
            (true, Guard::Mutex(_)) => {
                let again = self.reenter(&held.guard);
                (held, again)
            }
            (true, Guard::Write(_)) => {
                let Some(held) = self.downgrade(held).await else { return };
                self.hold(&held.guard).await;
                (held, None)
            }
            _ => (held, None),
        };
        self.part(held, again.is_none()).await;
        if let Some(again) = again {
            self.hold(&again.guard).await;
            self.part(again, true).await;
        }
    }

    /// Acquires the lock, if it can.
    async fn come(&self) -> Option<Guard> {
        let begun = Instant::now();
        let got = match self.plan.call {
            Call::Acquire => self.lock.acquire().await.map(Some),
            Call::AcquireHalfWay(time) => match timeout(time, self.lock.acquire()).await {
                Ok(got) => got.map(Some),
                Err(_) => {
                    self.cancelled.add();
                    return None;
                }
            },
            Call::AcquireTimeout(within) => {
                let got = self.lock.acquire_timeout(within).await;
                self.in_time(begun, within);
                got
            }
            Call::TryAcquire => {
                let got = self.lock.try_acquire().await;
                self.in_time(begun, self.timeout);
                got
            }
        };
        self.note(format_args!("gets {:?}", got.as_ref().map(|got| got.as_ref().map(Guard::fencing_token))));
        match got {
            Ok(got) => {
                if got.is_none() {
                    self.nothing_is_left();
                }
                got
            }
            Err(error) => {
                self.may_fail(&error);
                None
            }
        }
    }

    /// Checks that a call with a deadline has returned by then, unless its process was frozen.
    fn in_time(&self, begun: Instant, within: Duration) {
        let deadline = self.thaws.effective_deadline(self.client_number, begun + within);
        if Instant::now() > deadline + GRAIN {
            let took = begun.elapsed();
            self.object(format_args!("its call had to return within {within:?} and took {took:?}"));
        }
    }

    /// Checks that a call that returned `None` has left no node.
    fn nothing_is_left(&self) {
        let ours = self.plan.number.to_string().into_bytes();
        let is_left = |place: &Place| self.plan.alone && place.data == ours && place.is_connected(&self.server);
        if let Some(left) = self.line.places(&self.server).into_iter().find(is_left) {
            self.object(format_args!("it did not get the lock, but left {left:?}"));
        }
    }

    fn may_fail(&self, error: &Failure) {
        let may = match self.plan.call {
            Call::Acquire | Call::AcquireHalfWay(_) => false,
            Call::AcquireTimeout(_) | Call::TryAcquire => {
                matches!(error.kind, ErrorKind::OutcomeUnknown | ErrorKind::TimedOut)
            }
        };
        if !may {
            self.object(format_args!("its call failed: {}", error.text));
        }
    }

    /// Works under the lock for the planned time, or until all workers have to hurry.
    async fn hold(&self, guard: &Guard) {
        let until = Instant::now() + self.plan.hold;
        let mut hurry = self.hurry.clone();
        let mut enough = pin!(async move {
            // This also ends when the sender is dropped, at the end of the seed.
            let hurried = async { drop(hurry.wait_for(|hurry| *hurry).await) };
            let _ = tokio::time::timeout_at(until, hurried).await;
            sleep(GRAIN).await;
        });
        match self.plan.grip {
            Grip::Bare => enough.await,
            Grip::Run => {
                let work = async {
                    let mut steps = tokio::time::interval(Duration::from_millis(100));
                    loop {
                        // Checked in each poll, as the work must not be polled after the loss.
                        if !guard.is_held() {
                            self.object("its work continues after the lock was lost");
                        }
                        tokio::select! {
                            biased;
                            () = &mut enough => break,
                            _ = steps.tick() => {}
                        }
                    }
                };
                if guard.run(work).await.is_none() && guard.is_held() {
                    self.object("run() reports the lock as lost, but is_held() does not");
                }
            }
            Grip::UntilLost => {
                tokio::select! {
                    biased;
                    () = guard.lost() => self.lost("lost()", guard),
                    () = self.told(guard) => self.object("lost() does not report the loss"),
                    () = enough => {}
                }
            }
            Grip::UntilRevoked => {
                tokio::select! {
                    biased;
                    revoked = guard.on_revoke() => match revoked {
                        true => self.revoked(guard),
                        false => self.lost("on_revoke()", guard),
                    },
                    () = self.told(guard) => self.object("on_revoke() does not report the loss"),
                    () = enough => {}
                }
            }
        }
    }

    /// Resolves some time after the loss: by then the holder must have been notified.
    async fn told(&self, guard: &Guard) {
        loop {
            sleep(TOLD).await;
            if !guard.is_held() {
                sleep(TOLD).await;
                return;
            }
        }
    }

    fn lost(&self, who: &str, guard: &Guard) {
        if guard.is_held() {
            self.object(format_args!("{who} reports the lock as lost, but is_held() does not"));
        }
    }

    fn revoked(&self, guard: &Guard) {
        // The mark itself may be gone, with the node or because a client has written to it.
        if !self.asked.contains(guard.node_path()) {
            self.object("it was asked to release, but no client has requested that");
        }
    }

    fn reenter(&self, guard: &Guard) -> Option<Arc<Held>> {
        let Guard::Mutex(mutex) = guard else { return None };
        let held = guard.is_held();
        match mutex.reenter() {
            Ok(again) if held && again.fencing_token() == guard.fencing_token() => Some(self.sit(Guard::Mutex(again))),
            Err(mutex::Error::Lost { .. }) if !held => None,
            other => {
                self.object(format_args!("its lock is held: {held}, but re-entering it returned {other:?}"));
                None
            }
        }
    }

    /// Downgrades to a reader, and may drop that call half way.
    async fn downgrade(&self, held: Arc<Held>) -> Option<Arc<Held>> {
        let held = Arc::into_inner(held).expect("the watcher holds none");
        let (token, node) = (held.guard.fencing_token(), held.guard.node_path().to_owned());
        let Guard::Write(guard) = held.guard else { return None };
        let within = match self.plan.parting {
            Parting::ReleaseHalfWay(time) => time,
            _ => Duration::MAX,
        };
        let Ok(reading) = timeout(within, guard.downgrade()).await else {
            self.cancelled.add();
            self.note("has dropped its downgrade");
            return None;
        };
        self.note(format_args!("has downgraded: {:?}", reading.as_ref().map(ReadGuard::node_path)));
        match reading {
            Ok(reading) if reading.fencing_token() != token => {
                self.object(format_args!("its token {token} became {}", reading.fencing_token()));
            }
            Ok(_) if is_there(&self.server, &node, token) => {
                self.object(format_args!("it reads, but its writer node {node} still exists"));
            }
            Ok(reading) => {
                let guard = Guard::Read(reading);
                return Some(match self.server.stat(guard.node_path()) {
                    Some(stat) => self.sit_at(guard, stat.czxid),
                    // Another client has already deleted the node; the reader has not noticed yet.
                    None => Arc::new(Held { guard, czxid: token }),
                });
            }
            Err(read_write_lock::Error::Lost { .. }) => {}
            Err(error) => self.object(format_args!("it could not downgrade: {error}")),
        }
        None
    }

    /// Releases a guard; the `last` one deletes the node.
    async fn part(&self, held: Arc<Held>, last: bool) {
        let Held { guard, czxid } = Arc::into_inner(held).expect("the watcher holds none");
        let path = guard.node_path().to_owned();
        match self.plan.parting {
            Parting::Drop => {
                self.note("drops its guard");
                drop(guard);
            }
            Parting::Release => {
                let held = guard.is_held();
                let released = guard.release().await;
                self.note(format_args!("has released: {released:?}"));
                match released {
                    Ok(()) if !held => self.object("it released a lost lock, but release() did not report the loss"),
                    Err(error) if error.had_lost && !held => {}
                    Err(error) if error.had_lost => self.object("it held the lock, but release() reports a loss"),
                    Ok(()) if last && is_there(&self.server, &path, czxid) => {
                        self.object(format_args!("it has released the lock, but left {path}"));
                    }
                    Err(error) if error.kind != ErrorKind::SessionLost || !last => {
                        self.object(format_args!("it could not release the lock: {}", error.text));
                    }
                    _ => {}
                }
            }
            Parting::ReleaseHalfWay(time) => {
                if timeout(time, guard.release()).await.is_err() {
                    self.cancelled.add();
                    self.note("has dropped its release");
                }
            }
        }
    }

    fn sit(&self, guard: Guard) -> Arc<Held> {
        let token = guard.fencing_token();
        self.sit_at(guard, token)
    }

    /// Registers a guard whose node this transaction created. A downgraded guard's node is younger than its token.
    fn sit_at(&self, guard: Guard, czxid: i64) -> Arc<Held> {
        let held = Arc::new(Held { guard, czxid });
        self.watcher.sit(self.plan.number, &self.client, &held);
        held
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("{} {what}", self.plan.number));
    }

    fn object(&self, what: impl std::fmt::Display) {
        self.watcher.object(format!("{}: {what}", self.plan.number));
    }
}
