//! A hint for a caller that waits for its own guard.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::client::core::Core;

/// How long a caller waits before the hint is logged.
const AFTER: Duration = Duration::from_secs(10);

/// Ends the task that would log the hint when it is dropped.
pub(super) struct Hint {
    _waiting: oneshot::Sender<()>,
}

/// Logs a hint after ten seconds if this client holds the lock at `path` now and has not released it by then, also if
/// it has lost it meanwhile: a caller that waits for its own guard waits forever, and only the log can tell. `None` if
/// it does not hold the lock.
///
/// The client's runtime has a timer; the caller may wait on one that has none, or outside of any.
pub(super) fn after_a_while(core: &Arc<Core>, path: &Arc<str>, advice: &'static str) -> Option<Hint> {
    core.held_paths.since(path)?;
    let began = core.clock.now();
    let (waiting, ended) = oneshot::channel();
    let hint = {
        let (core, path) = (Arc::clone(core), Arc::clone(path));
        async move {
            if tokio::time::timeout(AFTER, ended).await.is_ok() {
                return;
            }
            if let Some(since) = core.held_paths.since(&path).filter(|since| *since <= began) {
                let held_for = core.clock.now().since(since);
                tracing::info!(
                    event = "waiting_for_own_lock",
                    path = &*path,
                    ?held_for,
                    "waiting for a lock that this client holds itself: acquire() waits for its guard to be released or \
                     dropped, also in the same task; {advice}"
                );
            }
        }
    };
    core.runtime.spawn(hint.in_current_span());
    Some(Hint { _waiting: waiting })
}
