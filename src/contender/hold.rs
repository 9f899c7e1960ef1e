//! What a holder has in hand.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::client::Fence;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::session::Session;

/// One uninterrupted time of holding. Once over it never counts again, also when the same place holds anew.
#[derive(Clone)]
pub(crate) struct Hold {
    core: Arc<Core>,
    session: Arc<Session>,
    path: Arc<str>,
    token: i64,
    grant: Grant,
    ended: watch::Receiver<bool>,
}

impl Hold {
    /// Whether it is certain, at this instant, that nobody else holds: compares the clock at each call.
    pub(crate) fn is_held(&self) -> bool {
        !*self.ended.borrow() && self.session.lease().is_valid(self.grant)
    }

    /// The transaction that created the node: greater for every later holder of the line.
    pub(crate) fn token(&self) -> i64 {
        self.token
    }

    /// Resolves when it is over.
    pub(crate) async fn lost(&self) {
        let mut ended = self.ended.clone();
        // The contender gone without a word is the end as well.
        let _ = ended.wait_for(|ended| *ended).await;
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
    ended: watch::Sender<bool>,
}

impl Term {
    pub(super) fn new(core: &Arc<Core>, session: &Arc<Session>, path: &Arc<str>, token: i64, grant: Grant) -> Self {
        let (ended, seen) = watch::channel(false);
        let hold = Hold {
            core: Arc::clone(core),
            session: Arc::clone(session),
            path: Arc::clone(path),
            token,
            grant,
            ended: seen,
        };
        Term { hold, ended }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.ended.send_replace(true);
    }
}
