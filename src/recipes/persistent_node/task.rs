//! The task of a persistent node: from session to session, until it is closed.

use std::sync::Arc;

use tokio::time::Instant;

use super::error::Error;
use super::keeper::{End, Keeper};
use super::spec::Spec;
use super::state::Shared;
use crate::client::core::Core;
use crate::client::task::Task;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};

/// Starts the task. The task does not keep a handle of the client, so the node keeps its client alive only while the
/// handle exists.
pub(super) fn spawn(core: &Arc<Core>, shared: &Arc<Shared>, spec: Spec) -> Task<Result<(), Error>> {
    let keeper = Keeper::new(core, shared, spec, Backoff::new(AFTER_REFUSAL));
    let ended = Ended(Arc::clone(shared));
    Task::spawn(&core.runtime, run(keeper, ended))
}

/// Notifies waiters however the task ends, even if it is dropped with its runtime.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended();
    }
}

async fn run(mut keeper: Keeper, ended: Ended) -> Result<(), Error> {
    let left = tokio::select! {
        biased;
        () = ended.0.closing() => None,
        left = keep(&mut keeper) => Some(left),
    };
    match left {
        None => Box::pin(keeper.leave()).await,
        Some(left) => left,
    }
}

/// Keeps the node there. Returns when the client is closed.
async fn keep(keeper: &mut Keeper) -> Result<(), Error> {
    let mut at = None;
    loop {
        if let Some(at) = at.take() {
            let mut closing = keeper.core.closing.subscribe();
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => {}
                // Newer data is tried at once. The sender is in `shared`.
                _ = keeper.wanted.changed() => {}
                () = tokio::time::sleep_until(at) => {}
            }
        }
        let Ok(session) = keeper.core.connected_session().await else { return keeper.client_closed() };
        let began = keeper.core.clock.now();
        match keeper.keep(&session).await {
            End::SessionOver => keeper.session_over(),
            End::Failed(error) => {
                keeper.failed(error);
                let delay = keeper.core.next_delay(&mut keeper.failures, began);
                at = Some(Instant::now() + delay);
            }
        }
    }
}
