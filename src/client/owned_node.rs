//! A node of our own, from the moment its create is handed over: whatever happens, somebody will delete it.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub(crate) use super::janitor::HandedOver;
use super::janitor::{Job, Target};
use super::session::Session;
use crate::backend::{self, Watch};
use crate::path::split;

/// The duty to delete one node. Dropping it hands the delete over at once, if there is a connection, and leaves the rest to the
/// janitor.
#[derive(Debug)]
pub(crate) struct OwnedNode {
    session: Arc<Session>,
    target: Target,
    /// The watch of the node, kept here so that it ends with the node.
    watch: Option<Watch>,
    restart_counter: Option<i64>,
    janitor: mpsc::UnboundedSender<Job>,
    duty: bool,
    /// The server would not delete it.
    refused: bool,
    /// Dropped with the duty.
    done: Option<oneshot::Sender<()>>,
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
        OwnedNode {
            session,
            target,
            watch: None,
            restart_counter: None,
            janitor,
            duty: true,
            refused: false,
            done: None,
        }
    }

    /// The node was created under this path.
    pub(crate) fn created(&mut self, path: Arc<str>) {
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

    /// The directory is to go with the node, if nobody else is in it and this transaction has made it: its counter is nearly
    /// used up.
    pub(crate) fn set_restart_counter(&mut self, made: Option<i64>) {
        self.restart_counter = made;
    }

    /// Leaves the node to the janitor: its name, and what resolves when it is gone.
    pub(crate) fn leave_behind(mut self) -> (String, oneshot::Receiver<()>) {
        let (done, gone) = oneshot::channel();
        self.done = Some(done);
        (self.target.to_string(), gone)
    }

    /// There is nothing to delete: the node was never created, or is known to be gone.
    pub(crate) fn gone(mut self) {
        self.duty = false;
    }

    /// Deletes the node and waits until the server has done it. If the session ends first, or the server refuses, that is an
    /// error, and the node is left to the janitor when this is dropped. `handed` is the first attempt, if it has left already.
    pub(crate) async fn delete(&mut self, mut handed: Option<HandedOver>) -> Result<(), backend::Error> {
        loop {
            let (connection, outcome) = if let Some(handed) = handed.take() {
                handed.outcome().await
            } else {
                match self.session.connected().await {
                    Ok(connection) => (connection, self.target.clean(&self.session).await),
                    Err(_) => return Err(backend::Error::SessionEnded),
                }
            };
            match outcome {
                Ok(None) => {
                    self.duty = false;
                    if let Some(made) = self.restart_counter {
                        self.target.delete_directory(&self.session, made).await;
                    }
                    return Ok(());
                }
                Ok(Some(found)) => self.target = found,
                Err(error) if error.is_passing() => {
                    // The next round looks at what came of it.
                    let _ = self.session.connected_after_loss(connection).await;
                }
                // The janitor tries again, ever more slowly.
                Err(error) => {
                    self.refused = true;
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if self.duty {
            // Now, and not when the janitor comes to it: the next create of this session must not stand behind the node.
            let handed = match &self.target {
                Target::Path(path) if !self.refused => HandedOver::delete(&self.session, path),
                _ => None,
            };
            let job = Job {
                session: Arc::clone(&self.session),
                target: self.target.clone(),
                handed,
                watch: self.watch.take(),
                restart_counter: self.restart_counter,
                done: self.done.take(),
            };
            // The janitor is gone only when the client is closed, and the node with it.
            let _ = self.janitor.send(job);
        }
    }
}
