//! One term: the listener at work, and what ends it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::CloseMode;
use super::listener::{BoxError, LeaderSelectorListener};
use super::outcome::TermEnd;
use super::shared::Shared;
use super::state::Phase;
use crate::client::listener::{caught, panic_text};
use crate::contender::leadership::Leadership;
use crate::contender::{Hold, Standing};

/// The listener's future, with its panics caught.
type Work<'a> = BoxFuture<'a, TermEnd>;

/// Lets the listener lead until it returns, or its leadership ends and the grace period with it. When this returns, nothing
/// of the listener runs any more, and nothing is held; the node is still there.
pub(super) async fn lead(
    shared: &Shared,
    listener: &impl LeaderSelectorListener,
    standing: &mut Standing,
    hold: Hold,
) -> TermEnd {
    let interrupted = shared.begin_term();
    shared.publish(Phase::Leading(hold.clone()));
    let mut work: Work<'_> = work(listener, Leadership::new(hold.clone()));
    let end = tokio::select! {
        biased;
        Ok(()) = interrupted => TermEnd::Interrupted,
        () = shared.closing(CloseMode::Interrupt) => TermEnd::Interrupted,
        // Whatever there is to tell of a leader, it leads no more; also if it could lead anew.
        _ = standing.next() => TermEnd::Lost,
        done = hold.run(&mut work) => done.unwrap_or(TermEnd::Lost),
    };
    shared.end_term();
    standing.relinquish();
    shared.publish(Phase::Ending);
    if let TermEnd::Lost | TermEnd::Interrupted = end
        && !shared.grace_period.is_zero()
    {
        let finished = tokio::time::timeout(shared.grace_period, &mut work).await;
        // Its failures are told all the same.
        if let Ok(failed @ (TermEnd::Failed(_) | TermEnd::Panicked(_))) = finished {
            return failed;
        }
    }
    // A destructor that panics must not take the selector with it.
    match caught(move || drop(work)) {
        Ok(()) => end,
        Err(message) => TermEnd::Panicked(message),
    }
}

fn work<'a>(listener: &'a impl LeaderSelectorListener, leadership: Leadership) -> Work<'a> {
    let work = async move { listener.take_leadership(leadership).await };
    let work = AssertUnwindSafe(work).catch_unwind();
    Box::pin(work.map(|done| match done {
        Ok(Ok(())) => TermEnd::Returned,
        Ok(Err(error)) => failed(error),
        Err(panic) => TermEnd::Panicked(panic_text(panic)),
    }))
}

/// An error that cannot even be told is a panic: whoever logs the outcome must not meet it.
fn failed(error: BoxError) -> TermEnd {
    let message = match caught(|| error.to_string()) {
        Ok(_) => return TermEnd::Failed(error.into()),
        Err(message) => message,
    };
    // Its destructor may panic as well; one panic is told.
    let _ = caught(move || drop(error));
    TermEnd::Panicked(message)
}
