//! The directories above a node.

use std::collections::VecDeque;
use std::sync::Arc;

use super::session::Session;
use crate::engine;
use crate::util::mutex::{Mutex, MutexGuard};
use crate::util::path::{ancestors, split};
use crate::util::znode::{Acl, CreateMode};

/// How many directories are remembered at most: the latest ones.
const MOST_MADE: usize = 1024;

/// The directories that this client has created, each with the transaction. To restart a counter, it deletes only
/// these.
#[derive(Debug, Default)]
pub(crate) struct Made(Mutex<VecDeque<(Arc<str>, i64)>>);

impl Made {
    pub(crate) fn note(&self, dir: &Arc<str>, czxid: i64) {
        let mut made = self.lock();
        made.retain(|(known, _)| known != dir);
        if made.len() == MOST_MADE {
            made.pop_front();
        }
        made.push_back((Arc::clone(dir), czxid));
    }

    /// Returns the transaction that created the directory, if this client did.
    pub(crate) fn by(&self, dir: &str) -> Option<i64> {
        self.lock().iter().find(|(known, _)| &**known == dir).map(|(_, czxid)| *czxid)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, i64)>> {
        self.0.lock()
    }
}

/// Creates `dir` and the missing directories above it as containers, which the server removes when they are empty, or
/// as persistent nodes if it does not support containers. Walks up no further than the first directory that exists, so
/// no permission is needed above it. Returns the transaction that created `dir`, unless `dir` existed.
pub(crate) async fn create(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<Option<i64>, engine::Error> {
    create_as(CreateMode::Container, session, dir, acls).await
}

/// Like [`create`], but it is no error if a directory is deleted between two steps: the caller's next request, which
/// needs `dir`, shows whether it exists.
pub(crate) async fn try_create(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<Option<i64>, engine::Error> {
    match create(session, dir, acls).await {
        Err(engine::Error::NoNode) => Ok(None),
        outcome => outcome,
    }
}

/// Like [`create`], but all missing directories are persistent: for a counter that must not restart, or data that must
/// stay.
pub(crate) async fn create_persistent(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<(), engine::Error> {
    create_as(CreateMode::Persistent, session, dir, acls).await.map(drop)
}

/// Ensures that `path` exists: as a persistent node with this data, if it is missing. Missing directories above it
/// become containers, as in Curator. It is harmless to repeat after a lost answer.
pub(crate) async fn ensure(session: &Arc<Session>, path: &str, data: &[u8], acls: &[Acl]) -> Result<(), engine::Error> {
    loop {
        match session.create(path, data, CreateMode::Persistent, acls).await {
            Ok(_) | Err(engine::Error::NodeExists) => return Ok(()),
            Err(engine::Error::NoNode) => drop(try_create(session, split(path).0, acls).await?),
            Err(error) => return Err(error),
        }
    }
}

async fn create_as(
    mut mode: CreateMode,
    session: &Arc<Session>,
    dir: &str,
    acls: &[Acl],
) -> Result<Option<i64>, engine::Error> {
    let all: Vec<&str> = ancestors(dir).collect();
    let mut depth = all.len();
    let mut made = None;
    while depth > 0 {
        match session.create(all[depth - 1], &[], mode, acls).await {
            Ok((_, stat)) => {
                made = (depth == all.len()).then_some(stat.czxid);
                break;
            }
            Err(engine::Error::NodeExists) => break,
            Err(engine::Error::NoNode) => depth -= 1,
            Err(engine::Error::Unimplemented(_) | engine::Error::BadArguments(_)) if mode == CreateMode::Container => {
                mode = CreateMode::Persistent;
            }
            Err(error) => return Err(error),
        }
    }
    if depth == 0 && (!all.is_empty() || session.exists("/").await?.is_none()) {
        // Not even the topmost could be created: the root of the connect string is missing.
        return Err(engine::Error::NoRoot);
    }
    for path in &all[depth..] {
        made = match session.create(path, &[], mode, acls).await {
            Ok((_, stat)) => Some(stat.czxid),
            Err(engine::Error::NodeExists) => None,
            Err(error) => return Err(error),
        };
    }
    Ok(made)
}
