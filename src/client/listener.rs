//! Listeners: each on a task of its own, so that none delays another, let alone a recipe.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::watch;

use super::core::Core;
use super::error::{Error, ErrorKind};
use super::state::{ConnectionState, ConnectionStateListener};

/// Takes a listener away again. Dropping it leaves the listener in place.
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

    /// The listener is called no more; a call under way is dropped at the await it is in.
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
    /// Resolves when the listener is to go.
    async fn requested(&mut self) {
        let _ = self.flag.wait_for(|removed| *removed).await;
    }
}

/// Somebody who is told news of one kind.
pub(crate) trait Hearer<News>: Send + Sync + 'static {
    fn hear(&self, news: News) -> impl Future<Output = ()> + Send;
}

/// Tells `hearer` the news, one after the other, on a task of its own, until there are no more, or it is removed, or it
/// panics: that is reported.
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
                // A listener that never returns can be removed all the same.
                () = removal.requested() => return,
                // Also what the listener does before it makes its future.
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

/// What a panic said.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(panic) => panic,
    };
    match panic.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(panic) => {
            // Anything can be thrown, also what panics when it is dropped; what that throws in turn is never dropped.
            if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(again);
            }
            "no message".to_owned()
        }
    }
}

/// Does something in which a user's code has a hand; what it panicked with, if it did.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(panic_text)
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
