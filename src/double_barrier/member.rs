//! One member, from its arrival until nothing of it is left: a task of its own, so that a caller may go at any time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::site::{Gate, Site};
use crate::backend::{self, Event, Watch};
use crate::client::owned_node::OwnedNode;
use crate::client::session::{Condition, EndReason, Session};
use crate::client::{self, ErrorKind};
use crate::path::join;

/// Who waits for longer than this watches its own node, so that it hears of it when somebody deletes it.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// Where the answer goes; gone when nobody waits for it any more.
pub(super) type Told = oneshot::Sender<Result<bool, Error>>;

/// To leave, and by when to have given up on the others.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) patience: Option<Instant>,
    pub(super) told: Told,
}

/// A node of an earlier time, of a session that is over, which may stand yet.
pub(super) type Ghost = Option<Arc<str>>;

/// What an attempt ended with that brought no verdict.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A request failed; whether that passes, its error tells.
    Request(backend::Error),
    /// Our node was deleted by somebody else while we were inside.
    NodeDeleted,
}

impl From<backend::Error> for Trouble {
    fn from(error: backend::Error) -> Self {
        Trouble::Request(error)
    }
}

/// A member, and what is known of its node.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) site: Arc<Site>,
    pub(super) session: Arc<Session>,
    pub(super) name: String,
    pub(super) path: Arc<str>,
    /// There is one from before its create is handed over until it is known to be gone.
    pub(super) node: Option<OwnedNode>,
    /// The transaction that created it, once that is known.
    pub(super) czxid: Option<i64>,
    /// Its data version, as far as we know.
    pub(super) version: i32,
    /// It joined a round, or may have: the answer was lost.
    pub(super) joining: bool,
    /// The gate of the round we are in, as last seen while our node stood.
    pub(super) round: Option<Gate>,
    /// A delete of the node was handed over.
    pub(super) stepped_out: bool,
    /// Whether a `ready` that nobody needs may be our doing.
    pub(super) loose_ends: bool,
    pub(super) ghost: Ghost,
}

/// Sees one member through: it enters, waits to be told to leave, leaves. Whenever its caller is gone it withdraws.
pub(super) async fn attend(
    site: Arc<Site>,
    ghost: Ghost,
    patience: Option<Instant>,
    mut told: Told,
    orders: oneshot::Receiver<Order>,
    settled: oneshot::Sender<Ghost>,
) {
    let arrival = async {
        tokio::select! {
            biased;
            () = told.closed() => None,
            session = site.core.connected_session() => Some(session),
            () = over(patience) => None,
        }
    };
    let session = match arrival.await {
        Some(Ok(session)) => session,
        nothing => {
            // Nothing was handed over.
            let answer = match nothing {
                Some(Err(error)) => Err(Error::client(&site.path, error)),
                _ if ghost.is_some() => Err(Error::left_behind(&site.path)),
                _ => Err(Error::no_server_asked(&site.path)),
            };
            // Nobody may be waiting for either.
            let _ = settled.send(ghost);
            let _ = told.send(answer);
            return;
        }
    };
    let mut member = Member::new(site, session, ghost);
    let entered = tokio::select! {
        biased;
        () = told.closed() => None,
        entered = member.enter(patience) => Some(entered),
    };
    let inside = matches!(entered, Some(Ok(true)));
    let mut settled = Some(settled);
    if member.tell(told, entered, &mut settled)
        && inside
        && let Ok(Order { patience, mut told }) = orders.await
    {
        let left = tokio::select! {
            biased;
            () = told.closed() => None,
            left = member.leave(patience) => Some(left),
        };
        member.tell(told, left, &mut settled);
    }
    let ghost = member.withdraw().await;
    if let Some(settled) = settled {
        let _ = settled.send(ghost);
    }
}

/// Resolves when the time is over; never if there is no end to it.
pub(super) async fn over(patience: Option<Instant>) {
    match patience {
        Some(patience) => sleep_until(patience).await,
        None => std::future::pending().await,
    }
}

/// Resolves when a watch fires; never if there is none.
pub(super) async fn fired(watch: &mut Option<Watch>) -> Event {
    match watch {
        Some(watch) => {
            let event = watch.await;
            tracing::trace!(?event, "watch");
            event
        }
        None => std::future::pending().await,
    }
}

impl Member {
    fn new(site: Arc<Site>, session: Arc<Session>, ghost: Ghost) -> Self {
        let mut member = Member {
            site,
            session,
            name: String::new(),
            path: "".into(),
            node: None,
            czxid: None,
            version: 0,
            joining: false,
            round: None,
            stepped_out: false,
            loose_ends: false,
            ghost,
        };
        member.take_name();
        member
    }

    /// A name that nobody has had before, so that no answer about another node can be taken for one about ours.
    pub(super) fn take_name(&mut self) {
        self.name = self.site.core.random.uuid().to_string();
        self.path = join(&self.site.dir, &self.name).into();
        self.czxid = None;
        self.version = 0;
        self.joining = false;
    }

    /// The node is known not to be there.
    pub(super) fn gone(&mut self) {
        if let Some(node) = self.node.take() {
            node.gone();
        }
        self.czxid = None;
    }

    /// Answers the caller, if there is something to answer; whether it heard. When nothing is left to be seen to, that is said
    /// first, so that the caller need not wait for it.
    fn tell(
        &self,
        told: Told,
        answer: Option<Result<bool, Error>>,
        settled: &mut Option<oneshot::Sender<Ghost>>,
    ) -> bool {
        let Some(answer) = answer else { return false };
        if self.node.is_none()
            && !self.loose_ends
            && let Some(settled) = settled.take()
        {
            let _ = settled.send(self.ghost.clone());
        }
        told.send(answer).is_ok()
    }

    /// Resolves when the connection on which watches were armed is in doubt.
    pub(super) async fn disturbed(&self, connection: u64) {
        let mut conditions = self.session.conditions();
        // The session gone without a word is the end as well.
        let _ = conditions.wait_for(|condition| *condition != Condition::Connected(connection)).await;
    }

    /// The session ended, and with it this member.
    pub(super) fn ended(&self, doing: &str, reason: EndReason) -> Error {
        match reason {
            EndReason::Closed => Error::Closed { path: Arc::clone(&self.site.path) },
            _ => Error::client(&self.site.path, client::Error::session_lost(doing, &self.site.path)),
        }
    }

    /// What to tell of trouble that does not pass; after trouble that does, waits until its cause is known.
    pub(super) async fn bear(&self, doing: &str, connection: u64, trouble: Trouble) -> Result<(), Error> {
        let error = match trouble {
            Trouble::Request(error) if error.is_passing() => {
                self.session.loss_known(connection).await;
                return Ok(());
            }
            Trouble::Request(error) => error,
            Trouble::NodeDeleted => {
                let (path, node) = (Arc::clone(&self.site.path), Arc::clone(&self.path));
                return Err(Error::NodeDeleted { path, node });
            }
        };
        let unknown = error.leaves_outcome_unknown();
        let mut error = client::Error::from_backend(doing, &self.site.path, error);
        if unknown && self.node.is_some() {
            let message = format!("{error}; the node, if there is one, is deleted in the background");
            error = client::Error::new(ErrorKind::OutcomeUnknown, message);
        }
        Err(Error::client(&self.site.path, error))
    }

    /// Sees to it that nothing of this member is left, however long it takes; the node that may stand yet if its session ends
    /// first. It is the janitor's then, too.
    async fn withdraw(&mut self) -> Ghost {
        if let Some(mut node) = self.node.take()
            && let Err(error) = node.delete(None).await
        {
            tracing::debug!(path = &*self.path, ?error, "the node of a member is left to the janitor");
            return Some(Arc::clone(&self.path));
        }
        while std::mem::take(&mut self.loose_ends) {
            let Ok(connection) = self.session.connected().await else { break };
            match self.tidy().await {
                Ok(()) => {}
                Err(error) if error.is_passing() => {
                    self.loose_ends = true;
                    self.session.loss_known(connection).await;
                }
                // A `ready` without members does no harm: whoever comes next removes it.
                Err(error) => tracing::debug!(path = &*self.site.path, ?error, "could not look for a leftover `ready`"),
            }
        }
        self.ghost.take()
    }

    /// Removes `ready` if nobody is there.
    async fn tidy(&self) -> Result<(), backend::Error> {
        match self.site.view(&self.session, &self.name).await {
            Ok(view) if view.ready && view.others.is_empty() => {
                // Refused, somebody else has done something about it.
                self.site.remove_ready(&self.session, &view.stat, None).await.map(drop)
            }
            Ok(_) | Err(backend::Error::NoNode) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
