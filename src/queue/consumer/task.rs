//! The task of a consumer: claims items for the callers that wait, and settles what is said of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::buffer::{Buffer, Ready};
use super::claim::{Claim, Claimant, End, Item, deliveries};
use super::delivery::{Command, Outcome};
use super::settle::{self, Unsettled, Verdict};
use super::view::{Listing, Seen, View};
use crate::client;
use crate::client::core::{Core, KeepAlive};
use crate::client::delays::Delays;
use crate::client::pool::Pool;
use crate::client::session::{Condition, Session};
use crate::queue::dead;
use crate::queue::error::Error;
use crate::queue::events::{Event, Publisher};
use crate::queue::names::{self, Places};
use crate::queue::serializer::Serializer;

/// Delays after a listing or a claim was refused, each twice the one before, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// An item that cannot be claimed, or cannot be made a dead letter, is tried again after this.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// What was read ahead is read again after this: the queue may have been deleted and created again since, and an item of the same
/// name and version be another one.
const READ_IS_GOOD_FOR: Duration = Duration::from_secs(10);
/// Stands for a time beyond the end of the clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// What a consumer works with.
pub(super) struct Setting<S: Serializer> {
    pub(super) core: Arc<Core>,
    pub(super) places: Arc<Places>,
    pub(super) max_deliveries: Option<u32>,
    pub(super) strict: bool,
    pub(super) serializer: Arc<S>,
    pub(super) buffer: Arc<Buffer<S::Item>>,
    pub(super) events: Publisher,
}

pub(super) struct Task<S: Serializer> {
    setting: Setting<S>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// All handles and deliveries are gone.
    abandoned: bool,
    /// What the nodes of its claims hold.
    holder: Arc<str>,
    /// The items that are claimed in this session, or about to be: by the transaction of the claim, once it is made.
    in_hand: BTreeMap<String, Option<i64>>,
    /// Items that are not to be claimed before.
    hidden: BTreeMap<String, Instant>,
    /// Nodes that are no items, of which the user was told.
    skipped: BTreeSet<String>,
    settling: Pool<Settled>,
    /// So many items are about to return to their places: no later one is claimed before.
    returning: usize,
    closing: bool,
    closers: Vec<oneshot::Sender<()>>,
    failures: Delays,
    _keep_alive: KeepAlive,
}

/// A claim that was settled, or could not be.
struct Settled {
    claim: Arc<Claim>,
    item: After,
    /// It was counted among those that return.
    returns: bool,
}

/// Where the item of a settled claim is.
enum After {
    /// Not in the queue.
    Gone,
    /// In the queue, and free for others; this consumer leaves it alone for so long.
    Returned(Duration),
    /// In the queue, and still claimed: it is to be returned as soon as that is allowed, and then left alone for so long.
    Stuck(Duration),
    /// Perhaps in the queue.
    Unknown,
}

/// What a task heard of.
enum Heard {
    Command(Option<Command>),
    Settled(Settled),
    Seen(Seen),
    Asked,
    Time,
}

impl<S: Serializer> Task<S> {
    pub(super) fn new(setting: Setting<S>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        Task {
            holder: setting.core.random.uuid().to_string().into(),
            _keep_alive: setting.core.keep_alive(),
            setting,
            commands,
            abandoned: false,
            in_hand: BTreeMap::new(),
            hidden: BTreeMap::new(),
            skipped: BTreeSet::new(),
            settling: Pool::new(),
            returning: 0,
            closing: false,
            closers: Vec::new(),
            failures: Delays::new(AFTER_FAILURE),
        }
    }

    /// Until all handles and deliveries are gone, and everything is settled.
    pub(super) async fn run(mut self) {
        while let Some(session) = self.next_session().await {
            self.serve(&session).await;
            // It is not delivered, so no caller has to be told; others get it when the servers expire the session.
            self.setting.buffer.clear();
            self.in_hand.clear();
        }
        self.setting.buffer.end(self.closed());
        while !self.is_finished() {
            self.between_sessions().await;
        }
    }

    /// The session to use; none if there is nothing to do any more, or the client is closed.
    async fn next_session(&mut self) -> Option<Arc<Session>> {
        let core = Arc::clone(&self.setting.core);
        let mut next = std::pin::pin!(core.connected_session());
        loop {
            self.answer_closers(false);
            if self.is_finished() {
                return None;
            }
            tokio::select! {
                biased;
                next = &mut next => return next.ok(),
                () = self.between_sessions() => {}
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.abandoned && self.settling.is_empty()
    }

    /// What was claimed in a session that ended is settled too: mostly it cannot be, and that is to be told.
    async fn between_sessions(&mut self) {
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => self.obey(command),
            settled = self.settling.next() => drop(self.take_settled(settled)),
        }
        self.answer_closers(false);
    }

    /// For as long as the session lives, and there is something to do.
    async fn serve(&mut self, session: &Arc<Session>) {
        let claimant = Claimant {
            core: Arc::clone(&self.setting.core),
            session: Arc::clone(session),
            places: Arc::clone(&self.setting.places),
            holder: Arc::clone(&self.holder),
        };
        let mut view = View::new(claimant, self.setting.strict);
        self.setting.buffer.look_again();
        loop {
            let now = Instant::now();
            self.act(&mut view, now);
            self.answer_closers(view.is_busy());
            if self.is_finished() && !view.is_busy() {
                return;
            }
            match self.hear(&mut view, now).await {
                Heard::Command(command) => {
                    self.obey(command);
                    // What was said together is sent together.
                    while let Ok(command) = self.commands.try_recv() {
                        self.obey(Some(command));
                    }
                }
                Heard::Settled(settled) => {
                    if matches!(settled.item, After::Unknown) {
                        view.note_stale();
                    }
                    if let Some((name, item)) = self.take_settled(settled) {
                        // No watch tells of it.
                        view.candidates.insert(name, Some(item));
                    }
                }
                Heard::Seen(Seen::Condition(Condition::Ended(_))) => return,
                Heard::Seen(seen) => self.see(&mut view, seen),
                Heard::Asked | Heard::Time => {}
            }
        }
    }

    /// What happens next. `now` is when it was last acted: what was not due then is waited for.
    async fn hear(&mut self, view: &mut View, now: Instant) -> Heard {
        let wake = [self.wake_at(), view.list_at(now)].into_iter().flatten().min();
        let unproven = self.setting.buffer.len() > 0;
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => Heard::Command(command),
            seen = view.next(unproven) => Heard::Seen(seen),
            settled = self.settling.next() => Heard::Settled(settled),
            () = self.setting.buffer.asked() => Heard::Asked,
            () = until(wake) => Heard::Time,
        }
    }

    /// When there will be something to do though nothing happens.
    fn wake_at(&self) -> Option<Instant> {
        let shown = self.hidden.values().min().copied().filter(|_| self.wanted() > 0);
        self.setting.buffer.surplus_at().into_iter().chain(shown).min()
    }

    /// Begins whatever can be begun now.
    fn act(&mut self, view: &mut View, now: Instant) {
        self.show_hidden(view, now);
        for ready in self.unwanted() {
            self.settle(ready.claim, Verdict::Return, Duration::ZERO, None);
        }
        if self.closing {
            view.look_away();
            return;
        }
        if self.returning > 0 {
            return;
        }
        let wanted = self.wanted().saturating_sub(self.setting.buffer.len() + view.claiming());
        // What others may claim meanwhile is not worth a read.
        let ahead = if view.is_alone() { self.in_hand.len() - view.claiming().min(self.in_hand.len()) } else { 0 };
        if let Some(limit) = now.checked_sub(READ_IS_GOOD_FOR) {
            view.candidates.forget_before(limit, wanted + ahead);
        }
        let steps = view.candidates.plan(wanted, ahead);
        for name in steps.read {
            view.read(name);
        }
        for (name, item) in steps.claim {
            self.in_hand.insert(name.clone(), None);
            let had = deliveries(item.version);
            match self.setting.max_deliveries {
                Some(most) if had >= most => view.bury(name, item, had, no_success(had)),
                _ => view.claim(name, item),
            }
        }
        if steps.list && view.claiming() == 0 {
            view.list(now);
        }
    }

    /// How many items are to be claimed in all, with those that are.
    fn wanted(&self) -> usize {
        if self.closing { 0 } else { self.setting.buffer.wanted() }
    }

    fn unwanted(&self) -> impl Iterator<Item = Ready<S::Item>> + use<S> {
        let buffer = &self.setting.buffer;
        if self.closing { buffer.clear() } else { buffer.surplus() }.into_iter()
    }

    /// Items whose time has come are candidates again, at their place.
    fn show_hidden(&mut self, view: &mut View, now: Instant) {
        let due: Vec<String> =
            self.hidden.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.hidden.remove(&name);
            if !self.in_hand.contains_key(&name) {
                view.candidates.insert(name, None);
            }
        }
    }

    fn obey(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Settle { claim, outcome, done }) => {
                let (verdict, hide) = self.verdict(&claim, outcome);
                self.settle(claim, verdict, hide, done);
            }
            Some(Command::Close(done)) => {
                self.closing = true;
                self.setting.buffer.end(self.closed());
                self.closers.extend(done);
            }
            None => self.abandoned = true,
        }
    }

    /// A delivery that failed is the last one, or not.
    fn verdict(&self, claim: &Claim, outcome: Outcome) -> (Verdict, Duration) {
        let is_last = self.setting.max_deliveries.is_some_and(|most| deliveries(claim.number) >= most);
        match outcome {
            Outcome::Done => (Verdict::Ack, Duration::ZERO),
            Outcome::Failed { reason, .. } if is_last => (Verdict::Bury { reason }, Duration::ZERO),
            Outcome::Failed { after, .. } => (Verdict::Return, after),
            Outcome::Released => (Verdict::Return, Duration::ZERO),
            Outcome::Rejected { reason } => (Verdict::Bury { reason }, Duration::ZERO),
        }
    }

    fn settle(
        &mut self,
        claim: Arc<Claim>,
        verdict: Verdict,
        hide: Duration,
        done: Option<oneshot::Sender<Result<(), Error>>>,
    ) {
        claim.end();
        let returns = verdict == Verdict::Return && hide.is_zero();
        self.returning += usize::from(returns);
        let settling = Settling {
            returns,
            core: Arc::clone(&self.setting.core),
            places: Arc::clone(&self.setting.places),
            events: self.setting.events.clone(),
            claim,
            verdict,
            hide,
        };
        self.settling.push(settling.run(done));
    }

    /// The item that can be claimed again, if it can be at once.
    fn take_settled(&mut self, Settled { claim, item, returns }: Settled) -> Option<(String, Item)> {
        self.returning -= usize::from(returns);
        if let After::Stuck(hide) = item {
            let (core, places) = (Arc::clone(&self.setting.core), Arc::clone(&self.setting.places));
            self.settling.push(async move {
                settle::return_at_last(&core, &places, &claim).await;
                Settled { claim, item: After::Returned(hide), returns: false }
            });
            return None;
        }
        // One of an earlier session may have the same name.
        if self.in_hand.get(&claim.name) != Some(&Some(claim.zxid)) {
            return None;
        }
        self.in_hand.remove(&claim.name);
        match item {
            After::Returned(Duration::ZERO) => {
                Some((claim.name.clone(), Item { data: claim.data.clone(), version: claim.number }))
            }
            After::Returned(hide) => {
                self.hide(claim.name.clone(), hide);
                None
            }
            After::Gone | After::Unknown | After::Stuck(_) => None,
        }
    }

    fn hide(&mut self, name: String, time: Duration) {
        let now = Instant::now();
        self.hidden.insert(name, now.checked_add(time).unwrap_or(now + FOREVER));
    }

    fn see(&mut self, view: &mut View, seen: Seen) {
        match seen {
            Seen::Condition(Condition::Connected(_)) => {
                view.forget();
                self.setting.buffer.look_again();
            }
            Seen::Condition(_) => {}
            Seen::Extended => self.setting.buffer.look_again(),
            Seen::Changed => view.note_change(),
            Seen::Listed(Ok(listing)) => self.take_listing(view, listing),
            Seen::Listed(Err(end)) => self.failed(view, "list", end),
            Seen::Read(name, read) => self.take_read(view, name, read),
            Seen::Claimed(name, claimed) => self.take_claimed(view, name, claimed),
            Seen::Buried { name, attempts, outcome } => self.take_buried(view, name, attempts, outcome),
        }
    }

    fn take_listing(&mut self, view: &mut View, listing: Listing) {
        if view.is_another(&listing) {
            // Names are given again: what was read is of other items.
            self.hidden.clear();
            view.forget_reads();
        }
        if !self.hidden.is_empty() {
            let present: HashSet<&str> = listing.children.iter().map(String::as_str).collect();
            self.hidden.retain(|name, _| present.contains(name.as_str()));
        }
        self.tell_of_skipped(&listing.children);
        let ours = self.in_hand.len().max(self.wanted());
        let (in_hand, hidden) = (&self.in_hand, &self.hidden);
        let is_open = |name: &str| !in_hand.contains_key(name) && !hidden.contains_key(name);
        view.renew(listing, ours, is_open, |name| in_hand.contains_key(name));
    }

    /// Once for each node that looks like an item and is none.
    fn tell_of_skipped(&mut self, children: &[String]) {
        let foreign: BTreeSet<String> = children.iter().filter(|name| names::is_foreign(name)).cloned().collect();
        for name in foreign.difference(&self.skipped) {
            self.setting.events.tell(Event::Skipped { node: name.clone() });
        }
        self.skipped = foreign;
    }

    fn take_read(&mut self, view: &mut View, name: String, read: Result<Item, End>) {
        match read {
            Ok(item) => view.candidates.read(&name, item),
            Err(end) => {
                view.candidates.remove(&name);
                self.missed(view, name, "read an item of", end);
            }
        }
    }

    fn take_claimed(&mut self, view: &mut View, name: String, claimed: Result<Claim, End>) {
        match claimed {
            Ok(claim) => {
                view.note_hit();
                self.in_hand.insert(name, Some(claim.zxid));
                self.deliver(Arc::new(claim));
            }
            Err(end) => {
                self.in_hand.remove(&name);
                self.missed(view, name, "claim an item of", end);
            }
        }
    }

    fn take_buried(&mut self, view: &mut View, name: String, attempts: u32, outcome: Result<(), End>) {
        self.in_hand.remove(&name);
        match outcome {
            Ok(()) => {
                self.setting.events.tell(Event::DeadLetter { item: name, attempts, reason: no_success(attempts) });
            }
            Err(End::Failed(error)) => {
                self.leave_alone(&name, client::Error::from_backend("make a dead letter of", &name, error));
            }
            Err(end) => self.missed(view, name, "bury an item of", end),
        }
    }

    /// Nothing came of a candidate.
    fn missed(&mut self, view: &mut View, name: String, doing: &str, end: End) {
        match end {
            // It was claimed and returned since it was read, or is claimed now: the next read shows it.
            End::Changed => view.candidates.insert(name, None),
            End::Taken | End::Gone => view.note_miss(),
            End::Refused(error) => self.leave_alone(&name, error),
            end => self.failed(view, doing, end),
        }
    }

    /// An item that cannot be had does not keep the others back.
    fn leave_alone(&mut self, name: &str, error: client::Error) {
        self.hide(name.to_owned(), AFTER_REFUSAL);
        self.setting.events.tell(Event::Failed { error: Error::client(&self.setting.places.path, error) });
    }

    /// Decodes the item, and has it handed out.
    fn deliver(&mut self, claim: Arc<Claim>) {
        tracing::debug!(path = &*self.setting.places.path, item = claim.name, attempt = claim.number, "claimed");
        match dead::items(&*self.setting.serializer, &claim.data) {
            Err(why) => {
                let reason = format!("it cannot be decoded: {why}");
                self.settle(claim, Verdict::Bury { reason }, Duration::ZERO, None);
            }
            // Nothing is in it, so there is nothing to be done.
            Ok(items) if items.is_empty() => self.settle(claim, Verdict::Ack, Duration::ZERO, None),
            Ok(items) => self.setting.buffer.put(Ready { claim, items }),
        }
    }

    /// A caller is told; it is tried again, ever more slowly.
    fn failed(&mut self, view: &mut View, doing: &str, end: End) {
        // The end of a session is told by its condition.
        let End::Failed(error) = end else { return view.note_stale() };
        let path = &self.setting.places.path;
        let error = client::Error::from_backend(doing, path, error);
        tracing::warn!(path = &**path, %error, kind = ?error.kind(), "cannot consume");
        self.setting.buffer.fail(Error::client(path, error));
        let now = self.setting.core.clock.now();
        view.wait(self.failures.next(&self.setting.core, now));
    }

    fn answer_closers(&mut self, is_busy: bool) {
        if self.closing && self.settling.is_empty() && self.setting.buffer.len() == 0 && !is_busy {
            for closer in self.closers.drain(..) {
                // Its caller may be gone.
                let _ = closer.send(());
            }
        }
    }

    fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.setting.places.path) }
    }
}

/// The task may end without having come to its end: with its runtime, or by a panic. No caller may wait for it then.
impl<S: Serializer> Drop for Task<S> {
    fn drop(&mut self) {
        self.setting.buffer.end(self.closed());
        self.setting.events.finish();
    }
}

/// A claim that is being settled.
struct Settling {
    core: Arc<Core>,
    places: Arc<Places>,
    events: Publisher,
    claim: Arc<Claim>,
    verdict: Verdict,
    /// For how long this consumer leaves the item alone, if it is returned.
    hide: Duration,
    returns: bool,
}

impl Settling {
    /// Settles, and tells.
    async fn run(self, done: Option<oneshot::Sender<Result<(), Error>>>) -> Settled {
        let Settling { core, places, events, claim, verdict, hide, returns } = self;
        let outcome = settle::settle(&core, &places, &claim, &verdict).await;
        let refused = matches!(outcome, Err(Unsettled::Refused(_)));
        let item = match (&outcome, &verdict) {
            (Ok(()), Verdict::Return) => After::Returned(hide),
            (Ok(()), _) => After::Gone,
            (Err(Unsettled::Refused(_)), Verdict::Return) => After::Stuck(hide),
            // It would be refused again.
            (Err(Unsettled::Refused(_)), Verdict::Ack | Verdict::Bury { .. }) => After::Stuck(AFTER_REFUSAL),
            (Err(_), _) => After::Unknown,
        };
        if let (Ok(()), Verdict::Bury { reason }) = (&outcome, &verdict) {
            let (item, reason) = (claim.name.clone(), reason.clone());
            events.tell(Event::DeadLetter { item, attempts: deliveries(claim.number), reason });
        }
        let outcome = outcome.map_err(|unsettled| unsettled.into_error(&places, &claim.name));
        let untold = match done {
            Some(done) => done.send(outcome).err(),
            None => Some(outcome),
        };
        // What was only to be returned is free when its session ends.
        if let Some(Err(error)) = untold
            && (refused || verdict != Verdict::Return)
        {
            if refused {
                core.report(client::Error::new(error.kind(), error.to_string()));
            }
            events.tell(Event::Unsettled { item: claim.name.clone(), error });
        }
        Settled { claim, item, returns }
    }
}

/// Why an item became a dead letter that was delivered too often.
fn no_success(deliveries: u32) -> String {
    format!("it was claimed {deliveries} times without success")
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
