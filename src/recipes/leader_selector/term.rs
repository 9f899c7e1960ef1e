//! One term: runs the listener, and ends it with the leadership.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing::Instrument;

use super::RunningTerm;
use super::listener::{BoxError, LeaderSelectorListener};
use super::outcome::TermEnd;
use super::shared::Shared;
use super::state::Phase;
use crate::contender::leadership::Leadership;
use crate::contender::{Contender, Hold, State};
use crate::util::panic::{caught, panic_text};

/// The listener's future, with its panics caught.
type Work<'a> = BoxFuture<'a, TermEnd>;

/// Lets the listener lead until it returns, or until its leadership and then the grace period have ended. When this
/// returns, no part of the listener runs any more and nothing is held. The node still exists.
pub(super) async fn lead(
    shared: &Shared,
    listener: &impl LeaderSelectorListener,
    contender: &mut Contender,
    hold: Hold,
) -> TermEnd {
    let interrupted = shared.begin_term();
    shared.publish(Phase::Contending(State::Held(hold.clone())));
    let mut work: Work<'_> = work(listener, Leadership::new(hold.clone()));
    let end = tokio::select! {
        biased;
        Ok(()) = interrupted => TermEnd::Interrupted,
        () = shared.closing(RunningTerm::Interrupt) => TermEnd::Interrupted,
        // Any other state of a leader means that the term is over, even if it could lead again.
        _ = contender.next() => TermEnd::Lost,
        done = hold.run(&mut work) => done.unwrap_or(TermEnd::Lost),
    };
    shared.end_term();
    contender.relinquish();
    shared.publish(Phase::Ending);
    if let TermEnd::Lost | TermEnd::Interrupted = end
        && !shared.grace_period.is_zero()
    {
        let finished = tokio::time::timeout(shared.grace_period, &mut work).await;
        // Failures within the grace period are reported too.
        if let Ok(failed @ (TermEnd::Failed(_) | TermEnd::Panicked(_))) = finished {
            return failed;
        }
    }
    // A destructor that panics must not end the selector.
    match caught(move || drop(work)) {
        Ok(()) => end,
        Err(message) => TermEnd::Panicked(message),
    }
}

fn work<'a>(listener: &'a impl LeaderSelectorListener, leadership: Leadership) -> Work<'a> {
    let (path, id, token) = (leadership.path(), leadership.id(), leadership.fencing_token());
    let term = tracing::info_span!("term", path, id, token);
    let work = async move { listener.take_leadership(leadership).await }.instrument(term);
    let work = AssertUnwindSafe(work).catch_unwind();
    Box::pin(work.map(|done| match done {
        Ok(Ok(())) => TermEnd::Returned,
        Ok(Err(error)) => failed(error),
        Err(panic) => TermEnd::Panicked(panic_text(panic)),
    }))
}

/// Treats an error whose `Display` panics as a panic, so that logging the outcome cannot panic.
fn failed(error: BoxError) -> TermEnd {
    let message = match caught(|| error.to_string()) {
        Ok(_) => return TermEnd::Failed(error.into()),
        Err(message) => message,
    };
    // Its destructor may panic as well. Only the first panic is reported.
    let _ = caught(move || drop(error));
    TermEnd::Panicked(message)
}
