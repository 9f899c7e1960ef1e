//! The outcome of a settlement: who is notified of it, and what becomes of the item.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Span;

use super::claim::Claim;
use super::settle::{Unsettled, Verdict, has_room, settle};
use super::shared::{HIDDEN_AFTER_REFUSAL, Shared};
use crate::client;
use crate::metrics::{Label, table};
use crate::queue::error::Error;
use crate::queue::events::Event;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};

/// A claim that was settled, or could not be.
pub(super) struct Settled {
    pub(super) claim: Arc<Claim>,
    pub(super) item: ItemState,
}

/// Where the item of a settled claim is.
pub(super) enum ItemState {
    /// Not in the queue, or unknown.
    Gone,
    /// In the queue, and free for other consumers. This one does not claim it for the given time.
    Returned(Duration),
    /// In the queue, with a record of this delay, to which all consumers keep.
    Delayed(Duration),
    /// In the queue, and still claimed. It has to be returned as soon as that succeeds. After that, this consumer does
    /// not claim it for the given time.
    StillClaimed(Duration),
}

/// Who is notified of the outcome of a settlement. The default is for a claim that was never delivered.
#[derive(Debug, Default)]
pub(super) struct Notice {
    /// The caller that waits for it.
    pub(super) done: Option<oneshot::Sender<Result<(), Unsettled>>>,
    /// The span of the delivery.
    pub(super) span: Option<Span>,
}

/// Settles a claim, and sends the outcome to the caller. If there is none, an event reports a failure.
pub(super) async fn settle_and_notify(claim: Arc<Claim>, verdict: Verdict, notice: Notice) -> Settled {
    let outcome = settle(&claim, &verdict).await;
    let name = name(&verdict, &outcome);
    claim.record_duration(name);
    // The span ends before the caller goes on.
    if let Some(span) = notice.span {
        span.record("outcome", name);
    }
    let returned_for = match verdict {
        Verdict::Return { hide, .. } => Some(hide),
        Verdict::Ack | Verdict::DeadLetter { .. } => None,
    };
    let item = match (&outcome, returned_for) {
        (Ok(()), Some(hide)) if hide > Duration::ZERO && has_room(&claim) => ItemState::Delayed(hide),
        (Ok(()), Some(hide)) => ItemState::Returned(hide),
        // A settlement that failed once would fail again.
        (Err(Unsettled::Failed(_)), hide) => ItemState::StillClaimed(hide.unwrap_or(HIDDEN_AFTER_REFUSAL)),
        (_, _) => ItemState::Gone,
    };
    if let (Ok(()), Verdict::DeadLetter { attempts, reason }) = (&outcome, verdict) {
        claim.shared.events.publish(Event::DeadLetter { item: claim.name.clone(), attempts, reason });
    }
    let undelivered = match notice.done {
        Some(done) => done.send(outcome).err(),
        None => Some(outcome),
    };
    if let Some(Err(unsettled)) = undelivered {
        report(&claim, returned_for.is_some(), unsettled);
    }
    Settled { claim, item }
}

/// Registers the outcomes that an operator watches for, so that the metrics show them before they occur.
pub(super) fn register_metrics(shared: &Shared) {
    for outcome in ["acked", "dead_letter", "lost", "failed"] {
        let labels = [Label::Path(&shared.paths.path), Label::Is(outcome)];
        shared.core.meter().announce(&table::QUEUE_DELIVERY, &labels);
    }
}

/// Returns the name of an outcome in the metrics.
fn name(verdict: &Verdict, outcome: &Result<(), Unsettled>) -> &'static str {
    match (outcome, verdict) {
        (Ok(()), Verdict::Ack) => "acked",
        (Ok(()), Verdict::Return { .. }) => "returned",
        (Ok(()), Verdict::DeadLetter { .. }) => "dead_letter",
        (Err(Unsettled::Lost | Unsettled::SessionOver { in_doubt: false }), _) => "lost",
        (Err(Unsettled::SessionOver { in_doubt: true }), _) => "unknown",
        (Err(Unsettled::Failed(_)), _) => "failed",
    }
}

/// Reports as an event why a claim was not settled, because no caller receives it.
fn report(claim: &Claim, returns: bool, unsettled: Unsettled) {
    let failed = matches!(unsettled, Unsettled::Failed(_));
    // An item that was only to be returned becomes free with the end of its session.
    if returns && !failed {
        return;
    }
    let error = unsettled.into_error(claim);
    if failed {
        claim.shared.core.report(client::Error::new(error.kind(), error.to_string()));
    }
    claim.shared.events.publish(Event::Unsettled { item: claim.name.clone(), error });
}

/// A settlement that a caller waits for. If it is dropped, an event reports a failure.
pub(super) struct Settlement {
    claim: Arc<Claim>,
    /// Whether the item is only to be returned.
    returns: bool,
    outcome: oneshot::Receiver<Result<(), Unsettled>>,
}

impl Settlement {
    pub(super) fn new(claim: &Arc<Claim>, returns: bool) -> (oneshot::Sender<Result<(), Unsettled>>, Self) {
        let (done, outcome) = oneshot::channel();
        (done, Settlement { claim: Arc::clone(claim), returns, outcome })
    }
}

impl Future for Settlement {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.outcome).poll(cx)) {
            Ok(outcome) => outcome.map_err(|unsettled| unsettled.into_error(&self.claim)),
            // The task is missing only if its runtime has ended.
            Err(_) => Err(self.claim.shared.closed()),
        })
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        // From now on the task reports a failure itself. One that it has sent already is reported here.
        self.outcome.close();
        if let Ok(Err(unsettled)) = self.outcome.try_recv() {
            report(&self.claim, self.returns, unsettled);
        }
    }
}

/// Returns the item of a claim that could not be settled otherwise to the queue. Retries until that succeeds or the
/// session ends.
pub(super) async fn return_until_done(claim: Arc<Claim>, hide: Duration) -> Settled {
    let core = &claim.shared.core;
    let mut delays = Backoff::new(AFTER_REFUSAL);
    while let Err(Unsettled::Failed(_)) = settle(&claim, &Verdict::UNRECORDED).await {
        tokio::select! {
            biased;
            // Its node disappears with the session.
            () = claim.session.ended() => break,
            () = tokio::time::sleep(core.next_delay(&mut delays, core.clock.now())) => {}
        }
    }
    Settled { claim, item: ItemState::Returned(hide) }
}
