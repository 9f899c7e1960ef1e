//! Deletes that must happen, for released locks, dropped guards and cancelled calls (Curator's guaranteed deletes).
//!
//! The janitor retries a job after every reconnect until the node is known to be gone. When the session ends, it
//! continues the job in the next session: otherwise the node would remain until the server expires the old session, and
//! waiters would queue behind a leftover node.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};

use super::core::{Core, Current};
use super::deletion::Deletion;
use super::error::Error;
use super::session::{EndReason, Session};
use crate::engine;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};

/// How many jobs may have a request under way. A client may have a hundred thousand jobs after an outage, and all
/// requests of a connection share its limits.
const AT_ONCE: usize = 256;

/// Runs until the client is closed. Each job has its own task, so that it does not wait for the delays of another.
pub(crate) async fn run(core: Arc<Core>, mut jobs: mpsc::UnboundedReceiver<Deletion>) {
    let mut current = core.current.subscribe();
    let closed = current.wait_for(|current| matches!(current, Current::Closed(_)));
    tokio::pin!(closed);
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let job = tokio::select! {
            biased;
            _ = &mut closed => return,
            job = jobs.recv() => job,
        };
        let Some(job) = job else { return };
        core.runtime.spawn_system(clean(Arc::clone(&core), job, Arc::clone(&slots)));
    }
}

/// Deletes a node. Returns when the node is gone, or the client is closed.
async fn clean(core: Arc<Core>, job: Deletion, slots: Arc<Semaphore>) {
    let Deletion { mut session, mut target, mut handed, watch: _watch, restart_counter, done: _done } = job;
    let mut refused = Backoff::new(AFTER_REFUSAL);
    loop {
        let (connection, outcome) = if let Some(handed) = handed.take() {
            handed.outcome().await
        } else {
            // The semaphore is never closed. The job keeps its slot while it waits for a connection, without which no
            // other job could use it.
            let _slot = slots.acquire().await;
            match session.connected().await {
                Ok(connection) => (connection, target.clean(&session).await),
                Err(EndReason::Closed) => return,
                Err(_) => match core.connected_session().await {
                    Ok(next) => {
                        session = next;
                        continue;
                    }
                    Err(_) => return,
                },
            }
        };
        match outcome {
            Ok(None) => {
                if let Some(made) = restart_counter {
                    target.delete_directory(&session, made).await;
                }
                return;
            }
            Ok(Some(found)) => target = found,
            Err(engine::Error::NotConnected | engine::Error::ConnectionLoss | engine::Error::Throttled) => {
                tracing::debug!(
                    event = "delete_postponed",
                    session = session.label(),
                    node = %target,
                    "delete postponed until the next reconnect"
                );
                // The next round checks the outcome.
                let _ = session.wait_to_reconnect(connection).await;
            }
            Err(engine::Error::SessionEnded) => ended_within(&session, session.timeout()).await,
            Err(engine::Error::NotEmpty) => {
                // The children belong to others.
                core.report(Error::from_engine("delete", &target.to_string(), engine::Error::NotEmpty));
                return;
            }
            Err(error) => {
                core.report(Error::from_engine("delete", &target.to_string(), error));
                // Permissions can be restored; until then all waiters would queue behind the node.
                ended_within(&session, core.next_delay(&mut refused, core.clock.now())).await;
            }
        }
    }
}

/// Waits for `most`, or until the session ends. (A request can fail because of the end a moment before the condition
/// shows it.)
async fn ended_within(session: &Session, most: Duration) {
    let _: Result<(), _> = tokio::time::timeout(most, session.ended()).await;
}
