//! Settling a claim to its end, and telling what came of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::claim::Claim;
use super::dead;
use super::error::Error;
use super::names::Places;
use super::settle::{self, Unsettled, Verdict};
use super::shelf::Ready;
use crate::client::core::Core;
use crate::client::{self, ErrorKind};

/// What cannot be buried is tried again after this.
const AFTER_NO_BURIAL: Duration = Duration::from_secs(30);

/// A claim that needs no more care.
#[derive(Debug)]
pub(super) enum Settled<T> {
    /// The item may be tried again, after so long. That was the wish, or the wish did not come about.
    Back { claim: Arc<Claim>, hide: Duration, returned: bool },
    /// It is out of the queue.
    Done(Arc<Claim>),
    /// It was to be taken out of the queue before it is handed out: whether it was.
    Out { ready: Ready<T>, outcome: Result<bool, Error> },
}

/// Settles, tells, and if that was refused gives the claim up: others are to have the item then.
pub(super) async fn settle<T>(
    core: Arc<Core>,
    places: Arc<Places>,
    claim: Arc<Claim>,
    verdict: Verdict,
    mut hide: Duration,
    done: Option<oneshot::Sender<Result<(), Error>>>,
) -> Settled<T> {
    let outcome = settle::settle(&core, &places, &claim, &verdict).await;
    if let (Verdict::Bury { reason, .. }, Ok(())) = (&verdict, &outcome) {
        tracing::warn!(path = &*places.path, item = claim.name, reason, "dead letter");
    }
    let refused = outcome.as_ref().is_err_and(Unsettled::is_refused);
    let lost = matches!(outcome, Err(Unsettled::Lost));
    let outcome = outcome.map_err(|unsettled| error(&places, &claim, unsettled));
    match (done, outcome) {
        (Some(done), outcome) => {
            // Whoever asked may be gone; then nothing but a refusal is news.
            if let Err(Err(error)) = done.send(outcome)
                && refused
            {
                report(&core, error);
            }
        }
        (None, Err(error)) if refused => report(&core, error),
        _ => {}
    }
    if refused {
        if let Verdict::Bury { .. } = verdict {
            hide = AFTER_NO_BURIAL;
        }
        settle::give_back(core, places, Arc::clone(&claim)).await;
    }
    match verdict {
        Verdict::Again | Verdict::GiveBack => Settled::Back { claim, hide, returned: true },
        _ if refused || lost => Settled::Back { claim, hide, returned: false },
        _ => Settled::Done(claim),
    }
}

/// At most once: takes an item out of the queue, to be handed out only if that is certain.
pub(super) async fn take_out<T>(core: Arc<Core>, places: Arc<Places>, ready: Ready<T>) -> Settled<T> {
    let outcome = match settle::settle(&core, &places, &ready.claim, &Verdict::Done).await {
        Ok(()) => Ok(true),
        Err(Unsettled::SessionOver { in_doubt: false } | Unsettled::Lost) => Ok(false),
        Err(unsettled) => {
            if unsettled.is_refused() {
                settle::give_back(Arc::clone(&core), Arc::clone(&places), Arc::clone(&ready.claim)).await;
            }
            // If it has left the queue, it is lost: nobody may get it twice.
            Err(error(&places, &ready.claim, unsettled))
        }
    };
    Settled::Out { ready, outcome }
}

/// At most once: what could not be handled has left the queue, and becomes a dead letter.
pub(super) async fn keep<T>(
    core: Arc<Core>,
    places: Arc<Places>,
    claim: Arc<Claim>,
    reason: String,
    done: oneshot::Sender<Result<(), Error>>,
) -> Settled<T> {
    let kept = dead::keep(&core, &places, &claim, &reason).await;
    tracing::warn!(path = &*places.path, item = claim.name, reason, kept = kept.is_ok(), "dead letter");
    // Whoever asked may be gone.
    if let Err(Err(error)) = done.send(kept) {
        report(&core, error);
    }
    Settled::Done(claim)
}

fn report(core: &Core, error: Error) {
    core.report(client::Error::new(error.kind(), error.to_string()));
}

fn error(places: &Places, claim: &Claim, unsettled: Unsettled) -> Error {
    let (path, name) = (&places.path, &claim.name);
    let error = match unsettled {
        Unsettled::Lost => return Error::Lost { path: Arc::clone(path), name: name.clone() },
        Unsettled::SessionOver { in_doubt: false } => client::Error::session_lost("settle", name),
        Unsettled::SessionOver { in_doubt: true } => client::Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "settle {name}: handed over, and the session was over before the answer; it may or may not be settled"
            ),
        ),
        Unsettled::Failed(error) => client::Error::from_backend("settle", name, error),
        Unsettled::TooLarge(error) => error,
    };
    Error::client(path, error)
}
