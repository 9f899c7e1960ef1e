//! The task of a consumer: claims items ahead of those who ask, and settles what is said of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::claim::{Claim, Claimant, Tried};
use super::dead;
use super::error::Error;
use super::job::{self, Settled};
use super::names::Places;
use super::round::{Listed, Next, Round};
use super::serializer::Serializer;
use super::settle::Verdict;
use super::shelf::{Ready, Shelf};
use super::{DeliveryMode, Options};
use crate::backend;
use crate::client;
use crate::client::core::{Core, KeepAlive};
use crate::client::delays::Delays;
use crate::client::pool::Pool;
use crate::client::session::{Condition, Session};

/// After so long without anybody who asks, what was claimed ahead is given back.
const LINGER: Duration = Duration::from_secs(1);
/// Among others, and after a list that was in vain, the next one comes no sooner than this.
const AGAIN: Duration = Duration::from_millis(100);
/// Delays after a list or a claim was refused, each twice the one before, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Stands for a time beyond the end of the clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// What is said of a claimed item.
#[derive(Debug)]
pub(super) enum Asked {
    /// It is done.
    Done,
    /// The attempt failed; not to be tried here for so long.
    Again { after: Duration, reason: String },
    /// There was no attempt that could count: the claim was lost.
    GiveBack,
    /// It is hopeless.
    Bury { reason: String },
}

#[derive(Debug)]
pub(super) enum Order {
    Settle {
        claim: Arc<Claim>,
        asked: Asked,
        done: Option<oneshot::Sender<Result<(), Error>>>,
    },
    /// At most once: what has left the queue is to be a dead letter.
    Keep {
        claim: Arc<Claim>,
        reason: String,
        done: oneshot::Sender<Result<(), Error>>,
    },
    /// No more items are to be claimed. To be answered when nothing is held for want of a taker.
    Close(Option<oneshot::Sender<()>>),
}

pub(super) struct Claimer<S: Serializer> {
    pub(super) core: Arc<Core>,
    pub(super) places: Arc<Places>,
    pub(super) options: Options,
    pub(super) serializer: Arc<S>,
    pub(super) shelf: Arc<Shelf<S::Item>>,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// All handles and deliveries are gone.
    pub(super) abandoned: bool,
    /// What the nodes of its claims hold.
    holder: Arc<str>,
    claims: u64,
    /// The items that are claimed, or about to be, in this session: by the number of the claim.
    in_hand: BTreeMap<String, u64>,
    /// Items that are not to be tried before.
    hidden: BTreeMap<String, Instant>,
    pub(super) settles: Pool<Settled<S::Item>>,
    /// So many of them are about to leave the queue, to be handed out then.
    leaving: usize,
    /// So many are about to go back to their places: no other is claimed before, to keep the order.
    returning: usize,
    closing: bool,
    closers: Vec<oneshot::Sender<()>>,
    failures: Delays,
    _keep_alive: KeepAlive,
}

impl<S: Serializer> Claimer<S> {
    pub(super) fn new(
        core: &Arc<Core>,
        places: &Arc<Places>,
        options: Options,
        serializer: &Arc<S>,
        shelf: &Arc<Shelf<S::Item>>,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        Claimer {
            core: Arc::clone(core),
            places: Arc::clone(places),
            options,
            serializer: Arc::clone(serializer),
            shelf: Arc::clone(shelf),
            orders,
            abandoned: false,
            holder: core.random.uuid().to_string().into(),
            claims: 0,
            in_hand: BTreeMap::new(),
            hidden: BTreeMap::new(),
            settles: Pool::new(),
            leaving: 0,
            returning: 0,
            closing: false,
            closers: Vec::new(),
            failures: Delays::new(AFTER_FAILURE),
            _keep_alive: core.keep_alive(),
        }
    }

    /// Until all handles and deliveries are gone, and everything is settled.
    pub(super) async fn run(mut self) {
        while let Some(session) = self.next_session().await {
            self.serve(&session).await;
            // It is not delivered, so nobody has to be told; others get it when the servers expire the session.
            self.shelf.clear();
            self.in_hand.clear();
        }
        self.shelf.end(Error::Closed { path: Arc::clone(&self.places.path) });
        while !self.is_over() {
            self.between_sessions().await;
        }
    }

    /// The session to use; `None` if there is nothing to do any more, or the client is closed.
    async fn next_session(&mut self) -> Option<Arc<Session>> {
        let core = Arc::clone(&self.core);
        let mut next = std::pin::pin!(core.connected_session());
        loop {
            self.answer_closers(0);
            if self.is_over() {
                return None;
            }
            tokio::select! {
                biased;
                next = &mut next => return next.ok(),
                () = self.between_sessions() => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.abandoned && self.settles.is_empty()
    }

    /// What was made by a session that is over is settled too: mostly it cannot be, and that is to be told.
    async fn between_sessions(&mut self) {
        tokio::select! {
            biased;
            order = self.orders.recv(), if !self.abandoned => self.take_order(order),
            settled = self.settles.next() => drop(self.take_settled(settled)),
        }
        self.answer_closers(0);
    }

    /// For as long as the session lives, and there is something to do.
    async fn serve(&mut self, session: &Arc<Session>) {
        let mut round = Round::new(Claimant {
            core: Arc::clone(&self.core),
            session: Arc::clone(session),
            places: Arc::clone(&self.places),
            holder: Arc::clone(&self.holder),
        });
        self.shelf.look_again();
        loop {
            self.plan(&mut round);
            self.answer_closers(round.claims.len());
            if self.is_over() && round.claims.is_empty() {
                return;
            }
            match round.next(self).await {
                Next::Order(order) => self.take_order(order),
                Next::Settled(settled) => {
                    if let Some(back) = self.take_settled(settled) {
                        // No watch tells of it.
                        round.stale = true;
                        round.heads.put_back(&back);
                    }
                }
                Next::Condition(Condition::Ended(_)) => return,
                Next::Condition(Condition::Connected(_)) => {
                    round.forget();
                    self.shelf.look_again();
                }
                Next::Condition(Condition::Suspended) => {}
                Next::Proven => self.shelf.look_again(),
                Next::Tried(name, tried) => self.tried(&mut round, &name, tried),
                Next::Listed(listed) => self.listed(&mut round, listed),
                Next::Changed => round.heed_change(AGAIN),
                Next::Asked | Next::Time => {}
            }
        }
    }

    /// Begins whatever can be begun now.
    fn plan(&mut self, round: &mut Round) {
        let now = Instant::now();
        let hidden = self.hidden.len();
        self.hidden.retain(|_, until| *until > now);
        round.stale |= self.hidden.len() < hidden;
        while let Some(ready) = self.shelf.next_to_go(self.leaving) {
            self.leaving += 1;
            self.settles.push(job::take_out(Arc::clone(&self.core), Arc::clone(&self.places), ready));
        }
        if self.closing {
            round.look_away();
        }
        let Some(wanted) = self.wanted() else {
            for ready in self.shelf.clear() {
                self.settle(ready.claim, Verdict::GiveBack, Duration::ZERO, None);
            }
            return;
        };
        if self.returning > 0 {
            return;
        }
        let in_sight = |round: &Round| self.shelf.ready() + round.claims.len() + self.leaving;
        while in_sight(round) < wanted
            && let Some(name) = round.heads.next()
        {
            if self.in_hand.contains_key(&name) || self.hidden.contains_key(&name) {
                continue;
            }
            self.claims += 1;
            self.in_hand.insert(name.clone(), self.claims);
            round.claim(self.claims, name);
        }
        if in_sight(round) < wanted {
            round.list(now);
        }
    }

    fn wanted(&self) -> Option<usize> {
        if self.closing { None } else { self.shelf.wanted(self.options.prefetch, LINGER) }
    }

    /// When there will be something to do though nothing happens.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let idle = self.shelf.idle_at(LINGER).filter(|_| self.shelf.ready() > 0);
        let shown = self.hidden.values().min().copied().filter(|_| self.wanted().is_some());
        idle.into_iter().chain(shown).min()
    }

    fn take_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Settle { claim, asked, done }) => {
                let (verdict, after) = self.verdict(&claim, asked);
                self.settle(claim, verdict, after, done);
            }
            Some(Order::Keep { claim, reason, done }) => {
                let (core, places) = (Arc::clone(&self.core), Arc::clone(&self.places));
                self.settles.push(job::keep(core, places, claim, reason, done));
            }
            Some(Order::Close(done)) => {
                self.closing = true;
                self.shelf.end(Error::Closed { path: Arc::clone(&self.places.path) });
                self.closers.extend(done);
            }
            None => self.abandoned = true,
        }
    }

    /// An attempt that failed is the last one, or not.
    fn verdict(&self, claim: &Claim, asked: Asked) -> (Verdict, Duration) {
        let attempts = attempts(claim) + 1;
        match asked {
            Asked::Done => (Verdict::Done, Duration::ZERO),
            Asked::GiveBack => (Verdict::GiveBack, Duration::ZERO),
            Asked::Bury { reason } => (Verdict::Bury { attempts, reason }, Duration::ZERO),
            Asked::Again { after, reason } => match self.options.max_attempts {
                Some(most) if attempts >= most => (Verdict::Bury { attempts, reason }, Duration::ZERO),
                _ => (Verdict::Again, after),
            },
        }
    }

    fn settle(
        &mut self,
        claim: Arc<Claim>,
        verdict: Verdict,
        hide: Duration,
        done: Option<oneshot::Sender<Result<(), Error>>>,
    ) {
        let (core, places) = (Arc::clone(&self.core), Arc::clone(&self.places));
        self.returning += usize::from(goes_back(&verdict));
        self.settles.push(job::settle(core, places, claim, verdict, hide, done));
    }

    /// The item that can be had again, if it can be at once.
    fn take_settled(&mut self, settled: Settled<S::Item>) -> Option<String> {
        let (claim, back) = match settled {
            Settled::Done(claim) => (claim, None),
            Settled::Back { claim, hide, returned } => {
                self.returning -= usize::from(returned);
                (claim, Some(hide))
            }
            Settled::Out { ready, outcome } => {
                self.leaving -= 1;
                let claim = Arc::clone(&ready.claim);
                // What did not leave may be had again.
                let back = !matches!(outcome, Ok(true));
                match outcome {
                    Ok(true) => self.shelf.put_gone(ready),
                    Ok(false) => {}
                    Err(error) => self.shelf.fail(error),
                }
                (claim, back.then_some(Duration::ZERO))
            }
        };
        // One of an earlier session may have the same name.
        if self.in_hand.get(&claim.name) == Some(&claim.number) {
            self.in_hand.remove(&claim.name);
        }
        match back? {
            Duration::ZERO => Some(claim.name.clone()),
            hide => {
                let now = Instant::now();
                self.hidden.insert(claim.name.clone(), now.checked_add(hide).unwrap_or(now + FOREVER));
                None
            }
        }
    }

    fn tried(&mut self, round: &mut Round, name: &str, tried: Tried) {
        match tried {
            Tried::Claimed(claim) => {
                round.heads.note_hit();
                self.claimed(Arc::new(claim));
            }
            tried => {
                self.in_hand.remove(name);
                match tried {
                    Tried::Taken => round.note_taken(),
                    Tried::Failed(error) => self.failed(round, "claim an item of", error),
                    _ => round.heads.note_miss(),
                }
            }
        }
        round.end_batch(AGAIN);
    }

    /// Decodes it, and has it handed out.
    fn claimed(&mut self, claim: Arc<Claim>) {
        let attempts = attempts(&claim);
        tracing::debug!(path = &*self.places.path, item = claim.name, attempts, "claimed");
        let bury = match dead::items(&*self.serializer, &claim.data) {
            Err(why) => format!("it cannot be decoded: {why}"),
            Ok(_) if self.options.max_attempts.is_some_and(|most| attempts >= most) => {
                format!("{attempts} attempts had failed already")
            }
            // Nothing is in it, so there is nothing to be done.
            Ok(items) if items.is_empty() => return self.settle(claim, Verdict::Done, Duration::ZERO, None),
            Ok(items) => return self.shelf.put(Ready { claim, items }),
        };
        self.settle(claim, Verdict::Bury { attempts, reason: bury }, Duration::ZERO, None);
    }

    fn listed(&mut self, round: &mut Round, listed: Listed) {
        match listed {
            Ok(Some(listing)) => {
                let start = (!self.options.strict_order).then(|| self.core.random.unit());
                let wanted = self.wanted().unwrap_or(0);
                let (in_hand, hidden) = (&self.in_hand, &self.hidden);
                round.see(listing, start, wanted, |name| in_hand.contains_key(name), |name| hidden.contains_key(name));
            }
            // Its end is told by its condition.
            Ok(None) => {}
            Err(error) => self.failed(round, "list", error),
        }
    }

    /// Whoever asks is told; it is tried again, ever more slowly.
    fn failed(&mut self, round: &mut Round, doing: &str, error: backend::Error) {
        let error = client::Error::from_backend(doing, &self.places.path, error);
        tracing::warn!(path = &*self.places.path, %error, kind = ?error.kind(), "cannot consume");
        self.shelf.fail(Error::client(&self.places.path, error));
        round.wait(self.failures.next(&self.core, self.core.clock.now()));
    }

    fn answer_closers(&mut self, claiming: usize) {
        let done = self.settles.is_empty() && self.shelf.ready() == 0 && claiming == 0;
        if self.closing && done {
            for closer in self.closers.drain(..) {
                // Whoever asked may be gone.
                let _ = closer.send(());
            }
        }
    }
}

/// The task may end without having come to its end: with its runtime, or by a panic. Nobody may wait for it then.
impl<S: Serializer> Drop for Claimer<S> {
    fn drop(&mut self) {
        self.shelf.end(Error::Closed { path: Arc::clone(&self.places.path) });
    }
}

fn goes_back(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Again | Verdict::GiveBack)
}

/// How many attempts at the item have failed.
fn attempts(claim: &Claim) -> u32 {
    u32::try_from(claim.version).unwrap_or(0)
}

impl Options {
    pub(super) fn at_most_once(self) -> bool {
        self.mode == DeliveryMode::AtMostOnce
    }
}
