//! A member's own nodes: the one that shows that it is present, and those of the partitions that it holds.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};

use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{self, parents};
use crate::engine;
use crate::layout::partition_assigner::{KAZOO, Paths};
use crate::util::znode::CreateMode;

/// How many requests are under way at once.
pub(in crate::recipes::partition_assigner) const AT_ONCE: usize = 256;

/// Creates and deletes the nodes of members.
#[derive(Debug, Clone)]
pub(in crate::recipes::partition_assigner) struct Registrar {
    pub(in crate::recipes::partition_assigner) core: Arc<Core>,
    pub(in crate::recipes::partition_assigner) paths: Arc<Paths>,
}

/// Why there is no registration.
#[derive(Debug)]
pub(super) enum Failed {
    SessionOver,
    Refused(client::Error),
}

impl Registrar {
    /// Returns a registration that no other has.
    pub(super) fn draw(&self) -> String {
        format!("{:016x}", self.core.random.uuid().as_u64_pair().0)
    }

    /// Creates the node at `path`, and the directories if they are missing. No other client creates that node, so the
    /// same create can be sent again after a lost answer.
    pub(super) async fn register(&self, session: &Arc<Session>, path: &str, data: &[u8]) -> Result<(), Failed> {
        let create = || async move {
            loop {
                match session.create(path, data, CreateMode::Ephemeral, &self.core.config.acls).await {
                    Ok(_) | Err(engine::Error::NodeExists) => return Ok(()),
                    Err(engine::Error::NoNode) => self.directories(session).await?,
                    Err(error) => return Err(error),
                }
            }
        };
        match session.retry_while_transient(create).await {
            Ok(()) => Ok(()),
            Err(engine::Error::SessionEnded) => Err(Failed::SessionOver),
            Err(error) => Err(Failed::Refused(client::Error::from_engine("register at", &self.paths.base, error))),
        }
    }

    /// Creates all directories, and the nodes that operators and leaders write.
    pub(in crate::recipes::partition_assigner) async fn directories(
        &self,
        session: &Arc<Session>,
    ) -> Result<(), engine::Error> {
        let Paths { members, assignments, owned, config, epoch, .. } = &*self.paths;
        for dir in [members, assignments, owned, config, epoch] {
            parents::create_persistent(session, dir, &self.core.config.acls).await?;
        }
        Ok(())
    }

    /// Returns the node that shows that kazoo's `SetPartitioner` uses the path, if there is one.
    pub(in crate::recipes::partition_assigner) async fn foreign(
        &self,
        session: &Arc<Session>,
    ) -> Result<Option<&'static str>, engine::Error> {
        match session.list_children(&self.paths.root).await {
            Ok((names, _)) => Ok(KAZOO.into_iter().find(|foreign| names.iter().any(|name| name == foreign))),
            Err(engine::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes nodes of earlier registrations, whose names no other node ever has.
    pub(super) async fn remove(&self, session: &Arc<Session>, nodes: &[Arc<str>]) -> Result<(), client::Error> {
        let delete = |node: Arc<str>| async move {
            match session.delete(&node, None).await {
                Ok(()) | Err(engine::Error::NoNode) => Ok(()),
                Err(error) => Err(error),
            }
        };
        // After a lost answer, all of them are deleted again.
        let remove = || {
            let all: Vec<Arc<str>> = nodes.to_vec();
            futures::stream::iter(all.into_iter().map(delete)).buffered(AT_ONCE).try_collect()
        };
        match session.retry_while_transient(remove).await {
            Ok(()) | Err(engine::Error::SessionEnded) => Ok(()),
            Err(error) => Err(client::Error::from_engine("delete a member's nodes in", &self.paths.base, error)),
        }
    }
}
