//! The task of a consumer: claims items for the waiting callers, and settles the claims.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::buffer::{Buffer, Ready};
use super::claim::{Claim, Claimant, End};
use super::delivery::Command;
use super::items::{Change, Items};
use super::outcome::{After, Settled, Told, return_at_last, settle_and_tell};
use super::settle::Verdict;
use super::shared::{AFTER_FAILURE, AFTER_REFUSAL, Shared};
use super::view::{Listing, Seen, View};
use crate::client;
use crate::client::core::KeepAlive;
use crate::client::session::{Condition, Session};
use crate::engine;
use crate::layout::queue;
use crate::metrics::{Label, Reading, table};
use crate::queue::dead_letter;
use crate::queue::error::Error;
use crate::queue::events::Event;
use crate::util::backoff::Backoff;
use crate::util::serializer::Serializer;
use crate::util::task_set::TaskSet;
use crate::util::wait::sleep_until_opt;

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
    /// After a failure, nothing is listed or claimed before this time.
    not_before: Option<Instant>,
    /// The nodes that are not items, and that were reported.
    skipped: BTreeSet<String>,
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

    fn tell(&self, (items, claimed): (usize, usize)) {
        self.items.set(items as f64);
        self.claimed.set(claimed as f64);
    }
}

/// An event for the task.
enum Heard {
    Command(Option<Command>),
    Settled(Settled),
    Seen(Seen),
    /// It is time to check what can be done.
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
            skipped: BTreeSet::new(),
            settling: TaskSet::new(),
            closing: false,
            closers: Vec::new(),
            failures: Backoff::new(AFTER_FAILURE),
        }
    }

    /// Runs until all handles and deliveries are dropped, and everything is settled.
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

    /// Waits for the session to use; `None` if there is nothing to do any more, or the client is closed.
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

    /// Handles a command or a settlement while there is no session. Claims of an ended session are settled too: usually
    /// that fails, and the failure has to be reported.
    async fn between_sessions(&mut self) {
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => self.obey(command),
            settled = self.settling.next() => self.take_settled(settled),
        }
        self.answer_closers(false);
    }

    /// Runs until the session ends, or there is nothing to do any more.
    async fn serve(&mut self, session: &Arc<Session>) {
        let claimant = Claimant { shared: Arc::clone(&self.shared), session: Arc::clone(session) };
        let mut view = View::new(claimant);
        loop {
            if view.is_looking() {
                self.depth.tell(self.items.counts());
            }
            let again_at = self.act(&mut view, Instant::now());
            self.answer_closers(view.claiming() > 0);
            if self.is_finished() && view.claiming() == 0 {
                return;
            }
            let mut heard = Some(self.hear(&mut view, again_at).await);
            // All pending events are handled before anything is sent, so that the requests are sent together. Also, a
            // transaction that changes an item and its claim causes two events, and a request between the two would be
            // refused.
            while let Some(next) = heard {
                if matches!(next, Heard::Seen(Seen::Condition(Condition::Ended(_)))) {
                    return;
                }
                self.take_in(&mut view, next);
                heard = self.hear(&mut view, None).now_or_never();
            }
        }
    }

    /// Waits for the next event, at the latest until `again_at`.
    async fn hear(&mut self, view: &mut View, again_at: Option<Instant>) -> Heard {
        let session = Arc::clone(&view.claimant.session);
        // Created before the callers read the lease, so that no extension is missed.
        let extended = session.lease().extended();
        self.buffer.look_again();
        let is_waited_for = self.buffer.len() > 0;
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => Heard::Command(command),
            seen = view.next() => Heard::Seen(seen),
            settled = self.settling.next() => Heard::Settled(settled),
            // The callers check again.
            () = extended, if is_waited_for => Heard::Time,
            () = self.buffer.asked() => Heard::Time,
            () = sleep_until_opt(again_at) => Heard::Time,
        }
    }

    fn take_in(&mut self, view: &mut View, heard: Heard) {
        match heard {
            Heard::Command(command) => self.obey(command),
            Heard::Settled(settled) => self.take_settled(settled),
            Heard::Seen(seen) => self.see(view, seen),
            Heard::Time => {}
        }
    }

    /// Starts everything that can be started now. Returns when there will be more to do, even if nothing happens.
    fn act(&mut self, view: &mut View, now: Instant) -> Option<Instant> {
        self.items.show_hidden(now);
        for ready in self.unwanted() {
            self.settle(ready.claim, Verdict::RELEASE, Told::default());
        }
        let surplus_at = self.buffer.surplus_at();
        if self.closing {
            view.look_away();
            return surplus_at;
        }
        let again_at = self.claim_what_is_wanted(view, now);
        surplus_at.into_iter().chain(again_at).min()
    }

    fn claim_what_is_wanted(&mut self, view: &mut View, now: Instant) -> Option<Instant> {
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
        let look_again_at = view.look(now);
        let wanted = all_wanted.saturating_sub(self.buffer.len() + view.claiming());
        let ahead = self.items.count_in_hand().saturating_sub(view.claiming());
        let steps = self.items.plan(wanted, ahead, now);
        steps.read.into_iter().for_each(|name| view.read(name));
        steps.claim.into_iter().for_each(|(name, item)| view.claim(name, item));
        [self.items.shown_at(), steps.again_at, Some(look_again_at)].into_iter().flatten().min()
    }

    fn unwanted(&self) -> impl Iterator<Item = Ready<S::Item>> + use<S> {
        let buffer = &self.buffer;
        if self.closing { buffer.clear() } else { buffer.surplus() }.into_iter()
    }

    fn obey(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Settle { claim, verdict, told }) => self.settle(claim, verdict, told),
            Some(Command::Close(done)) => {
                self.closing = true;
                self.buffer.end(self.shared.closed());
                self.closers.extend(done);
            }
            None => self.abandoned = true,
        }
    }

    fn settle(&mut self, claim: Arc<Claim>, verdict: Verdict, told: Told) {
        claim.end();
        if verdict.returns_at_once() {
            self.items.note_returning(&claim.name, claim.zxid);
        }
        self.settling.push(settle_and_tell(claim, verdict, told));
    }

    fn take_settled(&mut self, Settled { claim, item }: Settled) {
        let (name, now) = (&claim.name, Instant::now());
        // A claim of an earlier session or queue is a different one, perhaps on a different item.
        let is_in_hand = self.items.is_in_hand(name, claim.zxid);
        match item {
            After::StillClaimed(hide) => {
                self.items.note_kept(name, claim.zxid);
                self.settling.push(return_at_last(claim, hide));
            }
            _ if !is_in_hand => {}
            After::Returned(hide) if hide > Duration::ZERO => {
                self.items.hide(name, hide, now);
                self.items.let_go(name, now);
            }
            After::Returned(_) | After::Gone => self.items.let_go(name, now),
        }
    }

    fn see(&mut self, view: &mut View, seen: Seen) {
        let now = Instant::now();
        match seen {
            Seen::Condition(_) => {}
            Seen::Listed(Ok(listing)) => self.take_listing(view, listing, now),
            Seen::Listed(Err(error)) => self.failed("list", error),
            Seen::Item(name, change) => {
                self.tell_if_foreign(&name, change);
                if queue::is_item(&name) {
                    self.items.note_item(&name, change, now);
                }
            }
            Seen::Claim(name, change) => self.items.note_claim(&name, change, now),
            Seen::Deleted => self.start_over(view),
            Seen::Missed => {
                self.items.forget_contents();
                view.look_again(now);
            }
            Seen::Read(name, Ok(item)) => self.items.note_read(&name, item, now),
            // Another answer came first, and the item may be in hand by now.
            Seen::Read(name, Err(_)) if !self.items.is_being_read(&name) => {}
            Seen::Read(name, Err(end)) => self.handle_failure(&name, "read an item of", end, now),
            Seen::Claimed(name, Ok(claim)) => {
                self.failures = Backoff::new(AFTER_FAILURE);
                self.items.note_own(name, claim.zxid);
                self.deliver(Arc::new(claim));
            }
            Seen::Claimed(name, Err(end)) => self.handle_failure(&name, "claim an item of", end, now),
        }
    }

    fn take_listing(&mut self, view: &mut View, listing: Listing, now: Instant) {
        if self.queue.is_some_and(|queue| listing.queue != Some(queue)) {
            self.start_over(view);
        }
        self.queue = listing.queue;
        let foreign: BTreeSet<&String> = listing.items.iter().filter(|name| queue::is_foreign(name)).collect();
        self.skipped.retain(|name| foreign.contains(name));
        foreign.into_iter().for_each(|name| self.tell_if_foreign(name, Change::Came));
        let items = listing.items.into_iter().filter(|name| queue::is_item(name));
        self.items.list(items, listing.claims.into_iter(), now);
    }

    /// Starts over after the queue was deleted: names are assigned again.
    fn start_over(&mut self, view: &mut View) {
        self.queue = None;
        self.items.start_over();
        view.forget_reads();
    }

    /// Reports, once for each, a node that looks like an item but is not.
    fn tell_if_foreign(&mut self, name: &str, change: Change) {
        if queue::is_foreign(name) {
            if change == Change::Went {
                self.skipped.remove(name);
            } else if self.skipped.insert(name.to_owned()) {
                self.shared.events.tell(Event::Skipped { node: name.to_owned() });
            }
        }
    }

    /// Handles an item that was not read or claimed.
    fn handle_failure(&mut self, name: &str, doing: &str, end: End, now: Instant) {
        match end {
            End::Changed => self.items.read_again(name, now),
            End::Taken => self.items.note_miss(name, self.shared.core.random.unit(), now),
            End::Gone => self.items.note_unavailable(name, now),
            End::Refused(error) => self.leave_alone(name, error, now),
            End::Failed(error) => {
                self.items.read_again(name, now);
                self.failed(doing, error);
            }
        }
    }

    /// Hides an item that cannot be claimed, so that it does not delay the others.
    fn leave_alone(&mut self, name: &str, error: client::Error, now: Instant) {
        self.items.hide(name, AFTER_REFUSAL, now);
        self.items.let_go(name, now);
        self.shared.events.tell(Event::Failed { error: self.shared.error(error) });
    }

    /// Decodes the item and adds it to the buffer, unless it was delivered too often or cannot be decoded.
    fn deliver(&mut self, claim: Arc<Claim>) {
        let path = &*self.shared.paths.path;
        tracing::debug!(event = "claimed", path, item = claim.name, attempt = claim.attempt(), "claimed");
        let label = [Label::Path(path)];
        self.shared.core.meter().record(&table::QUEUE_ATTEMPTS, &label, f64::from(claim.attempt()));
        let attempts = claim.history.failures;
        if self.shared.max_deliveries.is_some_and(|most| attempts >= most) {
            let reason = claim.history.reason();
            return self.settle(claim, Verdict::Bury { attempts, reason }, Told::default());
        }
        match dead_letter::items(&*self.serializer, claim.body()) {
            Err(why) => {
                let verdict = Verdict::rejected(&claim, format!("it cannot be decoded: {why}"));
                self.settle(claim, verdict, Told::default());
            }
            // A node without items needs no handling.
            Ok(items) if items.is_empty() => self.settle(claim, Verdict::Ack, Told::default()),
            Ok(items) => self.buffer.put(Ready { claim, items }),
        }
    }

    /// Returns the error to a caller, and retries after a growing delay.
    fn failed(&mut self, doing: &str, error: engine::Error) {
        if error == engine::Error::SessionEnded {
            // The session's condition reports this too, and there will be another session.
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
                // Its caller may be gone.
                let _ = closer.send(());
            }
        }
    }
}

/// Releases all callers, because the task may end early: with its runtime, or by a panic.
impl<S: Serializer> Drop for Task<S> {
    fn drop(&mut self) {
        self.buffer.end(self.shared.closed());
        self.shared.events.finish();
    }
}
