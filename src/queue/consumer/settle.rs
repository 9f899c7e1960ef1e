//! What becomes of a claim that is settled, who is told, and where its item is then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::claim::Claim;
use super::transaction::{Unsettled, Verdict, return_at_last, settle};
use crate::client;
use crate::queue::error::Error;
use crate::queue::events::Event;

/// An item that cannot be claimed, or settled, is tried again after this.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// A claim that was settled, or could not be.
pub(super) struct Settled {
    pub(super) claim: Arc<Claim>,
    pub(super) item: After,
}

/// Where the item of a settled claim is.
pub(super) enum After {
    /// Not in the queue.
    Gone,
    /// In the queue, and free for others; this consumer leaves it alone for so long.
    Returned(Duration),
    /// In the queue, and still claimed: it is to be returned as soon as that is allowed, and then left alone for so long.
    Stuck(Duration),
    /// Perhaps in the queue.
    Unknown,
}

/// Settles a claim and tells what came of it: the caller, or the events if there is none.
pub(super) async fn settle_and_tell(
    claim: Arc<Claim>,
    verdict: Verdict,
    done: Option<oneshot::Sender<Result<(), Error>>>,
) -> Settled {
    let outcome = settle(&claim, &verdict).await;
    let refused = matches!(outcome, Err(Unsettled::Refused(_)));
    let returned_for = match verdict {
        Verdict::Return { hide } => Some(hide),
        Verdict::Ack | Verdict::Bury { .. } => None,
    };
    let item = match (&outcome, returned_for) {
        (Ok(()), Some(hide)) => After::Returned(hide),
        (Ok(()), None) => After::Gone,
        // What was refused once would be refused again.
        (Err(Unsettled::Refused(_)), hide) => After::Stuck(hide.unwrap_or(AFTER_REFUSAL)),
        (Err(_), _) => After::Unknown,
    };
    let shared = &claim.shared;
    if let (Ok(()), Verdict::Bury { attempts, reason }) = (&outcome, verdict) {
        shared.events.tell(Event::DeadLetter { item: claim.name.clone(), attempts, reason });
    }
    let outcome = outcome.map_err(|unsettled| unsettled.into_error(&claim));
    let untold = match done {
        Some(done) => done.send(outcome).err(),
        None => Some(outcome),
    };
    // What was only to be returned is free when its session ends.
    if let Some(Err(error)) = untold
        && (refused || returned_for.is_none())
    {
        if refused {
            shared.core.report(client::Error::new(error.kind(), error.to_string()));
        }
        shared.events.tell(Event::Unsettled { item: claim.name.clone(), error });
    }
    Settled { claim, item }
}

/// Returns the item of a claim that could not be settled otherwise, however long it takes.
pub(super) async fn give_up(claim: Arc<Claim>, hide: Duration) -> Settled {
    return_at_last(&claim).await;
    Settled { claim, item: After::Returned(hide) }
}
