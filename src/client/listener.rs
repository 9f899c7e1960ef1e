//! Listeners: each on a task of its own, so that none delays another, let alone a recipe.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use tokio::sync::watch;

use super::core::Core;
use super::error::{Error, ErrorKind};
use super::state::ConnectionStateListener;

/// Takes a listener away again. Dropping it leaves the listener in place.
#[derive(Debug, Clone)]
pub struct ListenerHandle {
    removed: Arc<watch::Sender<bool>>,
}

impl ListenerHandle {
    pub(crate) fn new() -> (Self, Removal) {
        let removed = Arc::new(watch::Sender::new(false));
        let removal = Removal {
            flag: removed.subscribe(),
            _alive: Arc::clone(&removed),
        };
        (ListenerHandle { removed }, removal)
    }

    /// The listener is called no more; a call under way is completed.
    pub fn remove(&self) {
        self.removed.send_replace(true);
    }
}

/// The listener's side of its handle.
#[derive(Debug)]
pub(crate) struct Removal {
    flag: watch::Receiver<bool>,
    /// Keeps the channel open when the handle is dropped.
    _alive: Arc<watch::Sender<bool>>,
}

impl Removal {
    /// Resolves when the listener is to go.
    pub(crate) async fn requested(&mut self) {
        let _ = self.flag.wait_for(|removed| *removed).await;
    }
}

/// Calls a listener once; whether it may be called again. A panic is reported and ends it.
pub(crate) async fn call(core: &Core, what: &str, call: impl Future<Output = ()>) -> bool {
    let Err(panic) = AssertUnwindSafe(call).catch_unwind().await else {
        return true;
    };
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    core.report(Error::new(
        ErrorKind::Other,
        format!("a {what} panicked and was removed: {text}"),
    ));
    false
}

/// Feeds the connection states of a client to a listener until the client is closed.
pub(crate) fn follow_states(core: &Arc<Core>, listener: impl ConnectionStateListener) -> ListenerHandle {
    let (handle, mut removal) = ListenerHandle::new();
    let mut states = core.states.subscribe();
    let core = Arc::clone(core);
    let runtime = core.runtime.clone();
    runtime.spawn(async move {
        loop {
            let next = tokio::select! {
                biased;
                () = removal.requested() => return,
                next = states.next() => next,
            };
            match next {
                Some(Ok(state)) => {
                    if !call(&core, "connection state listener", listener.state_changed(state)).await {
                        return;
                    }
                }
                Some(Err(lagged)) => {
                    core.report(Error::new(
                        ErrorKind::Other,
                        format!("a connection state listener: {lagged}"),
                    ));
                    return;
                }
                None => return,
            }
        }
    });
    handle
}
