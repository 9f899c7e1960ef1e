//! The task of a consumer: claims items for the waiting callers, and settles the claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::buffer::{Buffer, Ready};
use super::claim::{Claim, ClaimError, Claimant, Item};
use super::delivery::Command;
use super::items::{Change, Items};
use super::outcome::{ItemState, Notice, Settled, return_until_done, settle_and_notify};
use super::settle::Verdict;
use super::shared::{HIDDEN_AFTER_REFUSAL, Shared};
use super::view::{Listing, View, ViewEvent};
use crate::client;
use crate::client::core::KeepAlive;
use crate::client::session::{Condition, Session};
use crate::engine;
use crate::layout::queue;
use crate::metrics::{Label, Reading, table};
use crate::queue::dead_letter;
use crate::queue::error::Error;
use crate::queue::events::Event;
use crate::queue::time;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};
use crate::util::serializer::Serializer;
use crate::util::task_set::TaskSet;
use crate::util::wait::sleep_until_opt;

/// Ten years. An item whose time is later than that is reported.
const FAR_AHEAD_MS: i64 = 10 * 365 * 24 * 3_600_000;

pub(super) struct Task<S: Serializer> {
    shared: Arc<Shared>,
    serializer: Arc<S>,
    buffer: Arc<Buffer<S::Item>>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Whether all handles and deliveries are dropped.
    abandoned: bool,
    items: Items,
    /// The transaction that created the queue, as of the last listing.
    queue: Option<i64>,
    /// Nothing is listed or claimed before this time, because something failed.
    not_before: Option<Instant>,
    /// The nodes that have been reported: those that are not items, and items with times far ahead.
    reported: BTreeSet<String>,
    settling: TaskSet<Settled>,
    closing: bool,
    closers: Vec<oneshot::Sender<()>>,
    failures: Backoff,
    depth: Depth,
    _keep_alive: KeepAlive,
}

/// The length of the queue, for the metrics.
struct Depth {
    items: Reading,
    claimed: Reading,
}

impl Depth {
    fn new(shared: &Shared) -> Self {
        let (meter, label) = (shared.core.meter(), [Label::Path(&shared.paths.path)]);
        Depth {
            items: meter.reading(&table::QUEUE_ITEMS, &label),
            claimed: meter.reading(&table::QUEUE_CLAIMED, &label),
        }
    }

    fn set(&self, (items, claimed): (usize, usize)) {
        self.items.set(items as f64);
        self.claimed.set(claimed as f64);
    }
}

/// What the task waits for.
enum TaskEvent {
    Command(Option<Command>),
    Settled(Settled),
    View(ViewEvent),
    /// Something may be possible now that was not before.
    Time,
}

impl<S: Serializer> Task<S> {
    pub(super) fn new(
        shared: Arc<Shared>,
        serializer: &Arc<S>,
        buffer: &Arc<Buffer<S::Item>>,
        items: Items,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Task {
            _keep_alive: shared.core.keep_alive(),
            depth: Depth::new(&shared),
            shared,
            serializer: Arc::clone(serializer),
            buffer: Arc::clone(buffer),
            commands,
            abandoned: false,
            items,
            queue: None,
            not_before: None,
            reported: BTreeSet::new(),
            settling: TaskSet::new(),
            closing: false,
            closers: Vec::new(),
            failures: Backoff::new(AFTER_REFUSAL),
        }
    }

    /// Runs until all handles and deliveries are dropped and everything is settled.
    pub(super) async fn run(mut self) {
        while let Some(session) = self.next_session().await {
            self.serve(&session).await;
            // These items are not delivered, so no caller needs an error. Others get them when the session expires.
            self.buffer.clear();
            self.items.end_session();
        }
        self.buffer.end(self.shared.closed());
        while !self.is_finished() {
            self.between_sessions().await;
        }
    }

    /// Waits for the next session. Returns `None` if there is nothing left to do, or the client is closed.
    async fn next_session(&mut self) -> Option<Arc<Session>> {
        let core = Arc::clone(&self.shared.core);
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

    /// Handles a command or a settlement while there is no session. Claims of an ended session are settled too. Usually
    /// that fails, and the failure has to be reported.
    async fn between_sessions(&mut self) {
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => self.handle_command(command),
            settled = self.settling.next() => self.handle_settled(settled),
        }
        self.answer_closers(false);
    }

    /// Consumes in this session until it ends, or until there is nothing left to do.
    async fn serve(&mut self, session: &Arc<Session>) {
        let claimant = Claimant { shared: Arc::clone(&self.shared), session: Arc::clone(session) };
        let mut view = View::new(claimant);
        loop {
            if view.is_watching() {
                self.depth.set(self.items.counts());
            }
            let again_at = self.start_work(&mut view, Instant::now());
            self.answer_closers(view.claims_in_flight() > 0);
            if self.is_finished() && view.claims_in_flight() == 0 {
                return;
            }
            let mut event = Some(self.next_event(&mut view, again_at).await);
            // All pending events are handled before anything is sent. So the requests are sent together. And a
            // transaction that changes an item and its claim causes two events; a request sent between them would be
            // refused.
            while let Some(next) = event {
                match next {
                    TaskEvent::View(ViewEvent::Condition(Condition::Ended(_))) => return,
                    TaskEvent::View(event) => self.handle_view_event(&mut view, event),
                    TaskEvent::Command(command) => self.handle_command(command),
                    TaskEvent::Settled(settled) => self.handle_settled(settled),
                    TaskEvent::Time => {}
                }
                event = self.next_event(&mut view, None).now_or_never();
            }
        }
    }

    /// Waits for the next event, no longer than until `again_at`.
    async fn next_event(&mut self, view: &mut View, again_at: Option<Instant>) -> TaskEvent {
        let session = Arc::clone(&view.claimant.session);
        // Created before the callers read the lease, so that no extension is missed.
        let extended = session.lease().extended();
        self.buffer.recheck_leases();
        let is_waited_for = self.buffer.len() > 0;
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => TaskEvent::Command(command),
            event = view.next() => TaskEvent::View(event),
            settled = self.settling.next() => TaskEvent::Settled(settled),
            // The callers check again.
            () = extended, if is_waited_for => TaskEvent::Time,
            () = self.buffer.demand_changed() => TaskEvent::Time,
            () = sleep_until_opt(again_at) => TaskEvent::Time,
        }
    }

    /// Starts everything that can be started now. Returns when there will be more to do, even if no event comes.
    fn start_work(&mut self, view: &mut View, now: Instant) -> Option<Instant> {
        let time_of_day = time::millis_at(self.shared.core.clock.time_of_day());
        self.items.show_hidden(now);
        self.items.show_due(time_of_day, now);
        let unwanted = if self.closing { self.buffer.clear() } else { self.buffer.surplus() };
        for ready in unwanted {
            self.settle(ready.claim, Verdict::RELEASE, Notice::default());
        }
        let surplus_at = self.buffer.surplus_at();
        if self.closing {
            view.stop_watching();
            return surplus_at;
        }
        let again_at = self.request_items(view, now, time_of_day);
        surplus_at.into_iter().chain(again_at).min()
    }

    /// Lists, reads and claims as long as more items are wanted. Returns as [`start_work`](Self::start_work) does.
    fn request_items(&mut self, view: &mut View, now: Instant, time_of_day: i64) -> Option<Instant> {
        let all_wanted = self.buffer.wanted();
        if all_wanted == 0 || self.items.is_returning() {
            return None;
        }
        if let Some(at) = self.not_before.filter(|at| *at > now) {
            return Some(at);
        }
        if !matches!(view.claimant.session.condition(), Condition::Connected(_)) {
            // The known state may be outdated by the time there is a connection.
            return None;
        }
        let list_again_at = view.ensure_watching(now);
        let wanted = all_wanted.saturating_sub(self.buffer.len() + view.claims_in_flight());
        let ahead = self.items.own_claim_count().saturating_sub(view.claims_in_flight());
        let steps = self.items.plan(wanted, ahead, now);
        steps.read.into_iter().for_each(|name| view.read(name));
        steps.claim.into_iter().for_each(|(name, item)| view.claim(name, item));
        // A time that the clock cannot represent is later than the next listing.
        let due_at = self.items.next_due().and_then(|due| now.checked_add(time::between(time_of_day, due)));
        [self.items.shown_at(), due_at, steps.again_at, Some(list_again_at)].into_iter().flatten().min()
    }

    fn handle_command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Settle { claim, verdict, notice }) => self.settle(claim, verdict, notice),
            Some(Command::Close(done)) => {
                self.closing = true;
                self.buffer.end(self.shared.closed());
                self.closers.extend(done);
            }
            None => self.abandoned = true,
        }
    }

    fn settle(&mut self, claim: Arc<Claim>, verdict: Verdict, notice: Notice) {
        claim.end();
        if verdict.returns_at_once() {
            self.items.note_returning(&claim.name, claim.zxid);
        }
        self.settling.push(settle_and_notify(claim, verdict, notice));
    }

    fn handle_settled(&mut self, Settled { claim, item }: Settled) {
        let (name, now) = (&claim.name, Instant::now());
        match item {
            ItemState::StillClaimed(hide) => {
                self.items.note_kept(name, claim.zxid);
                self.settling.push(return_until_done(claim, hide));
            }
            // A claim of an earlier session or queue is a different one, perhaps on a different item.
            _ if !self.items.is_own_claim(name, claim.zxid) => {}
            ItemState::Returned(hide) => self.items.give_up(name, hide, now),
            ItemState::Delayed(delay) => self.items.note_returned(name, delay, now),
            ItemState::Gone => self.items.remove_own_claim(name, now),
        }
    }

    fn handle_view_event(&mut self, view: &mut View, event: ViewEvent) {
        let now = Instant::now();
        match event {
            ViewEvent::Condition(_) => {}
            ViewEvent::Listed(Ok(listing)) => self.handle_listing(view, listing, now),
            ViewEvent::Listed(Err(error)) => self.handle_error("list", error),
            ViewEvent::Item(name, change) => {
                self.report_if_odd(&name, change);
                if queue::is_item(&name) {
                    self.items.note_item(&name, change, now);
                }
            }
            ViewEvent::Claim(name, change) => self.items.note_claim(&name, change, now),
            ViewEvent::Deleted => self.start_over(view),
            ViewEvent::Missed => {
                self.items.forget_contents();
                view.list_again(now);
            }
            ViewEvent::Read(name, Ok(item)) => self.handle_read(&name, item, now),
            // Another answer came first, and this consumer may have claimed the item by now.
            ViewEvent::Read(name, Err(_)) if !self.items.is_being_read(&name) => {}
            ViewEvent::Read(name, Err(error)) => self.handle_claim_error(&name, "read an item of", error, now),
            ViewEvent::Claimed(name, Ok(claim)) => {
                self.failures = Backoff::new(AFTER_REFUSAL);
                self.items.note_own(name, claim.zxid);
                self.deliver(Arc::new(claim));
            }
            ViewEvent::Claimed(name, Err(error)) => self.handle_claim_error(&name, "claim an item of", error, now),
        }
    }

    fn handle_read(&mut self, name: &str, item: Item, now: Instant) {
        let retry = item.retry();
        if let Some(retry) = retry {
            match retry.left(time::millis_at(self.shared.core.clock.time_of_day())) {
                Some(left) if self.items.note_delayed(name, retry, left, now) => return,
                Some(_) => {}
                None => {
                    let (path, item) = (&*self.shared.paths.path, name);
                    tracing::warn!(event = "retry_ignored", path, item, ?retry, "a delay is too long, and is ignored");
                }
            }
        }
        self.items.note_read(name, item, now);
    }

    fn handle_listing(&mut self, view: &mut View, listing: Listing, now: Instant) {
        if self.queue.is_some_and(|queue| listing.queue != Some(queue)) {
            self.start_over(view);
        }
        self.queue = listing.queue;
        let odd: BTreeSet<&String> = listing.items.iter().filter(|name| self.oddity(name).is_some()).collect();
        self.reported.retain(|name| odd.contains(name));
        odd.into_iter().for_each(|name| self.report_if_odd(name, Change::Created));
        let items = listing.items.into_iter().filter(|name| queue::is_item(name));
        self.items.list(items, listing.claims.into_iter(), now);
    }

    /// Starts over after the queue was deleted, because its names will be assigned again.
    fn start_over(&mut self, view: &mut View) {
        self.queue = None;
        self.items.start_over();
        view.forget_reads();
    }

    /// Reports each node once that looks like an item but is not, and each item whose time is far ahead.
    fn report_if_odd(&mut self, name: &str, change: Change) {
        if change == Change::Deleted {
            self.reported.remove(name);
        } else if let Some(event) = self.oddity(name)
            && self.reported.insert(name.to_owned())
        {
            self.shared.events.publish(event);
        }
    }

    /// Returns the event for such a node.
    fn oddity(&self, name: &str) -> Option<Event> {
        if queue::is_foreign(name) {
            return Some(Event::Skipped { node: name.to_owned() });
        }
        let left = queue::delayed_until_ms(name)?.saturating_sub(time::millis_at(self.shared.core.clock.time_of_day()));
        (left > FAR_AHEAD_MS).then(|| Event::FarAhead { item: name.to_owned() })
    }

    /// Handles the failure to read or claim an item.
    fn handle_claim_error(&mut self, name: &str, doing: &str, error: ClaimError, now: Instant) {
        match error {
            ClaimError::Changed => self.items.read_again(name, now),
            ClaimError::Taken => self.items.note_miss(name, self.shared.core.random.unit(), now),
            ClaimError::Gone => self.items.note_unavailable(name, now),
            ClaimError::Refused(error) => {
                // It must not delay the others.
                self.items.give_up(name, HIDDEN_AFTER_REFUSAL, now);
                self.shared.events.publish(Event::Failed { error: self.shared.error(error) });
            }
            ClaimError::Failed(error) => {
                self.items.read_again(name, now);
                self.handle_error(doing, error);
            }
        }
    }

    /// Decodes a claimed item and adds it to the buffer. An item that was delivered too often, or cannot be decoded,
    /// becomes a dead letter.
    fn deliver(&mut self, claim: Arc<Claim>) {
        let path = &*self.shared.paths.path;
        tracing::debug!(event = "claimed", path, item = claim.name, attempt = claim.attempt(), "claimed");
        let label = [Label::Path(path)];
        self.shared.core.meter().record(&table::QUEUE_ATTEMPTS, &label, f64::from(claim.attempt()));
        let attempts = claim.history.failures;
        let verdict = if self.shared.max_deliveries.is_some_and(|most| attempts >= most) {
            Verdict::DeadLetter { attempts, reason: claim.history.reason() }
        } else {
            match dead_letter::items(&*self.serializer, claim.body()) {
                Err(why) => Verdict::rejected(&claim, format!("it cannot be decoded: {why}")),
                // A node without items needs no handling.
                Ok(items) if items.is_empty() => Verdict::Ack,
                Ok(items) => return self.buffer.put(Ready { claim, items }),
            }
        };
        self.settle(claim, verdict, Notice::default());
    }

    /// Passes the error to a caller, and lets the next attempt wait for a growing delay.
    fn handle_error(&mut self, doing: &str, error: engine::Error) {
        if error == engine::Error::SessionEnded {
            // The session's condition reports this too, and another session follows.
            return;
        }
        let path = &self.shared.paths.path;
        let error = client::Error::from_engine(doing, path, error);
        tracing::warn!(event = "cannot_consume", path = &**path, %error, kind = ?error.kind(), "cannot consume");
        let now = self.shared.core.clock.now();
        let retry_at = Instant::now() + self.shared.core.next_delay(&mut self.failures, now);
        self.buffer.fail(Error::client(path, error), retry_at);
        self.not_before = self.not_before.max(Some(retry_at));
    }

    fn answer_closers(&mut self, is_busy: bool) {
        if self.closing && self.settling.is_empty() && self.buffer.len() == 0 && !is_busy {
            for closer in self.closers.drain(..) {
                // The caller may have stopped waiting.
                let _ = closer.send(());
            }
        }
    }
}

/// Releases all callers: the task may end early, with its runtime or by a panic.
impl<S: Serializer> Drop for Task<S> {
    fn drop(&mut self) {
        self.buffer.end(self.shared.closed());
        self.shared.events.finish();
    }
}
