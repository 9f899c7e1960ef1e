//! The task of a consumer: claims items for the callers that wait, and settles what is said of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::buffer::{Buffer, Ready};
use super::claim::{Claim, Claimant, End, Item, deliveries};
use super::delivery::{Command, Outcome};
use super::items::{Change, Items};
use super::settle::{self, Verdict};
use super::settling::{AFTER_REFUSAL, After, Settled, Settling};
use super::view::{Listing, Seen, View};
use crate::client;
use crate::client::core::{Core, KeepAlive};
use crate::client::delays::Delays;
use crate::client::pool::Pool;
use crate::client::session::{Condition, Session};
use crate::queue::dead_letter;
use crate::queue::error::Error;
use crate::queue::events::{Event, Publisher};
use crate::queue::serializer::Serializer;
use crate::queue::znodes::{self, Paths};

/// A caller that waits for so long has everything listed again: servers tell nothing of nodes that this client may not read, and
/// nothing when that changes.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Delays after a listing or a claim was refused, each twice the one before, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What a consumer works with.
pub(super) struct Setting<S: Serializer> {
    pub(super) core: Arc<Core>,
    pub(super) paths: Arc<Paths>,
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
    items: Items,
    /// The transaction that created the queue, when it was listed last.
    queue: Option<i64>,
    /// When the queue was listed last, or was to be.
    looked_at: Option<Instant>,
    /// After a failure nothing is looked for or claimed before.
    not_before: Option<Instant>,
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
            items: Items::new(setting.strict),
            setting,
            commands,
            abandoned: false,
            queue: None,
            looked_at: None,
            not_before: None,
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
            self.items.end_session();
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
            settled = self.settling.next() => self.take_settled(settled),
        }
        self.answer_closers(false);
    }

    /// For as long as the session lives, and there is something to do.
    async fn serve(&mut self, session: &Arc<Session>) {
        let claimant = Claimant {
            core: Arc::clone(&self.setting.core),
            session: Arc::clone(session),
            paths: Arc::clone(&self.setting.paths),
            holder: Arc::clone(&self.holder),
        };
        let mut view = View::new(claimant);
        self.setting.buffer.look_again();
        loop {
            let again_at = self.act(&mut view, Instant::now());
            self.answer_closers(view.is_busy());
            if self.is_finished() && !view.is_busy() {
                return;
            }
            match self.hear(&mut view, again_at).await {
                Heard::Command(command) => {
                    self.obey(command);
                    // What was said together is sent together.
                    while let Ok(command) = self.commands.try_recv() {
                        self.obey(Some(command));
                    }
                }
                Heard::Settled(settled) => self.take_settled(settled),
                Heard::Seen(Seen::Condition(Condition::Ended(_))) => return,
                Heard::Seen(seen) => {
                    self.see(&mut view, seen);
                    while let Some(seen) = view.told_already() {
                        self.see(&mut view, seen);
                    }
                }
                Heard::Asked | Heard::Time => {}
            }
        }
    }

    /// What happens next; at the latest it is that time.
    async fn hear(&mut self, view: &mut View, again_at: Option<Instant>) -> Heard {
        let unproven = self.setting.buffer.len() > 0;
        tokio::select! {
            biased;
            command = self.commands.recv(), if !self.abandoned => Heard::Command(command),
            seen = view.next(unproven) => Heard::Seen(seen),
            settled = self.settling.next() => Heard::Settled(settled),
            () = self.setting.buffer.asked() => Heard::Asked,
            () = until(again_at) => Heard::Time,
        }
    }

    /// Begins whatever can be begun now. When there will be something to do though nothing happens.
    fn act(&mut self, view: &mut View, now: Instant) -> Option<Instant> {
        self.items.show_hidden(now);
        for ready in self.unwanted() {
            self.settle(ready.claim, Verdict::Return, Duration::ZERO, None);
        }
        let surplus_at = self.setting.buffer.surplus_at();
        if self.closing {
            view.look_away();
            return surplus_at;
        }
        let again_at = self.claim_what_is_wanted(view, now);
        surplus_at.into_iter().chain(again_at).min()
    }

    fn claim_what_is_wanted(&mut self, view: &mut View, now: Instant) -> Option<Instant> {
        let all_wanted = self.setting.buffer.wanted();
        if all_wanted == 0 || self.returning > 0 {
            return None;
        }
        if let Some(at) = self.not_before.filter(|at| *at > now) {
            return Some(at);
        }
        if !matches!(view.claimant.session.condition(), Condition::Connected(_)) {
            // What is known may be outdated by the time there is a connection.
            return None;
        }
        view.look();
        let looked_at = self.looked_at.get_or_insert(now);
        if *looked_at + LOOK_AGAIN_AFTER <= now {
            *looked_at = now;
            view.look_again();
        }
        let look_again_at = *looked_at + LOOK_AGAIN_AFTER;
        let wanted = all_wanted.saturating_sub(self.setting.buffer.len() + view.claiming());
        let ahead = self.items.count_in_hand().saturating_sub(view.claiming());
        let steps = self.items.plan(wanted, ahead, now);
        for name in steps.read {
            view.read(name);
        }
        for (name, item) in steps.claim {
            let had = deliveries(item.version);
            match self.setting.max_deliveries {
                Some(most) if had >= most => view.bury(name, item, had, no_success(had)),
                _ => view.claim(name, item),
            }
        }
        [self.items.shown_at(), steps.again_at, Some(look_again_at)].into_iter().flatten().min()
    }

    fn unwanted(&self) -> impl Iterator<Item = Ready<S::Item>> + use<S> {
        let buffer = &self.setting.buffer;
        if self.closing { buffer.clear() } else { buffer.surplus() }.into_iter()
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
            paths: Arc::clone(&self.setting.paths),
            events: self.setting.events.clone(),
            claim,
            verdict,
            hide,
        };
        self.settling.push(settling.run(done));
    }

    fn take_settled(&mut self, Settled { claim, item, returns }: Settled) {
        self.returning -= usize::from(returns);
        if let After::Stuck(hide) = item {
            return self.return_at_last(claim, hide);
        }
        let (name, now) = (&claim.name, Instant::now());
        // In an earlier session it was another claim, perhaps of another item.
        if !self.items.is_in_hand(name, claim.zxid) {
            return;
        }
        match item {
            After::Returned(Duration::ZERO) => {
                self.items.note_returned(name, Item { data: claim.data.clone(), version: claim.number }, now);
            }
            After::Returned(hide) => {
                self.items.hide(name, hide, now);
                self.items.let_go(name, now);
            }
            After::Gone | After::Unknown | After::Stuck(_) => self.items.let_go(name, now),
        }
    }

    fn return_at_last(&mut self, claim: Arc<Claim>, hide: Duration) {
        let (core, paths) = (Arc::clone(&self.setting.core), Arc::clone(&self.setting.paths));
        self.settling.push(async move {
            settle::return_at_last(&core, &paths, &claim).await;
            Settled { claim, item: After::Returned(hide), returns: false }
        });
    }

    fn see(&mut self, view: &mut View, seen: Seen) {
        let now = Instant::now();
        match seen {
            Seen::Condition(Condition::Connected(_)) | Seen::Extended => self.setting.buffer.look_again(),
            Seen::Condition(_) => {}
            Seen::Listed(Ok(listing)) => self.take_listing(view, listing, now),
            Seen::Listed(Err(end)) => self.failed("list", end),
            Seen::Item(name, change) => {
                self.tell_if_foreign(&name, change);
                if znodes::is_item(&name) {
                    self.items.note_item(&name, change, now);
                }
            }
            Seen::Claim(name, change) => self.items.note_claim(&name, change, now),
            Seen::Deleted => self.begin_anew(view),
            Seen::Missed => {
                self.items.forget_contents();
                view.look_again();
            }
            Seen::Read(name, Ok(item)) => self.items.note_read(&name, item, now),
            Seen::Read(name, Err(end)) => self.take_failure(&name, "read an item of", end, now),
            Seen::Claimed(name, Ok(claim)) => {
                self.failures = Delays::new(AFTER_FAILURE);
                self.items.note_own(name, claim.zxid);
                self.deliver(Arc::new(claim));
            }
            Seen::Claimed(name, Err(end)) => self.take_failure(&name, "claim an item of", end, now),
            Seen::Buried { name, attempts, outcome: Ok(()) } => {
                self.items.let_go(&name, now);
                self.setting.events.tell(Event::DeadLetter { item: name, attempts, reason: no_success(attempts) });
            }
            Seen::Buried { name, outcome: Err(End::Failed(error)), .. } => {
                let error = client::Error::from_backend("make a dead letter of", &name, error);
                self.leave_alone(&name, error, now);
            }
            Seen::Buried { name, outcome: Err(end), .. } => self.take_failure(&name, "bury an item of", end, now),
        }
    }

    fn take_listing(&mut self, view: &mut View, listing: Listing, now: Instant) {
        if self.queue.is_some_and(|queue| listing.queue != Some(queue)) {
            self.begin_anew(view);
        }
        self.queue = listing.queue;
        self.looked_at = Some(now);
        let foreign: BTreeSet<&String> = listing.items.iter().filter(|name| znodes::is_foreign(name)).collect();
        self.skipped.retain(|name| foreign.contains(name));
        foreign.into_iter().for_each(|name| self.tell_if_foreign(name, Change::Came));
        let items = listing.items.into_iter().filter(|name| znodes::is_item(name));
        self.items.list(items, listing.claims.into_iter(), now);
    }

    /// The queue was deleted: names are given again.
    fn begin_anew(&mut self, view: &mut View) {
        self.queue = None;
        self.items.begin_anew();
        view.forget_reads();
    }

    /// Once for each node that looks like an item and is none.
    fn tell_if_foreign(&mut self, name: &str, change: Change) {
        if znodes::is_foreign(name) {
            if change == Change::Went {
                self.skipped.remove(name);
            } else if self.skipped.insert(name.to_owned()) {
                self.setting.events.tell(Event::Skipped { node: name.to_owned() });
            }
        }
    }

    /// An item was not read, claimed or buried.
    fn take_failure(&mut self, name: &str, doing: &str, end: End, now: Instant) {
        match end {
            // It was claimed and returned since it was read.
            End::Changed => self.items.read_again(name, now),
            End::Taken => self.items.note_miss(name, self.setting.core.random.unit(), now),
            End::Gone => self.items.note_unavailable(name, now),
            End::Refused(error) => self.leave_alone(name, error, now),
            end => {
                self.items.read_again(name, now);
                self.failed(doing, end);
            }
        }
    }

    /// An item that cannot be had does not keep the others back.
    fn leave_alone(&mut self, name: &str, error: client::Error, now: Instant) {
        self.items.hide(name, AFTER_REFUSAL, now);
        self.items.let_go(name, now);
        self.setting.events.tell(Event::Failed { error: Error::client(&self.setting.paths.path, error) });
    }

    /// Decodes the item, and has it handed out.
    fn deliver(&mut self, claim: Arc<Claim>) {
        tracing::debug!(path = &*self.setting.paths.path, item = claim.name, attempt = claim.number, "claimed");
        match dead_letter::items(&*self.setting.serializer, &claim.data) {
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
    fn failed(&mut self, doing: &str, end: End) {
        // The end of a session is told by its condition.
        let End::Failed(error) = end else { return };
        let path = &self.setting.paths.path;
        let error = client::Error::from_backend(doing, path, error);
        tracing::warn!(path = &**path, %error, kind = ?error.kind(), "cannot consume");
        self.setting.buffer.fail(Error::client(path, error));
        let now = self.setting.core.clock.now();
        let delay = self.failures.next(&self.setting.core, now);
        self.not_before = self.not_before.max(Some(Instant::now() + delay));
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
        Error::Closed { path: Arc::clone(&self.setting.paths.path) }
    }
}

/// The task may end without having come to its end: with its runtime, or by a panic. No caller may wait for it then.
impl<S: Serializer> Drop for Task<S> {
    fn drop(&mut self) {
        self.setting.buffer.end(self.closed());
        self.setting.events.finish();
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
