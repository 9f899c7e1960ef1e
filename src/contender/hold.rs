//! The hold, which a holder works with, and the contender's side of it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::Spec;
use crate::client::Fence;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::owned_node::HandedOver;
use crate::client::session::Session;
use crate::util::wait::run_while_held;

/// The signals to a holder.
#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    /// The hold has ended.
    ended: bool,
    /// The holder was asked to release.
    revoked: bool,
}

/// One uninterrupted period of holding. Once it has ended it stays ended, even if the same place holds again.
#[derive(Clone)]
pub(crate) struct Hold {
    core: Arc<Core>,
    session: Arc<Session>,
    spec: Arc<Spec>,
    path: Arc<str>,
    token: i64,
    grant: Grant,
    signals: watch::Sender<Signals>,
}

impl Hold {
    /// Returns whether it is certain, at this instant, that no other contender holds. Compares the clock at each call.
    pub(crate) fn is_held(&self) -> bool {
        !self.signals.borrow().ended && self.session.lease().is_valid(self.grant)
    }

    /// Returns the transaction that created the node. It is greater for every later holder of the line.
    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    /// Returns the grant of the lease that it relies on.
    pub(super) fn grant(&self) -> Grant {
        self.grant
    }

    /// Returns the path of the node on the server.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the path of the line, as the user of the client named it.
    pub(crate) fn dir(&self) -> &str {
        self.core.config.namespace.strip(&self.spec.dir)
    }

    /// Returns the data that the node was created with.
    pub(crate) fn data(&self) -> &[u8] {
        &self.spec.data
    }

    /// Resolves when the hold has ended.
    pub(crate) async fn lost(&self) {
        let mut signals = self.signals.subscribe();
        // The sender still exists.
        let _ = signals.wait_for(|signals| signals.ended).await;
    }

    /// Resolves with true when the holder is asked to release, and with false when the hold has ended.
    pub(crate) async fn revoked(&self) -> bool {
        let mut signals = self.signals.subscribe();
        let signal = signals.wait_for(|signals| signals.revoked || signals.ended).await;
        signal.is_ok_and(|signals| !signals.ended)
    }

    /// Asks the holder to release.
    pub(crate) fn revoke(&self) {
        self.signals.send_modify(|signals| signals.revoked = true);
    }

    /// Runs `work` while the hold lasts. Returns `None` if the hold ended first; then `work` is not polled again.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        run_while_held(|| self.is_held(), self.lost(), work).await
    }

    /// Ends the hold, then hands over the delete of the node, so that no later request of this client overtakes it.
    /// Hands over nothing if the hold has ended already, or there is no connection. It neither blocks nor spawns, so a
    /// `drop` may call it.
    pub(crate) fn release(&self) -> Option<HandedOver> {
        if self.end() { HandedOver::delete(&self.session, &self.path) } else { None }
    }

    /// Ends the hold. Returns whether it had not ended before.
    fn end(&self) -> bool {
        self.signals.send_if_modified(|signals| !std::mem::replace(&mut signals.ended, true))
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence {
            core: Arc::clone(&self.core),
            session: Arc::clone(&self.session),
            path: Arc::clone(&self.path),
            nodes: Arc::default(),
            released: None,
        }
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
pub(super) struct HoldOwner {
    pub(super) hold: Hold,
}

impl HoldOwner {
    pub(super) fn new(
        core: &Arc<Core>,
        session: &Arc<Session>,
        spec: &Arc<Spec>,
        path: &Arc<str>,
        token: i64,
        grant: Grant,
    ) -> Self {
        let hold = Hold {
            core: Arc::clone(core),
            session: Arc::clone(session),
            spec: Arc::clone(spec),
            path: Arc::clone(path),
            token,
            grant,
            signals: watch::Sender::default(),
        };
        HoldOwner { hold }
    }

    /// Asks the holder to release.
    pub(super) fn revoke(&self) {
        self.hold.revoke();
    }
}

impl Drop for HoldOwner {
    fn drop(&mut self) {
        self.hold.end();
    }
}
