//! A node that this client owns, from the moment at which its create is handed over. It is deleted in every case.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::deletion::Deletion;
pub(crate) use super::deletion::{DeletionTarget, HandedOver, SharedPath};
use super::session::Session;
use crate::engine::{self, Watch};
use crate::util::path::split;

/// Owns one node and deletes it. A drop hands the delete over at once, if there is a connection, and leaves the rest to
/// the janitor.
#[derive(Debug)]
pub(crate) struct OwnedNode {
    session: Arc<Session>,
    target: DeletionTarget,
    /// The watch of the node, kept here so that it ends with the node.
    watch: Option<Watch>,
    restart_counter: Option<i64>,
    janitor: mpsc::UnboundedSender<Deletion>,
    /// Whether the node may still exist and must be deleted.
    must_delete: bool,
    /// The server refused to delete it.
    refused: bool,
    /// Dropped when the node is gone.
    done: Option<oneshot::Sender<()>>,
}

impl OwnedNode {
    /// Takes ownership of a node whose create is about to be handed over.
    pub(crate) fn expected(
        session: &Arc<Session>,
        janitor: &mpsc::UnboundedSender<Deletion>,
        dir: &Arc<str>,
        prefix: String,
    ) -> Self {
        Self::of(session, janitor, DeletionTarget::Prefix { dir: Arc::clone(dir), prefix })
    }

    /// Takes ownership of the node that `target` names.
    pub(crate) fn of(
        session: &Arc<Session>,
        janitor: &mpsc::UnboundedSender<Deletion>,
        target: DeletionTarget,
    ) -> Self {
        let (session, janitor) = (Arc::clone(session), janitor.clone());
        OwnedNode {
            session,
            target,
            watch: None,
            restart_counter: None,
            janitor,
            must_delete: true,
            refused: false,
            done: None,
        }
    }

    /// Records the path under which the node was created.
    pub(crate) fn created(&mut self, path: Arc<str>) {
        self.target = DeletionTarget::Path(path);
    }

    /// Returns the path, once it is known.
    pub(crate) fn path(&self) -> Option<&Arc<str>> {
        match &self.target {
            DeletionTarget::Path(path) | DeletionTarget::Shared(SharedPath { path, .. }) => Some(path),
            DeletionTarget::Prefix { .. } => None,
        }
    }

    /// Returns the last element of the path.
    pub(crate) fn name(&self) -> &str {
        self.path().map_or("", |path| split(path).1)
    }

    /// Returns the watch of the node, if it is armed.
    pub(crate) fn watch(&mut self) -> &mut Option<Watch> {
        &mut self.watch
    }

    /// Deletes the directory after the node, if no other node is in it and the transaction `made` created it. Called if
    /// the directory's counter is nearly exhausted.
    pub(crate) fn set_restart_counter(&mut self, made: Option<i64>) {
        self.restart_counter = made;
    }

    /// Leaves the node to the janitor. Returns its name, and a receiver that resolves when the node is gone.
    pub(crate) fn leave_behind(mut self) -> (String, oneshot::Receiver<()>) {
        let (done, gone) = oneshot::channel();
        self.done = Some(done);
        (self.target.to_string(), gone)
    }

    /// Returns what is to be deleted.
    pub(crate) fn target(&self) -> &DeletionTarget {
        &self.target
    }

    /// Gives up the node without deleting it. Returns what is to be deleted, for a delete through another session.
    pub(crate) fn into_target(mut self) -> DeletionTarget {
        self.must_delete = false;
        self.target.clone()
    }

    /// Returns the id of the session that the node is deleted through.
    pub(crate) fn session_id(&self) -> i64 {
        self.session.id()
    }

    /// Deletes nothing, because the node was never created, or is known to be gone.
    pub(crate) fn gone(mut self) {
        self.must_delete = false;
    }

    /// Deletes the node and waits until the server has done so. Fails if the session ends first or the server refuses;
    /// a drop then leaves the node to the janitor. `handed` is the first attempt, if it was already handed over; it is
    /// ignored if it is for another node.
    pub(crate) async fn delete(&mut self, handed: Option<HandedOver>) -> Result<(), engine::Error> {
        let mut handed = handed.filter(|handed| self.path() == Some(handed.path()));
        loop {
            let (connection, outcome) = if let Some(handed) = handed.take() {
                handed.outcome().await
            } else {
                match self.session.connected().await {
                    Ok(connection) => (connection, self.target.clean(&self.session).await),
                    Err(_) => return Err(engine::Error::SessionEnded),
                }
            };
            match outcome {
                Ok(None) => {
                    self.must_delete = false;
                    if let Some(made) = self.restart_counter {
                        self.target.delete_directory(&self.session, made).await;
                    }
                    return Ok(());
                }
                Ok(Some(found)) => self.target = found,
                Err(error) => {
                    if let Err(refused) = self.session.wait_if_transient(error, connection).await {
                        // The janitor retries with growing delays.
                        self.refused = true;
                        // The children belong to other clients, which may delete all of it.
                        self.must_delete = refused != engine::Error::NotEmpty;
                        return Err(refused);
                    }
                }
            }
        }
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if self.must_delete {
            // At once, not later by the janitor: the next create of this session must not queue behind the node.
            let handed = match &self.target {
                DeletionTarget::Path(path) if !self.refused => HandedOver::delete(&self.session, path),
                _ => None,
            };
            let job = Deletion {
                session: Arc::clone(&self.session),
                target: self.target.clone(),
                handed,
                watch: self.watch.take(),
                restart_counter: self.restart_counter,
                done: self.done.take(),
            };
            // The janitor ends only when the client is closed, and then the session's nodes are deleted too.
            let _ = self.janitor.send(job);
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::testing::TestingServer;
    use crate::util::znode::CreateMode;

    #[tokio::test(start_paused = true)]
    async fn the_delete_of_another_node_does_not_count() {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        let core = client.core();
        let session = core.connected_session().await.expect("a session");
        for path in ["/one", "/two"] {
            session.create(path, b"", CreateMode::Ephemeral, &core.config.acls).await.expect("created");
        }
        let mut two = OwnedNode::expected(&session, &core.janitor, &"/".into(), "two".to_owned());
        two.created("/two".into());
        let handed = HandedOver::delete(&session, &"/one".into());
        two.delete(handed).await.expect("deleted");
        assert_eq!(session.exists("/two").await.expect("an answer"), None);
    }
}
