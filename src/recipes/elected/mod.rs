//! What the recipes have in common whose elected leader decides for all members: the balancer and the assigner.
//!
//! [`run`] waits until this member is elected, then runs one term after another. A term begins with [`take_over`], and
//! reads, decides and writes until something fails.

mod debounce;
mod end;
mod take_over;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

pub(crate) use self::debounce::Debounce;
pub(crate) use self::end::End;
pub(crate) use self::take_over::{Epoch, take_over};
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{self, ErrorKind};
use crate::engine::Op;
use crate::leader_latch::{self, LatchStatus, LeaderLatch, Leadership};
use crate::util::backoff::{AFTER_REFUSAL, Backoff};
use crate::util::panic::panic_text;

/// What a leader does.
pub(crate) trait Leading: Send + Sync {
    /// What the leader does, for messages.
    const DOING: &'static str;

    fn core(&self) -> &Core;

    /// Returns the base path, as the client names it.
    fn base(&self) -> &str;

    /// Takes over and leads, until something fails. The server refuses `fence` once another member may lead.
    fn term(&self, session: &Arc<Session>, fence: Op) -> impl Future<Output = Result<Infallible, End>> + Send;

    fn report_failure(&self, error: client::Error);

    /// The leadership is over.
    fn ended(&self) {}
}

/// Runs until the latch is closed. A member that is leaving still leads until then.
pub(crate) async fn run(leading: impl Leading, latch: Arc<LeaderLatch>) {
    let led = AssertUnwindSafe(lead_when_elected(&leading, &latch)).catch_unwind().await;
    let Err(panic) = led else { return };
    // A defect in this code or in code that it calls. Another member should lead then.
    let why = format!("the leader's task panicked, and this member no longer leads: {}", panic_text(panic));
    leading.report_failure(client::Error::new(ErrorKind::Other, why));
    close(&latch).await;
}

/// Closes the latch. Logs an error: the node in the election then remains until the session ends.
pub(crate) async fn close(latch: &LeaderLatch) {
    if let Err(error) = latch.close().await {
        tracing::warn!(
            event = "election_not_left",
            path = latch.path(),
            %error,
            kind = ?error.kind(),
            "the node in the election remains until the session ends"
        );
    }
}

/// Waits until the latch has a node.
pub(crate) async fn entered(latch: &LeaderLatch) -> Result<(), leader_latch::Error> {
    let closed = || leader_latch::Error::Closed { path: latch.path().into() };
    let mut states = latch.state();
    let mut state = states.get();
    loop {
        if let Some(error) = state.error() {
            return Err(error.clone());
        }
        if state.status() == LatchStatus::Closed {
            return Err(closed());
        }
        if latch.our_path().is_some() {
            return Ok(());
        }
        state = states.changed().await.map_err(|_| closed())?;
    }
}

async fn lead_when_elected(leading: &impl Leading, latch: &LeaderLatch) {
    loop {
        match latch.wait_for_leadership().await {
            Ok(leadership) => {
                // A write that is dropped midway may still be carried out: its preconditions end with the leadership.
                let _ = leadership.run(lead(leading, &leadership)).await;
                leading.ended();
            }
            Err(leader_latch::Error::Closed { .. }) => return,
            Err(leader_latch::Error::Client { error, .. }) => leading.report_failure(error),
            Err(_) => {}
        }
    }
}

/// Leads until the leadership ends and drops this future, even if requests fail. Every term begins with a take-over:
/// from then on, servers refuse what an earlier term sent and got no answer for.
async fn lead<L: Leading>(leading: &L, leadership: &Leadership) {
    let fence = leadership.fence();
    let session = Arc::clone(&fence.session);
    let mut delays = Backoff::new(AFTER_REFUSAL);
    loop {
        let Ok(connection) = session.connected().await else { return };
        let began = leading.core().clock.now();
        let Err(end) = tokio::select! {
            biased;
            // The watches of the old connection are gone.
            () = session.disconnected(connection) => continue,
            ended = leading.term(&session, fence.check()) => ended,
        };
        match end {
            End::Fenced => {
                let path = leading.base();
                tracing::warn!(event = "leader_fenced", path, "a write was refused: another member leads");
                // The notification that ends the leadership is on its way.
                return leadership.lost().await;
            }
            End::Superseded => {}
            End::Failed(error) if error.is_transient() => session.wait_for_disconnect(connection).await,
            End::Failed(error) => {
                leading.report_failure(client::Error::from_engine(L::DOING, leading.base(), error));
                tokio::time::sleep(leading.core().next_delay(&mut delays, began)).await;
            }
        }
    }
}
