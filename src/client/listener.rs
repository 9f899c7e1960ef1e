//! Listeners. Each runs on its own task, so that it delays neither another listener nor a recipe.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::watch;

use super::core::Core;
use super::error::{Error, ErrorKind};
use super::state::{ConnectionState, ConnectionStateListener};
use crate::util::panic::panic_text;

/// Removes a listener by [`remove`](Self::remove). Dropping the handle keeps the listener.
///
/// ```no_run
/// # use zookeeper_recipes::{Client, ConnectionState};
/// # fn example(client: &Client) {
/// let handle = client.add_listener(|state: ConnectionState| async move {
///     println!("{state}");
/// });
/// handle.remove();
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ListenerHandle {
    removed: Arc<watch::Sender<bool>>,
}

impl ListenerHandle {
    fn new() -> (Self, Removal) {
        let removed = Arc::new(watch::Sender::new(false));
        let removal = Removal { flag: removed.subscribe(), _alive: Arc::clone(&removed) };
        (ListenerHandle { removed }, removal)
    }

    /// Removes the listener. It is not called again, and a call that is under way is dropped at its current await.
    #[doc(alias = "removeListener")]
    pub fn remove(&self) {
        self.removed.send_replace(true);
    }
}

/// The listener's side of its handle.
#[derive(Debug)]
struct Removal {
    flag: watch::Receiver<bool>,
    /// Keeps the channel open after the handle is dropped.
    _alive: Arc<watch::Sender<bool>>,
}

impl Removal {
    /// Resolves when the listener is to be removed.
    async fn requested(&mut self) {
        let _ = self.flag.wait_for(|removed| *removed).await;
    }
}

/// Passes messages of one kind, such as states or events, to a listener.
pub(crate) trait Deliver<M>: Send + Sync + 'static {
    fn deliver(&self, message: M) -> impl Future<Output = ()> + Send;
}

/// Starts a task that passes the messages to `target`, one after the other, until the stream ends, the listener is
/// removed, or it panics. Reports a panic.
pub(crate) fn spawn_listener<M: Send + 'static>(
    core: &Arc<Core>,
    what: &'static str,
    messages: impl Stream<Item = M> + Send + 'static,
    target: impl Deliver<M>,
) -> ListenerHandle {
    let (handle, mut removal) = ListenerHandle::new();
    let core = Arc::clone(core);
    let runtime = core.runtime.clone();
    runtime.spawn(async move {
        let mut messages = std::pin::pin!(messages);
        loop {
            let next = tokio::select! {
                biased;
                () = removal.requested() => return,
                next = messages.next() => next,
            };
            let Some(next) = next else { return };
            let delivered = tokio::select! {
                biased;
                // First, so that a listener that never returns can also be removed.
                () = removal.requested() => return,
                // The listener can also panic before it makes its future.
                delivered = AssertUnwindSafe(async { target.deliver(next).await }).catch_unwind() => delivered,
            };
            if let Err(panic) = delivered {
                let text = panic_text(panic);
                core.report(Error::new(ErrorKind::Other, format!("a {what} panicked and was removed: {text}")));
                return;
            }
        }
    });
    handle
}

/// Passes the connection states of a client to a listener until the client is closed.
pub(crate) fn follow_states(core: &Arc<Core>, listener: impl ConnectionStateListener) -> ListenerHandle {
    let reporter = Arc::clone(core);
    let states = core.states.subscribe().scan((), move |(), state| {
        let state = state.inspect_err(|lagged| {
            reporter.report(Error::new(ErrorKind::Other, format!("a connection state listener: {lagged}")));
        });
        std::future::ready(state.ok())
    });
    spawn_listener(core, "connection state listener", states, Follower(listener))
}

struct Follower<L>(L);

impl<L: ConnectionStateListener> Deliver<ConnectionState> for Follower<L> {
    fn deliver(&self, state: ConnectionState) -> impl Future<Output = ()> + Send {
        self.0.state_changed(state)
    }
}
