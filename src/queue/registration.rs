//! A producer's own node, for one session: its number tells which transactions were carried out.

use std::sync::Arc;

use super::directory;
use super::names::Places;
use crate::backend::{self, Op};
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::session::Session;
use crate::path::join;
use crate::types::CreateMode;

/// A producer's node. Dropped, it is deleted in the background.
#[derive(Debug)]
pub(super) struct Registration {
    session: Arc<Session>,
    node: OwnedNode,
    path: Arc<str>,
    /// That of the last transaction handed over. It is the version of the node's data when it was carried out.
    number: i32,
}

impl Registration {
    /// Creates the node; `None` if the session is over.
    pub(super) async fn enter(
        core: &Core,
        session: &Arc<Session>,
        places: &Places,
    ) -> Result<Option<Self>, backend::Error> {
        let uuid = core.random.uuid().to_string();
        let path: Arc<str> = join(&places.producers, &uuid).into();
        let dir: Arc<str> = places.producers.as_str().into();
        let mut node = OwnedNode::expected(session, &core.janitor, &dir, uuid);
        let acls = &core.config.acls;
        loop {
            let Ok(connection) = session.connected().await else { return Ok(None) };
            let failed = match session.create(&path, b"0", CreateMode::Ephemeral, acls).await {
                // With this name it can only be ours, of an attempt whose answer was lost.
                Ok(_) | Err(backend::Error::NodeExists) => {
                    node.created(Arc::clone(&path));
                    return Ok(Some(Registration { session: Arc::clone(session), node, path, number: 0 }));
                }
                Err(backend::Error::NoNode) => match directory::make(session, &places.producers, acls).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !failed.is_passing() {
                if !failed.leaves_outcome_unknown() {
                    node.gone();
                }
                return Err(failed);
            }
            // The loop looks at what came of it.
            let _ = session.connected_after_loss(connection).await;
        }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(super) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// So many transactions were carried out; the next one is numbered from there.
    pub(super) fn set_number(&mut self, number: i32) {
        self.number = number;
    }

    /// The step that numbers the next transaction: it is refused if that number was given already.
    pub(super) fn raise(&mut self) -> Op {
        let version = Some(self.number);
        self.number += 1;
        Op::SetData { path: self.path.to_string(), data: self.number.to_string().into_bytes(), version }
    }

    /// How many transactions were carried out, as of now; `None` if that cannot be known any more: the session is over, or
    /// somebody else has deleted or written the node.
    pub(super) async fn read(&self) -> Option<i32> {
        let session = &self.session;
        loop {
            let connection = session.connected().await.ok()?;
            // After a sync, as a server that lags may not know of the last ones.
            let (sync, read) = (session.sync(&self.path), session.get_data(&self.path));
            let failed = match futures::join!(sync, read) {
                (Ok(()), Ok((data, stat))) => {
                    return (data == stat.version.to_string().as_bytes()).then_some(stat.version);
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            if !failed.is_passing() {
                tracing::warn!(node = &*self.path, ?failed, "a producer cannot see what it has put");
                return None;
            }
            // The loop looks at what came of it.
            let _ = session.connected_after_loss(connection).await;
        }
    }

    /// Deletes the node and waits until the server has, or its session is over.
    pub(super) async fn end(mut self) {
        // What cannot be deleted now the janitor sees to.
        let _ = self.node.delete(None).await;
    }
}
