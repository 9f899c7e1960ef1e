//! The task of the leader: watches the members and the maximum, and writes the shares that change.
//!
//! [`Leader::run`] waits until this member is elected. [`Leader::lead`] then runs one [`Term`] after another. A term
//! (`lead.rs`) takes over, and reads, decides and writes until something fails.

mod debounce;
mod end;
mod holding;
mod lead;
mod look;
mod plan;
mod report;
mod term;
mod view;
mod watches;
mod writer;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use self::end::End;
use self::term::Term;
use super::Options;
use super::error::Error;
use super::events::{Event, Publisher};
use super::member::registration::Registrar;
use crate::client::{self, ErrorKind};
use crate::leader_latch::{self, LeaderLatch, Leadership};
use crate::util::backoff::{AFTER_REFUSAL, Backoff};
use crate::util::panic::panic_text;

pub(super) struct Leader {
    pub(super) registrar: Registrar,
    pub(super) latch: Arc<LeaderLatch>,
    pub(super) options: Arc<Options>,
    pub(super) events: Publisher,
}

impl Leader {
    /// Runs until the latch is closed. A member that is leaving still leads until then.
    pub(super) async fn run(mut self) {
        let Err(panic) = AssertUnwindSafe(self.lead_when_elected()).catch_unwind().await else { return };
        // A defect in this code or in code that it calls. Another member should lead then.
        let why = format!("the leader's task panicked, and this member no longer leads: {}", panic_text(panic));
        self.report_failure(client::Error::new(ErrorKind::Other, why));
        if let Err(error) = self.latch.close().await {
            tracing::warn!(
                event = "election_not_left",
                path = self.latch.path(),
                %error,
                kind = ?error.kind(),
                "the node in the election remains until the session ends"
            );
        }
    }

    async fn lead_when_elected(&mut self) {
        loop {
            match self.latch.wait_for_leadership().await {
                Ok(leadership) => {
                    // A write that is dropped midway may still be carried out: its preconditions end with the
                    // leadership.
                    let _ = leadership.run(self.lead(&leadership)).await;
                    self.events.clear_invalid_maximum();
                }
                Err(leader_latch::Error::Closed { .. }) => return,
                Err(leader_latch::Error::Client { error, .. }) => self.report_failure(error),
                Err(_) => {}
            }
        }
    }

    /// Leads until the leadership ends and drops this future, even if requests fail. Every term begins with a
    /// take-over: from then on, servers refuse what an earlier term sent and got no answer for.
    async fn lead(&self, leadership: &Leadership) {
        let fence = leadership.fence();
        let session = Arc::clone(&fence.session);
        let mut delays = Backoff::new(AFTER_REFUSAL);
        loop {
            let Ok(connection) = session.connected().await else { return };
            let began = self.registrar.core.clock.now();
            let Err(end) = tokio::select! {
                biased;
                // The watches of the old connection are gone.
                () = session.disconnected(connection) => continue,
                ended = Term::run(self, &session, fence.check()) => ended,
            };
            match end {
                End::Fenced => {
                    tracing::warn!(
                        event = "leader_fenced",
                        path = self.registrar.paths.base,
                        "a write was refused: another member leads"
                    );
                    // The notification that ends the leadership is on its way.
                    return leadership.lost().await;
                }
                End::Superseded => {}
                End::Failed(error) if error.is_transient() => session.wait_for_disconnect(connection).await,
                End::Failed(error) => {
                    let doing = "divide the throughput in";
                    self.report_failure(client::Error::from_engine(doing, &self.registrar.paths.base, error));
                    tokio::time::sleep(self.registrar.core.next_delay(&mut delays, began)).await;
                }
            }
        }
    }

    fn report_failure(&self, error: client::Error) {
        self.events.report(Event::Failed { error: Error::client(&self.registrar.paths.base, error) });
    }
}
