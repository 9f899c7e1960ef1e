//! A hint for a caller that waits for its own guard.

use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::client::core::Core;

/// How long a caller waits before the hint is logged.
const AFTER: Duration = Duration::from_secs(10);

/// Resolves after ten seconds of waiting for the lock at `path`. Logs a hint if this client acquired it before that
/// and has not released it since, also if it has lost it meanwhile: a caller that waits for its own guard waits
/// forever, and only the log can tell.
pub(super) async fn after_a_while(core: &Core, path: &str) {
    // A wait needs no runtime, but a timer does, and one with a timer driver, which only trying tells.
    if Handle::try_current().is_err() {
        return;
    }
    let Ok(timer) = catch_unwind(|| tokio::time::sleep(AFTER)) else { return };
    let began = core.clock.now();
    timer.await;
    if let Some(since) = core.held_paths.since(path)
        && since <= began
    {
        let held_for = core.clock.now().since(since);
        tracing::info!(
            event = "waiting_for_own_lock",
            path,
            ?held_for,
            "waiting for a lock that this client holds itself: acquire() waits for its guard to be released or \
             dropped, also in the same task; to enter again, call the guard's reenter()"
        );
    }
}
