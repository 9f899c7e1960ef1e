//! A listener that behaves well or badly, and checks how it is called.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_selector::{BoxError, LeaderSelectorListener, Leadership};
use zookeeper_recipes::testing::TestingServer;

use super::ledger::{Ending, Ledger};
use super::play::Terms;
use crate::stage::Play;
use crate::watcher::{Holder, Watcher};
use crate::world::Thaws;

/// The resolution of tokio's timers.
const GRAIN: Duration = Duration::from_millis(2);

impl Holder for Leadership {
    fn token(&self) -> Option<i64> {
        self.is_held().then(|| self.fencing_token())
    }
}

/// How a term proceeds.
#[derive(Debug, Clone, Copy)]
enum Way {
    Return,
    Fail,
    Panic,
    /// Leads until it is notified of the loss, and continues for a short time.
    UntilLost,
    /// Ignores the loss.
    Forever,
    /// Like `Forever`, and its destructor panics.
    ForeverAndPanic,
}

pub(super) struct Leader {
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) client_number: usize,
    /// The longest time that a term lasts if it ends by itself.
    pub(super) longest: Duration,
    pub(super) grace: Duration,
    pub(super) random: Mutex<Rng>,
    pub(super) ledger: Ledger,
    pub(super) server: TestingServer,
    pub(super) watcher: Arc<Watcher>,
    pub(super) thaws: Thaws,
    /// Set once everything is healed: terms are short from then on.
    pub(super) hurry: watch::Receiver<bool>,
}

/// Records the end of a term's future when it is dropped.
struct Alive<'a> {
    leader: &'a Leader,
    token: i64,
    /// Whether it panics when it is dropped at an await.
    panics: bool,
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        let (ledger, token) = (&self.leader.ledger, self.token);
        if self.panics {
            let text = "dropped".to_owned();
            ledger.end(token, Ending::Panicked(text.clone()));
            // Like a panic, but without the report on the terminal.
            resume_unwind(Box::new(text));
        }
        ledger.end(token, Ending::Dropped);
    }
}

impl LeaderSelectorListener for Leader {
    async fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError> {
        let (token, leadership) = (leadership.fencing_token(), Arc::new(leadership));
        if !self.ledger.begin(token) {
            self.object(token, "it is called, but the previous term is not over");
        }
        self.watcher.sit(self.number, &self.client, &leadership);
        let mut alive = Alive { leader: self, token, panics: false };
        let (way, time) = self.choose();
        alive.panics = matches!(way, Way::ForeverAndPanic);
        let mut work = Box::pin(self.work(&leadership, way, time));
        let (session, mut over) = (self.client.session_id(), None);
        std::future::poll_fn(|cx| {
            self.may_be_polled(&leadership, session, &mut over);
            work.as_mut().poll(cx)
        })
        .await;
        alive.panics = false;
        let text = format!("{way:?} in term {token}");
        match way {
            Way::Fail => {
                self.ledger.end(token, Ending::Failed(text.clone()));
                Err(text.into())
            }
            Way::Panic => {
                self.ledger.end(token, Ending::Panicked(text.clone()));
                resume_unwind(Box::new(text))
            }
            _ => {
                self.ledger.end(token, Ending::Returned);
                Ok(())
            }
        }
    }
}

impl Leader {
    fn choose(&self) -> (Way, Duration) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let way = match random.u8(..12) {
            0..=4 => Way::Return,
            5 => Way::Fail,
            6 => Way::Panic,
            7..=8 => Way::UntilLost,
            9..=10 => Way::Forever,
            _ => Way::ForeverAndPanic,
        };
        // After healing, each term ends by itself and without a failure: the pause after one would delay others.
        let way = if *self.hurry.borrow() { Way::Return } else { way };
        (way, Duration::from_millis(1) + self.longest.mul_f64(random.f64().powi(2)))
    }

    async fn work(&self, leadership: &Leadership, way: Way, time: Duration) {
        let mut hurry = self.hurry.clone();
        let hurried = async move {
            // This also ends when the sender is dropped, at the end of the seed.
            drop(hurry.wait_for(|hurry| *hurry).await);
            sleep(GRAIN).await;
        };
        let work = async {
            match way {
                Way::Return | Way::Fail | Way::Panic => {
                    for _ in 0..10 {
                        sleep(time / 10).await;
                    }
                }
                Way::UntilLost => {
                    leadership.lost().await;
                    if leadership.is_held() {
                        self.object(
                            leadership.fencing_token(),
                            "lost() reports that it is over, but is_held() does not yet",
                        );
                    }
                    sleep(time / 4).await;
                }
                Way::Forever | Way::ForeverAndPanic => {
                    let mut steps = tokio::time::interval(Duration::from_millis(100));
                    loop {
                        steps.tick().await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = work => {}
            () = hurried => {}
        }
    }

    /// Checks that the future is polled only while it leads, or within the grace period after that.
    fn may_be_polled(&self, leadership: &Leadership, session: Option<i64>, over: &mut Option<Instant>) {
        let token = leadership.fencing_token();
        if leadership.is_held() {
            if self.ledger.interrupted(token).is_some_and(|at| Instant::now() > self.effective_deadline(at + GRAIN)) {
                self.object(token, "it was interrupted, but is polled as if it still led");
            }
            return;
        }
        if self.grace.is_zero() {
            return self.object(token, "it is polled, but no longer leads");
        }
        let over = *over.get_or_insert_with(Instant::now);
        if Instant::now() > self.effective_deadline(over + self.grace) + GRAIN {
            self.object(token, "it is polled, but the grace period is over");
        }
        if self.ledger.interrupted(token).is_some() && self.has_left(token, session) {
            self.object(token, "it was interrupted and is not over, but its node is gone");
        }
    }

    /// Returns whether the node is gone although the session is alive and no other client deleted the node.
    fn has_left(&self, token: i64, session: Option<i64>) -> bool {
        let is_alive = self.server.sessions().iter().any(|known| Some(known.id) == session);
        let exists = Terms::LINE.places(&self.server).iter().any(|place| place.czxid == token);
        is_alive && !exists && !self.watcher.was_deposed(token)
    }

    fn effective_deadline(&self, deadline: Instant) -> Instant {
        self.thaws.effective_deadline(self.client_number, deadline)
    }

    fn object(&self, token: i64, what: &str) {
        self.watcher.object(format!("term {token} of {}: {what}", self.number));
    }
}
