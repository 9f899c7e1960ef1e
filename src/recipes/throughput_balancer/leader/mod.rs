//! The task of the leader: watches the members and the maximum, and writes the shares that change.

mod debounce;
mod holding;
mod lead;
mod look;
mod plan;
mod term;
mod view;
mod watches;
mod writer;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use self::term::{End, Term};
use super::Options;
use super::error::Error;
use super::events::{Event, Publisher};
use super::member::registration::Registrar;
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind, Fence};
use crate::engine::{self, Multi, Op, OpResult};
use crate::leader_latch::{self, LeaderLatch, Leadership};
use crate::util::backoff::Backoff;
use crate::util::panic::panic_text;

/// Delays after the server has refused a request of the leader. Each is twice the one before, up to the second value.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

pub(super) struct Leader {
    pub(super) registrar: Registrar,
    pub(super) latch: Arc<LeaderLatch>,
    pub(super) options: Arc<Options>,
    pub(super) events: Publisher,
}

/// A take-over: its number, and the version of the node that it wrote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    number: i64,
    version: i32,
    /// When it happened, by the servers' clock in milliseconds.
    began: i64,
}

impl Leader {
    /// Runs until the latch is closed. A member that is leaving still leads until then.
    pub(super) async fn run(mut self) {
        let Err(panic) = AssertUnwindSafe(self.lead_again()).catch_unwind().await else { return };
        // A defect here or in code that is called from here. Another member should lead then.
        let why = format!("the leader's task panicked and leads no more: {}", panic_text(panic));
        self.failed(client::Error::new(ErrorKind::Other, why));
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

    async fn lead_again(&mut self) {
        loop {
            match self.latch.wait_for_leadership().await {
                Ok(leadership) => {
                    // A write that is dropped midway may still be carried out: its preconditions end with the
                    // leadership.
                    let _ = leadership.run(self.lead(&leadership)).await;
                    self.events.maximum_is_not_invalid();
                }
                Err(leader_latch::Error::Closed { .. }) => return,
                Err(leader_latch::Error::Client { error, .. }) => self.failed(error),
                Err(_) => {}
            }
        }
    }

    fn failed(&self, error: client::Error) {
        self.events.tell(Event::Failed { error: Error::client(&self.registrar.paths.base, error) });
    }

    /// Leads, whatever fails, until this is dropped with the leadership. Every round begins with a take-over: what an
    /// earlier round sent without an answer is refused from then on.
    async fn lead(&self, leadership: &Leadership) {
        let fence = leadership.fence();
        let session = Arc::clone(&fence.session);
        let mut conditions = session.conditions();
        let mut delays = Backoff::new(AGAIN);
        loop {
            let Ok(connection) = session.connected().await else { return };
            let began = self.registrar.core.clock.now();
            let here = Condition::Connected(connection);
            let over = tokio::select! {
                biased;
                // The watches of the old connection are gone.
                _ = conditions.wait_for(|condition| *condition != here) => continue,
                over = self.take_over_and_lead(&session, &fence) => over,
            };
            match over {
                // The notification that ends the leadership is on its way.
                End::Fenced => {
                    tracing::warn!(
                        event = "leader_fenced",
                        path = self.registrar.paths.base,
                        "a write was refused: another member leads"
                    );
                    return leadership.lost().await;
                }
                End::Again => {}
                // The next round reads everything again.
                End::Failed(error) if error.is_passing() => session.loss_known(connection).await,
                End::Failed(error) => {
                    let doing = "divide the throughput in";
                    self.failed(client::Error::from_engine(doing, &self.registrar.paths.base, error));
                    tokio::time::sleep(self.registrar.core.next_delay(&mut delays, began)).await;
                }
            }
        }
    }

    async fn take_over_and_lead(&self, session: &Arc<Session>, fence: &Fence) -> End {
        match self.take_over(session, fence.check()).await {
            Ok(epoch) => {
                self.events.tell(Event::TookOver { epoch: epoch.number });
                Term::new(self, session, fence.check(), epoch).run().await
            }
            Err(over) => over,
        }
    }

    /// Writes the node that every write of a leader depends on: from then on the writes of earlier leaders are refused.
    async fn take_over(&self, session: &Arc<Session>, fence: Op) -> Result<Epoch, End> {
        let path = &self.registrar.paths.epoch;
        let set = Op::SetData { path: path.clone(), data: self.latch.id().as_bytes().to_vec(), version: None };
        loop {
            match session.multi(vec![fence.clone(), set.clone()]).await.map_err(End::Failed)? {
                Multi::Committed(results) => match results.into_iter().next_back() {
                    Some(OpResult::SetData { stat }) => {
                        return Ok(Epoch { number: stat.mzxid, version: stat.version, began: stat.mtime });
                    }
                    _ => return Err(End::Again),
                },
                Multi::Refused { index: 0, error: engine::Error::NoNode | engine::Error::BadVersion } => {
                    return Err(End::Fenced);
                }
                Multi::Refused { index: 1, error: engine::Error::NoNode } => {
                    self.registrar.directories(session).await.map_err(End::Failed)?;
                }
                Multi::Refused { error, .. } => return Err(End::Failed(error)),
            }
        }
    }
}
