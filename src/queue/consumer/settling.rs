//! What becomes of a claim that is settled, who is told, and where its item is then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::claim::{Claim, deliveries};
use super::settle::{Unsettled, Verdict, settle};
use crate::client;
use crate::client::core::Core;
use crate::queue::error::Error;
use crate::queue::events::{Event, Publisher};
use crate::queue::znodes::Paths;

/// An item that cannot be claimed, settled, or made a dead letter is tried again after this.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// A claim that was settled, or could not be.
pub(super) struct Settled {
    pub(super) claim: Arc<Claim>,
    pub(super) item: After,
    /// It was counted among those that return.
    pub(super) returns: bool,
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

/// A claim that is being settled.
pub(super) struct Settling {
    pub(super) core: Arc<Core>,
    pub(super) paths: Arc<Paths>,
    pub(super) events: Publisher,
    pub(super) claim: Arc<Claim>,
    pub(super) verdict: Verdict,
    /// For how long this consumer leaves the item alone, if it is returned.
    pub(super) hide: Duration,
    /// It is counted among those that return.
    pub(super) returns: bool,
}

impl Settling {
    /// Settles, and tells.
    pub(super) async fn run(self, done: Option<oneshot::Sender<Result<(), Error>>>) -> Settled {
        let Settling { core, paths, events, claim, verdict, hide, returns } = self;
        let outcome = settle(&core, &paths, &claim, &verdict).await;
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
        let outcome = outcome.map_err(|unsettled| unsettled.into_error(&paths, &claim.name));
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
