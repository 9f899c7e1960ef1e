//! The nodes that a close has to delete: the node of this session, and what former sessions may have left.

use std::sync::Arc;

use futures::future::join;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::Error;
use super::late::{LateCreate, expiry};
use super::state::Shared;
use crate::client;
use crate::client::core::Core;
use crate::client::owned_node::{DeletionTarget, OwnedNode, SharedPath};
use crate::client::session::Session;
use crate::engine;
use crate::util::znode::Stat;

/// The nodes to delete. A node is recorded before its create is handed over.
#[derive(Debug)]
pub(super) struct PendingDeletes {
    core: Arc<Core>,
    shared: Arc<Shared>,
    /// No other client uses the path: it has a uuid in it.
    is_unique: bool,
    /// The session that was used last.
    session: Option<Arc<Session>>,
    /// Present until the node is known to be gone or another's.
    node: Option<OwnedNode>,
    /// It is unknown whether the create of the node was carried out.
    outcome_unknown: bool,
    /// The node does not end with its session.
    outlasts: bool,
    /// A child of the node that may be ours.
    child: Option<Arc<str>>,
    /// Sessions that are over, whose node at our path the servers may not have deleted yet.
    former: Vec<i64>,
    /// Resolve when the numbered nodes of such sessions are gone, whose path is not known.
    leftovers: Vec<oneshot::Receiver<()>>,
    /// Creates of sessions that were given up, which may still be carried out.
    late: Vec<LateCreate>,
}

impl PendingDeletes {
    pub(super) fn new(core: &Arc<Core>, shared: &Arc<Shared>, is_unique: bool) -> Self {
        let (core, shared) = (Arc::clone(core), Arc::clone(shared));
        PendingDeletes {
            core,
            shared,
            is_unique,
            session: None,
            node: None,
            outcome_unknown: false,
            outlasts: false,
            child: None,
            former: Vec::new(),
            leftovers: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Continues in this session. Returns whether the node is still ours, as far as that is known.
    pub(super) fn enter(&mut self, session: &Arc<Session>, path: Option<&Arc<str>>) -> bool {
        let Some(last) = self.session.replace(Arc::clone(session)).filter(|last| !Arc::ptr_eq(last, session)) else {
            return true;
        };
        self.note_late_create(&last);
        match (self.node.take(), path) {
            (None, _) => {}
            (Some(node), _) if self.outlasts => {
                self.node = Some(self.owned(session, node.into_target()));
                return true;
            }
            // The servers delete it. A delete in this session could hit a node that another client creates meanwhile.
            (Some(node), Some(_)) => {
                node.gone();
                self.former.push(last.id());
            }
            // Another attempt has another name.
            (Some(node), None) => {
                self.leftovers.retain_mut(|gone| gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
                self.leftovers.push(node.leave_behind().1);
            }
        }
        false
    }

    /// Records the create of the node, if it was not answered and may still be carried out for this former session.
    fn note_late_create(&mut self, session: &Session) {
        let now = Instant::now();
        self.late.retain(|late| !late.is_past(now));
        if let Some(node) = self.node.as_ref().filter(|_| self.outcome_unknown)
            && let Some(expiry) = expiry(session, &self.core)
        {
            self.late.push(LateCreate::new(node.target().clone(), now, expiry));
        }
    }

    fn owned(&self, session: &Arc<Session>, target: DeletionTarget) -> OwnedNode {
        OwnedNode::of(session, &self.core.janitor, target)
    }

    /// Returns whether there may be a node of ours.
    pub(super) fn is_present(&self) -> bool {
        self.node.is_some()
    }

    /// Returns whether the existing node outlasts its session.
    pub(super) fn outlasts(&self) -> bool {
        self.outlasts
    }

    /// Expects a node at this path: a create is about to be handed over. Returns whether there was none of ours before,
    /// as far as that is known.
    pub(super) fn expect(&mut self, session: &Arc<Session>, path: &Arc<str>, outlasts: bool) -> bool {
        let is_first = !self.is_present();
        self.forget_node();
        self.outlasts = outlasts;
        self.outcome_unknown = true;
        self.node = Some(self.owned(session, self.target(session, path, None)));
        is_first
    }

    /// Expects a node whose name begins with `prefix`.
    pub(super) fn expect_numbered(&mut self, session: &Arc<Session>, dir: &Arc<str>, prefix: String) {
        self.outlasts = false;
        self.outcome_unknown = true;
        self.node = Some(self.owned(session, DeletionTarget::Prefix { dir: Arc::clone(dir), prefix }));
    }

    /// Expects a child of the node, which is deleted before it.
    pub(super) fn expect_child(&mut self, child: &Arc<str>) {
        if self.child.is_none() {
            self.child = Some(Arc::clone(child));
        }
    }

    /// Takes on the node with this stat.
    pub(super) fn adopt(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat) {
        self.forget_node();
        self.outlasts = stat.ephemeral_owner == 0;
        self.node = Some(self.owned(session, self.target(session, path, Some(stat.czxid))));
    }

    /// Forgets the present node: it is gone, or belongs to another session.
    pub(super) fn forget_node(&mut self) {
        self.outcome_unknown = false;
        if let Some(node) = self.node.take() {
            node.gone();
        }
    }

    /// Records that no node of a former session is at the path.
    pub(super) fn forget_former(&mut self) {
        self.former.clear();
    }

    /// Returns whether this is a former session of ours.
    pub(super) fn is_former(&self, session: i64) -> bool {
        self.former.contains(&session)
    }

    fn target(&self, session: &Arc<Session>, path: &Arc<str>, czxid: Option<i64>) -> DeletionTarget {
        if self.is_unique {
            return DeletionTarget::Path(Arc::clone(path));
        }
        let owner = (!self.outlasts).then(|| session.id());
        DeletionTarget::Shared(SharedPath { path: Arc::clone(path), owner, czxid })
    }

    /// Handles the end of the client. Fails if a node may still exist. A node that outlasts its session stays.
    pub(super) fn client_closed(&mut self) -> Result<(), Error> {
        let former_may = !self.former.is_empty() || !self.leftovers.is_empty() || !self.late.is_empty();
        let may_exist = self.node.is_some() || former_may;
        self.forget_node();
        if may_exist { Err(self.shared.closed()) } else { Ok(()) }
    }

    /// Deletes the node, and waits until it and the nodes of former sessions are gone. Fails if the server refuses the
    /// delete, or the client is closed first.
    pub(super) async fn delete_all(&mut self, path: Option<&Arc<str>>) -> Result<(), Error> {
        if self.outlasts {
            // A late create is refused while the node exists.
            self.wait_for_late_creates().await?;
        }
        if self.node.is_some() {
            self.delete_child().await?;
        }
        while let Some(mut node) = self.node.take() {
            match node.delete(None).await {
                Ok(()) => {}
                Err(engine::Error::SessionEnded) => {
                    self.node = Some(node);
                    self.node_session_ended().await?;
                }
                // The child was created late.
                Err(engine::Error::NotEmpty) if self.delete_child().await? => {
                    let (session, _) = self.connected().await?;
                    self.node = Some(self.owned(&session, node.into_target()));
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        self.wait_for_late_creates().await?;
        if let Some(path) = path {
            self.former_are_gone(path).await?;
        }
        for gone in std::mem::take(&mut self.leftovers) {
            // Resolves when its sender is dropped: by the janitor once the node is gone, or with the client.
            let _ = gone.await;
            if *self.core.closing.borrow() {
                return Err(self.shared.closed());
            }
        }
        Ok(())
    }

    /// Handles that the session of the node ended while the node was being deleted.
    async fn node_session_ended(&mut self) -> Result<(), Error> {
        if let Some(session) = self.session.take() {
            self.note_late_create(&session);
        }
        if self.outlasts {
            self.wait_for_late_creates().await?;
        }
        let Some(node) = self.node.take() else { return Ok(()) };
        if self.outlasts || self.is_unique {
            let target = node.into_target();
            let (session, _) = self.connected().await?;
            self.node = Some(self.owned(&session, target));
            self.session = Some(session);
        } else {
            self.former.push(node.session_id());
            node.gone();
        }
        Ok(())
    }

    /// Waits until late creates are carried out or refused, and records their nodes for deletion.
    async fn wait_for_late_creates(&mut self) -> Result<(), Error> {
        while let Some(late) = self.late.first() {
            let mut closing = self.core.closing.subscribe();
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return Err(self.shared.closed()),
                () = tokio::time::sleep_until(late.decided_at()) => {}
            }
            match self.late.remove(0).into_target() {
                DeletionTarget::Shared(SharedPath { owner: Some(owner), .. }) => self.former.push(owner),
                lasting @ DeletionTarget::Shared(_) => {
                    if self.node.is_none() {
                        self.node = Some(self.owned(&self.connected().await?.0, lasting));
                    }
                }
                named => {
                    let (session, _) = self.connected().await?;
                    self.leftovers.push(self.owned(&session, named).leave_behind().1);
                }
            }
        }
        Ok(())
    }

    async fn connected(&self) -> Result<(Arc<Session>, u64), Error> {
        self.core.connected().await.map_err(|_| self.shared.closed())
    }

    /// Deletes the child, if there is one. Returns whether there was one, as far as that is known.
    async fn delete_child(&self) -> Result<bool, Error> {
        let Some(child) = &self.child else { return Ok(false) };
        loop {
            let (session, connection) = self.connected().await?;
            match session.delete(child, None).await {
                Ok(()) => return Ok(true),
                Err(engine::Error::NoNode) => return Ok(false),
                Err(error) => {
                    session.wait_if_transient(error, connection).await.map_err(|error| self.refused(error))?
                }
            }
        }
    }

    /// Waits until the nodes of former sessions are gone from our path. The servers delete them; a delete by us could
    /// hit a node that another client creates at that moment.
    async fn former_are_gone(&self, path: &Arc<str>) -> Result<(), Error> {
        while !self.former.is_empty() {
            let (session, connection) = self.connected().await?;
            let (sync, looked) = session.together(|| (session.sync(path), session.watch_exists(path)));
            let (sync, looked) = join(sync, looked).await;
            let error = match sync.and(looked) {
                Ok((Some(stat), _)) if self.is_unique && self.former.contains(&stat.ephemeral_owner) => {
                    match session.delete(path, None).await {
                        Ok(()) | Err(engine::Error::NoNode) => return Ok(()),
                        Err(error) => error,
                    }
                }
                Ok((Some(stat), watch)) if self.former.contains(&stat.ephemeral_owner) => {
                    session.changed(watch, connection).await;
                    continue;
                }
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            session.wait_if_transient(error, connection).await.map_err(|error| self.refused(error))?;
        }
        Ok(())
    }

    fn refused(&self, error: engine::Error) -> Error {
        let error = client::Error::from_engine("delete our node at", &self.shared.path, error);
        Error::client(&self.shared.path, error)
    }
}
