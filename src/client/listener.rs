//! Listeners. Each runs on a task of its own, so that none delays another or a recipe.

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

    /// Removes the listener. It is not called again, and a call under way is dropped at its current await.
    #[doc(alias = "removeListener")]
    pub fn remove(&self) {
        self.removed.send_replace(true);
    }
}

/// The listener's side of its handle.
#[derive(Debug)]
struct Removal {
    flag: watch::Receiver<bool>,
    /// Keeps the channel open when the handle is dropped.
    _alive: Arc<watch::Sender<bool>>,
}

impl Removal {
    /// Resolves when the listener is to be removed.
    async fn requested(&mut self) {
        let _ = self.flag.wait_for(|removed| *removed).await;
    }
}

/// Receives messages of one kind, such as states or events.
pub(crate) trait Hearer<News>: Send + Sync + 'static {
    fn hear(&self, news: News) -> impl Future<Output = ()> + Send;
}

/// Passes the messages to `hearer`, one after the other, on a task of its own, until they end, or the listener is
/// removed, or it panics, which is reported.
pub(crate) fn tell<News: Send + 'static>(
    core: &Arc<Core>,
    what: &'static str,
    news: impl Stream<Item = News> + Send + 'static,
    hearer: impl Hearer<News>,
) -> ListenerHandle {
    let (handle, mut removal) = ListenerHandle::new();
    let core = Arc::clone(core);
    let runtime = core.runtime.clone();
    runtime.spawn(async move {
        let mut news = std::pin::pin!(news);
        loop {
            let next = tokio::select! {
                biased;
                () = removal.requested() => return,
                next = news.next() => next,
            };
            let Some(next) = next else { return };
            let told = tokio::select! {
                biased;
                // First, so that a listener that never returns can be removed as well.
                () = removal.requested() => return,
                // The listener can also panic before it makes its future.
                told = AssertUnwindSafe(async { hearer.hear(next).await }).catch_unwind() => told,
            };
            if let Err(panic) = told {
                let text = panic_text(panic);
                core.report(Error::new(ErrorKind::Other, format!("a {what} panicked and was removed: {text}")));
                return;
            }
        }
    });
    handle
}

/// Feeds the connection states of a client to a listener until the client is closed.
pub(crate) fn follow_states(core: &Arc<Core>, listener: impl ConnectionStateListener) -> ListenerHandle {
    let reporter = Arc::clone(core);
    let states = core.states.subscribe().scan((), move |(), state| {
        let told = state.inspect_err(|lagged| {
            reporter.report(Error::new(ErrorKind::Other, format!("a connection state listener: {lagged}")));
        });
        std::future::ready(told.ok())
    });
    tell(core, "connection state listener", states, Follower(listener))
}

struct Follower<L>(L);

impl<L: ConnectionStateListener> Hearer<ConnectionState> for Follower<L> {
    fn hear(&self, state: ConnectionState) -> impl Future<Output = ()> + Send {
        self.0.state_changed(state)
    }
}
