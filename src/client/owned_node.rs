//! A node of our own, from the moment its create is handed over: whatever happens, somebody will delete it.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::janitor::{Job, Target};
use super::session::Session;
use crate::backend::{self, Watch};
use crate::path::split;

/// The duty to delete one node. Dropping it leaves the deletion to the janitor.
#[derive(Debug)]
pub(crate) struct OwnedNode {
    session: Arc<Session>,
    target: Target,
    /// The watch of the node, kept here so that it ends with the node.
    watch: Option<Watch>,
    restart_counter: bool,
    janitor: mpsc::UnboundedSender<Job>,
    duty: bool,
}

impl OwnedNode {
    /// A node whose create is about to be handed over.
    pub(crate) fn expected(
        session: &Arc<Session>,
        janitor: &mpsc::UnboundedSender<Job>,
        dir: &Arc<str>,
        prefix: String,
    ) -> Self {
        let target = Target::Prefix { dir: Arc::clone(dir), prefix };
        let (session, janitor) = (Arc::clone(session), janitor.clone());
        OwnedNode { session, target, watch: None, restart_counter: false, janitor, duty: true }
    }

    /// The node was created under this path.
    pub(crate) fn created(&mut self, path: Arc<str>) {
        self.session.add_own_node(&path);
        self.target = Target::Path(path);
    }

    /// The path, once it is known.
    pub(crate) fn path(&self) -> Option<&Arc<str>> {
        match &self.target {
            Target::Path(path) => Some(path),
            Target::Prefix { .. } => None,
        }
    }

    /// The last element of the path.
    pub(crate) fn name(&self) -> &str {
        self.path().map_or("", |path| split(path).1)
    }

    /// The watch of the node, if it is armed.
    pub(crate) fn watch(&mut self) -> &mut Option<Watch> {
        &mut self.watch
    }

    /// Whether the directory is to go with the node, if nobody else is in it: its counter is nearly used up.
    pub(crate) fn set_restart_counter(&mut self, restart: bool) {
        self.restart_counter = restart;
    }

    pub(crate) fn restarts_counter(&self) -> bool {
        self.restart_counter
    }

    /// There is nothing to delete: the node was never created, or is known to be gone.
    pub(crate) fn gone(mut self) {
        self.duty = false;
    }

    /// Deletes the node and waits until the server has done it. If the session ends first, or the server refuses, that is an
    /// error, and the node is left to the janitor.
    pub(crate) async fn delete(mut self) -> Result<(), backend::Error> {
        loop {
            let connection = match self.session.connected().await {
                Ok(connection) => connection,
                Err(_) => return Err(backend::Error::SessionEnded),
            };
            match self.target.clean(&self.session).await {
                Ok(None) => {
                    self.duty = false;
                    if self.restart_counter {
                        self.target.delete_directory(&self.session).await;
                    }
                    return Ok(());
                }
                Ok(Some(found)) => self.target = found,
                Err(error) if error.is_passing() => {
                    // The next round looks at what came of it.
                    let _ = self.session.connected_after_loss(connection).await;
                }
                // The janitor tries again, ever more slowly.
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if let Target::Path(path) = &self.target {
            self.session.remove_own_node(path);
        }
        if self.duty {
            let job = Job {
                session: Arc::clone(&self.session),
                target: self.target.clone(),
                watch: self.watch.take(),
                restart_counter: self.restart_counter,
            };
            // The janitor is gone only when the client is closed, and the node with it.
            let _ = self.janitor.send(job);
        }
    }
}
