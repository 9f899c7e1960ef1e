//! What has to be deleted in the end: the node of this session, and what former sessions may have left.

use std::sync::Arc;

use futures::future::join;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::Error;
use super::late::LateCreate;
use super::state::Shared;
use crate::client;
use crate::client::core::Core;
use crate::client::owned_node::{DeletionTarget, OwnedNode, SharedPath};
use crate::client::session::{Condition, EndReason, Session};
use crate::engine;
use crate::util::znode::Stat;

/// The duty to delete the node, from before a create is handed over.
#[derive(Debug)]
pub(super) struct Duty {
    core: Arc<Core>,
    shared: Arc<Shared>,
    /// No other client uses the path: it has a uuid in it.
    is_unique: bool,
    /// The session that was used last.
    session: Option<Arc<Session>>,
    /// Present until the node is known to be gone or another's.
    node: Option<OwnedNode>,
    /// It is not known whether the create of the node was carried out.
    is_in_doubt: bool,
    /// The node does not end with its session.
    outlasts: bool,
    /// A child of the node that may be ours.
    child: Option<Arc<str>>,
    /// Sessions that are over, whose node at our path the servers may not have deleted yet.
    former: Vec<i64>,
    /// Resolve when the numbered nodes of such sessions are gone, whose path is not known.
    leftovers: Vec<oneshot::Receiver<()>>,
    /// Creates of sessions that were given up, which may be carried out yet.
    late: Vec<LateCreate>,
}

impl Duty {
    pub(super) fn new(core: &Arc<Core>, shared: &Arc<Shared>, is_unique: bool) -> Self {
        let (core, shared) = (Arc::clone(core), Arc::clone(shared));
        Duty {
            core,
            shared,
            is_unique,
            session: None,
            node: None,
            is_in_doubt: false,
            outlasts: false,
            child: None,
            former: Vec::new(),
            leftovers: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Goes on in this session. Returns whether the node is still ours, as far as that is known.
    pub(super) fn enter(&mut self, session: &Arc<Session>, path: Option<&Arc<str>>) -> bool {
        let Some(last) = self.session.replace(Arc::clone(session)).filter(|last| !Arc::ptr_eq(last, session)) else {
            return true;
        };
        self.note_late(&last);
        match (self.node.take(), path) {
            (None, _) => {}
            (Some(node), _) if self.outlasts => {
                self.node = Some(self.owned(session, node.into_target()));
                return true;
            }
            // The servers delete it. A delete through this session could hit the node that another client creates then.
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

    /// Notes the create of the node, if the session was given up before it was answered.
    fn note_late(&mut self, session: &Session) {
        let now = Instant::now();
        self.late.retain(|late| !late.is_past(now));
        let is_refused = session.condition() == Condition::Ended(EndReason::Expired);
        if let Some(node) = self.node.as_ref().filter(|_| self.is_in_doubt && !is_refused) {
            // A request to reconnect that was not answered may have been granted what it asked for.
            let timeout = session.timeout().max(self.core.config.session_timeout);
            let expiry = timeout + self.core.config.tick;
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

    /// Returns whether the node that is there does not end with its session.
    pub(super) fn outlasts(&self) -> bool {
        self.outlasts
    }

    /// Expects a node at this path: a create is about to be handed over. Returns whether there was none of ours before,
    /// as far as that is known.
    pub(super) fn expect(&mut self, session: &Arc<Session>, path: &Arc<str>, outlasts: bool) -> bool {
        let is_first = !self.is_present();
        self.relieve();
        self.outlasts = outlasts;
        self.is_in_doubt = true;
        self.node = Some(self.owned(session, self.target(session, path, None)));
        is_first
    }

    /// Expects a node whose name begins with `prefix`.
    pub(super) fn expect_numbered(&mut self, session: &Arc<Session>, dir: &Arc<str>, prefix: String) {
        self.outlasts = false;
        self.is_in_doubt = true;
        self.node = Some(self.owned(session, DeletionTarget::Prefix { dir: Arc::clone(dir), prefix }));
    }

    /// Expects a child of the node, which is deleted before it.
    pub(super) fn expect_child(&mut self, child: &Arc<str>) {
        if self.child.is_none() {
            self.child = Some(Arc::clone(child));
        }
    }

    /// Takes on the node with this stat.
    pub(super) fn take_on(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat) {
        self.relieve();
        self.outlasts = stat.ephemeral_owner == 0;
        self.node = Some(self.owned(session, self.target(session, path, Some(stat.czxid))));
    }

    /// Ends the duty for the present node: it is gone, or another's.
    pub(super) fn relieve(&mut self) {
        self.is_in_doubt = false;
        if let Some(node) = self.node.take() {
            node.gone();
        }
    }

    /// Notes that the path is free of nodes of former sessions.
    pub(super) fn path_is_free(&mut self) {
        self.former.clear();
    }

    /// Returns whether this is a session of ours that is over.
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

    /// Takes note of the end of the client. Fails if a node may still be there. A node that outlasts sessions stays.
    pub(super) fn client_closed(&mut self) -> Result<(), Error> {
        let former_may = !self.former.is_empty() || !self.leftovers.is_empty() || !self.late.is_empty();
        let may_exist = self.node.is_some() || former_may;
        self.relieve();
        if may_exist { Err(self.shared.closed()) } else { Ok(()) }
    }

    /// Deletes the node, and waits until it is gone, also that of a session that is over. Fails if the server refuses
    /// it, or the client is closed first.
    pub(super) async fn fulfil(&mut self, path: Option<&Arc<str>>) -> Result<(), Error> {
        if self.outlasts {
            // A late create is refused as long as the node is there.
            self.outwait_late().await?;
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
                // A create of the child came late.
                Err(engine::Error::NotEmpty) if self.delete_child().await? => {
                    let session = self.connected_session().await?;
                    self.node = Some(self.owned(&session, node.into_target()));
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        self.outwait_late().await?;
        if let Some(path) = path {
            self.former_are_gone(path).await?;
        }
        for gone in std::mem::take(&mut self.leftovers) {
            // It resolves when its sender is dropped: by the janitor that has seen the node gone, or with the client.
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
            self.note_late(&session);
        }
        if self.outlasts {
            self.outwait_late().await?;
        }
        let Some(node) = self.node.take() else { return Ok(()) };
        if self.outlasts || self.is_unique {
            let target = node.into_target();
            let session = self.connected_session().await?;
            self.node = Some(self.owned(&session, target));
            self.session = Some(session);
        } else {
            self.former.push(node.session_id());
            node.gone();
        }
        Ok(())
    }

    /// Waits until late creates are carried out or refused. Their nodes are to be deleted then.
    async fn outwait_late(&mut self) -> Result<(), Error> {
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
                        self.node = Some(self.owned(&self.connected_session().await?, lasting));
                    }
                }
                named => {
                    let session = self.connected_session().await?;
                    self.leftovers.push(self.owned(&session, named).leave_behind().1);
                }
            }
        }
        Ok(())
    }

    async fn connected_session(&self) -> Result<Arc<Session>, Error> {
        self.core.connected_session().await.map_err(|_| self.shared.closed())
    }

    /// Deletes the child, if there is one. Returns whether there was, as far as that is known.
    async fn delete_child(&self) -> Result<bool, Error> {
        let Some(child) = &self.child else { return Ok(false) };
        loop {
            let session = self.connected_session().await?;
            let Condition::Connected(connection) = session.condition() else { continue };
            match session.delete(child, None).await {
                Ok(()) => return Ok(true),
                Err(engine::Error::NoNode) => return Ok(false),
                Err(error) => session.outlast(error, connection).await.map_err(|error| self.refused(error))?,
            }
        }
    }

    /// Waits until the nodes of sessions that are over are gone from our path. The servers delete them; a delete by us
    /// could hit the node that another client creates at that moment.
    async fn former_are_gone(&self, path: &Arc<str>) -> Result<(), Error> {
        while !self.former.is_empty() {
            let session = self.connected_session().await?;
            let Condition::Connected(connection) = session.condition() else { continue };
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
                    let mut conditions = session.conditions();
                    let disturbed = conditions.wait_for(|now| *now != Condition::Connected(connection));
                    tokio::select! {
                        biased;
                        _ = watch => {}
                        _ = disturbed => {}
                    }
                    continue;
                }
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            session.outlast(error, connection).await.map_err(|error| self.refused(error))?;
        }
        Ok(())
    }

    fn refused(&self, error: engine::Error) -> Error {
        let error = client::Error::from_engine("delete our node at", &self.shared.path, error);
        Error::client(&self.shared.path, error)
    }
}
