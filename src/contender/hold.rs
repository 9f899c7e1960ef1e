//! What a holder has in hand.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

use crate::client::Fence;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::owned_node::HandedOver;
use crate::client::session::Session;

/// What a holder is told.
#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    /// It holds no more.
    ended: bool,
    /// Somebody has asked it to let go.
    revoked: bool,
}

/// One uninterrupted time of holding. Once over it never counts again, also when the same place holds anew.
#[derive(Clone)]
pub(crate) struct Hold {
    core: Arc<Core>,
    session: Arc<Session>,
    path: Arc<str>,
    token: i64,
    grant: Grant,
    signals: watch::Receiver<Signals>,
}

impl Hold {
    /// Whether it is certain, at this instant, that nobody else holds: compares the clock at each call.
    pub(crate) fn is_held(&self) -> bool {
        !self.signals.borrow().ended && self.session.lease().is_valid(self.grant)
    }

    /// The transaction that created the node: greater for every later holder of the line.
    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    /// The node, as the server names it.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Resolves when it is over.
    pub(crate) async fn lost(&self) {
        let mut signals = self.signals.clone();
        // The contender gone without a word is the end as well.
        let _ = signals.wait_for(|signals| signals.ended).await;
    }

    /// Resolves when the holder is asked to let go: with true; or when it is over: with false.
    pub(crate) async fn revoked(&self) -> bool {
        let mut signals = self.signals.clone();
        let told = signals.wait_for(|signals| signals.revoked || signals.ended).await;
        told.is_ok_and(|signals| !signals.ended)
    }

    /// Runs `work` for as long as it lasts: `None` if it was over first. Then `work` is not polled again.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        // A loop over work that is done at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut work = std::pin::pin!(work);
        let mut lost = std::pin::pin!(self.lost());
        // The clock is asked before each poll of the work, as the end of the lease need not have been told yet.
        std::future::poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() || !self.is_held() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Hands the delete of the node over, so that nothing that is sent later overtakes it; for who has let go already. Nothing
    /// if it is over, or there is no connection.
    pub(crate) fn delete(&self) -> Option<HandedOver> {
        let over = self.signals.borrow().ended;
        if over { None } else { HandedOver::delete(&self.session, &self.path) }
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence { core: Arc::clone(&self.core), session: Arc::clone(&self.session), path: Arc::clone(&self.path) }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("path", &self.path)
            .field("token", &self.token)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// The contender's side of a [`Hold`]: ends it when dropped.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) hold: Hold,
    signals: watch::Sender<Signals>,
}

impl Term {
    pub(super) fn new(core: &Arc<Core>, session: &Arc<Session>, path: &Arc<str>, token: i64, grant: Grant) -> Self {
        let (signals, seen) = watch::channel(Signals::default());
        let hold = Hold {
            core: Arc::clone(core),
            session: Arc::clone(session),
            path: Arc::clone(path),
            token,
            grant,
            signals: seen,
        };
        Term { hold, signals }
    }

    /// Tells the holder that somebody wants it to let go.
    pub(super) fn revoke(&self) {
        self.signals.send_modify(|signals| signals.revoked = true);
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.signals.send_modify(|signals| signals.ended = true);
    }
}
