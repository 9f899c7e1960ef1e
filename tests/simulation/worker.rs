//! One that comes for the lock, works under it and lets it go; and what it may expect of each call.

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

/// How finely tokio's timers tell the time.
const GRAIN: Duration = Duration::from_millis(2);
/// A holder that wants to be told is told by then: it takes no message.
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
    /// The lock is entered again, and let go twice; or downgraded.
    pub(crate) again: bool,
    pub(crate) parting: Parting,
}

/// How one asks for the lock.
#[derive(Debug)]
pub(crate) enum Call {
    Acquire,
    /// `acquire`, dropped after this time.
    AcquireHalfWay(Duration),
    AcquireTimeout(Duration),
    TryAcquire,
}

/// How one holds it.
#[derive(Debug)]
pub(crate) enum Grip {
    Bare,
    Run,
    UntilLost,
    UntilRevoked,
}

/// How one lets it go.
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

    /// Asks for the lock.
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

    /// A call that has a deadline returns by then, unless its process was frozen.
    fn in_time(&self, begun: Instant, within: Duration) {
        let deadline = self.thaws.effective_deadline(self.client_number, begun + within);
        if Instant::now() > deadline + GRAIN {
            let took = begun.elapsed();
            self.object(format_args!("its call was to take {within:?} and took {took:?}"));
        }
    }

    /// After `None` there is no node.
    fn nothing_is_left(&self) {
        let ours = self.plan.number.to_string().into_bytes();
        let is_left = |place: &Place| self.plan.alone && place.data == ours && place.is_connected(&self.server);
        if let Some(left) = self.line.places(&self.server).into_iter().find(is_left) {
            self.object(format_args!("it did not get the lock, and left {left:?}"));
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

    /// Works under the lock, for the planned time, or until all workers are in a hurry.
    async fn hold(&self, guard: &Guard) {
        let until = Instant::now() + self.plan.hold;
        let mut hurry = self.hurry.clone();
        let mut enough = pin!(async move {
            // The end of the world ends this as well.
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
                        // Looked at in each poll, as the work must not be polled after the loss.
                        if !guard.is_held() {
                            self.object("its work continues, and the lock is lost");
                        }
                        tokio::select! {
                            biased;
                            () = &mut enough => break,
                            _ = steps.tick() => {}
                        }
                    }
                };
                if guard.run(work).await.is_none() && guard.is_held() {
                    self.object("run() says that the lock is lost, and is_held() that it is not");
                }
            }
            Grip::UntilLost => {
                tokio::select! {
                    biased;
                    () = guard.lost() => self.lost("lost()", guard),
                    () = self.told(guard) => self.object("lost() does not tell of the loss"),
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
                    () = self.told(guard) => self.object("on_revoke() does not tell of the loss"),
                    () = enough => {}
                }
            }
        }
    }

    /// Resolves some time after the loss: by then the holder must have been told.
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
            self.object(format_args!("{who} says that the lock is lost, and is_held() that it is not"));
        }
    }

    fn revoked(&self, guard: &Guard) {
        // The mark itself may be gone: with the node, or by a client that writes to it.
        if !self.asked.contains(guard.node_path()) {
            self.object("it is told to release, and no participant has asked for that");
        }
    }

    fn reenter(&self, guard: &Guard) -> Option<Arc<Held>> {
        let Guard::Mutex(mutex) = guard else { return None };
        let held = guard.is_held();
        match mutex.reenter() {
            Ok(again) if held && again.fencing_token() == guard.fencing_token() => Some(self.sit(Guard::Mutex(again))),
            Err(mutex::Error::Lost { .. }) if !held => None,
            other => {
                self.object(format_args!("its lock is held: {held}, and re-entering it gives {other:?}"));
                None
            }
        }
    }

    /// Becomes a reader; perhaps it thinks better of it half way.
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
                self.object(format_args!("it reads, and its node {node} of the writer is there"));
            }
            Ok(reading) => {
                let guard = Guard::Read(reading);
                return Some(match self.server.stat(guard.node_path()) {
                    Some(stat) => self.sit_at(guard, stat.czxid),
                    // Another client was quicker to delete it; it has not heard of that yet.
                    None => Arc::new(Held { guard, czxid: token }),
                });
            }
            Err(read_write_lock::Error::Lost { .. }) => {}
            Err(error) => self.object(format_args!("it could not downgrade: {error}")),
        }
        None
    }

    /// Releases; the `last` guard deletes the node.
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
                    Ok(()) if !held => self.object("it has released a lock that was lost, and is not told so"),
                    Err(error) if error.had_lost && !held => {}
                    Err(error) if error.had_lost => self.object("it held the lock, and is told that it was lost"),
                    Ok(()) if last && is_there(&self.server, &path, czxid) => {
                        self.object(format_args!("it has released the lock, and left {path}"));
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

    /// Sits with a node that this transaction created. That of a guard that was downgraded is younger than its token.
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
