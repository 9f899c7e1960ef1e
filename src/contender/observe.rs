//! Observes a line without a place in it: its first participant, and whether it has any.

use std::sync::Arc;

use super::participants::Participant;
use super::queue;
use crate::client::Error;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::engine::{self, Watch};
use crate::layout::line::number_of;
use crate::util::path::join;

/// Reads a line again whenever its first place may have changed, session after session.
#[derive(Debug)]
pub(crate) struct Observer {
    core: Arc<Core>,
    /// The directory, as the user names it.
    path: Arc<str>,
    /// The directory on the server.
    dir: Arc<str>,
    base: &'static str,
    pending: Option<Pending>,
}

/// A watch, and the connection on which it was armed.
#[derive(Debug)]
struct Pending {
    session: Arc<Session>,
    connection: u64,
    watch: Watch,
}

impl Observer {
    pub(crate) fn new(core: &Arc<Core>, path: &Arc<str>, base: &'static str) -> Self {
        let dir = core.full_path(path).into();
        Observer { core: Arc::clone(core), path: Arc::clone(path), dir, base, pending: None }
    }

    /// Returns the first of the line, or `None` if the line is empty: at once, and then whenever that may have changed.
    pub(crate) async fn first(&mut self) -> Result<Option<Participant>, Error> {
        loop {
            let (session, connection) = self.ready().await?;
            match self.watch_first(&session).await {
                Ok(Some((first, watch))) => {
                    self.pending = Some(Pending { session, connection, watch });
                    return Ok(first);
                }
                // The line changed between two requests.
                Ok(None) => {}
                Err(error) => self.wait_if_transient(error, &session, connection).await?,
            }
        }
    }

    /// Resolves when there is a participant in the line.
    pub(crate) async fn occupied(&mut self) -> Result<(), Error> {
        loop {
            let (session, connection) = self.ready().await?;
            let seen = match session.watch_children(&self.dir).await {
                Ok((children, ..)) if !self.is_empty(&children) => return Ok(()),
                Ok((_, _, watch)) => Ok(Some(watch)),
                Err(engine::Error::NoNode) => self.watch_missing(&session).await,
                Err(error) => Err(error),
            };
            match seen {
                Ok(watch) => self.pending = watch.map(|watch| Pending { session, connection, watch }),
                Err(error) => self.wait_if_transient(error, &session, connection).await?,
            }
        }
    }

    /// Waits until the line may have changed. Returns the session to read it with.
    async fn ready(&mut self) -> Result<(Arc<Session>, u64), Error> {
        if let Some(Pending { session, connection, watch }) = self.pending.take() {
            session.changed(watch, connection).await;
        }
        self.core.connected().await
    }

    async fn wait_if_transient(&self, error: engine::Error, session: &Session, connection: u64) -> Result<(), Error> {
        let failed = |error| Error::from_engine("observe the leader at", &self.path, error);
        session.wait_if_transient(error, connection).await.map_err(failed)
    }

    /// Reads the first of the line, after a sync: the server may lag behind what was seen before. `None` if the line
    /// changed meanwhile.
    async fn watch_first(&self, session: &Arc<Session>) -> Result<Option<(Option<Participant>, Watch)>, engine::Error> {
        let (sync, list) = (session.sync(&self.dir), session.list_children(&self.dir));
        let (sync, list) = futures::join!(sync, list);
        sync?;
        let empty = |watch: Option<Watch>| watch.map(|watch| (None, watch));
        let children = match list {
            Ok((children, _)) => children,
            Err(engine::Error::NoNode) => return self.watch_missing(session).await.map(empty),
            Err(error) => return Err(error),
        };
        let queue = queue(session, &self.dir, children, &[self.base]).await?;
        let Some(first) = queue.head() else { return self.watch_empty(session).await.map(empty) };
        match session.watch_data(&join(&self.dir, first)).await {
            Ok((data, stat, watch)) => {
                let first = Participant::new(&data, join(&self.path, first), &stat, queue.names());
                Ok(Some((Some(Participant { is_leader: true, ..first }), watch)))
            }
            Err(engine::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Watches a line without participants. `None` if it has one by now, or its directory was deleted.
    async fn watch_empty(&self, session: &Arc<Session>) -> Result<Option<Watch>, engine::Error> {
        match session.watch_children(&self.dir).await {
            Ok((children, _, watch)) => Ok(self.is_empty(&children).then_some(watch)),
            Err(engine::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Watches a directory that does not exist. `None` if it exists by now.
    async fn watch_missing(&self, session: &Arc<Session>) -> Result<Option<Watch>, engine::Error> {
        let (found, watch) = session.watch_exists(&self.dir).await?;
        Ok(found.is_none().then_some(watch))
    }

    fn is_empty(&self, children: &[String]) -> bool {
        children.iter().all(|name| number_of(name, &[self.base]).is_none())
    }
}
