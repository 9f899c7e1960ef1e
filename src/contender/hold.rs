//! What a holder works with: the hold, and the contender's side of it.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

use crate::client::Fence;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::owned_node::HandedOver;
use crate::client::session::Session;

/// The signals to a holder.
#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    /// The hold has ended.
    ended: bool,
    /// The holder was asked to release.
    revoked: bool,
}

/// One uninterrupted period of holding. Once ended it never counts again, also when the same place holds again.
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
    /// Whether it is certain, at this instant, that no other contender holds. Compares the clock at each call.
    pub(crate) fn is_held(&self) -> bool {
        !self.signals.borrow().ended && self.session.lease().is_valid(self.grant)
    }

    /// The transaction that created the node: greater for every later holder of the line.
    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    /// The path of the node on the server.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Resolves when the hold has ended.
    pub(crate) async fn lost(&self) {
        let mut signals = self.signals.clone();
        // A dropped contender ends the hold as well.
        let _ = signals.wait_for(|signals| signals.ended).await;
    }

    /// Resolves with true when the holder is asked to release, and with false when the hold has ended.
    pub(crate) async fn revoked(&self) -> bool {
        let mut signals = self.signals.clone();
        let told = signals.wait_for(|signals| signals.revoked || signals.ended).await;
        told.is_ok_and(|signals| !signals.ended)
    }

    /// Runs `work` while the hold lasts. Returns `None` if the hold ended first; then `work` is not polled again.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        // A loop over work that is done at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut work = std::pin::pin!(work);
        let mut lost = std::pin::pin!(self.lost());
        // The clock is checked before each poll of the work, as the end of the lease may not be signalled yet.
        std::future::poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() || !self.is_held() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Hands over the delete of the node, so that no later request overtakes it. For a holder that has released already. Does
    /// nothing if the hold has ended, or there is no connection.
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

    /// Asks the holder to release.
    pub(super) fn revoke(&self) {
        self.signals.send_modify(|signals| signals.revoked = true);
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.signals.send_modify(|signals| signals.ended = true);
    }
}
