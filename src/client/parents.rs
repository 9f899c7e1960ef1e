//! The directories above a node.

use std::sync::Arc;

use super::session::Session;
use crate::backend;
use crate::path::ancestors;
use crate::types::{Acl, CreateMode};

/// Creates `dir` and what is missing above it as containers, which the server removes when they are empty; as persistent
/// nodes where it knows no containers. Walks up no further than the first directory that exists, so no permission is
/// needed above it.
pub(crate) async fn create(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<(), backend::Error> {
    create_as(CreateMode::Container, session, dir, acls).await
}

/// As [`create`], but all that is missing is created to stay: where a counter must not start anew, or data must not go.
pub(crate) async fn create_persistent(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<(), backend::Error> {
    create_as(CreateMode::Persistent, session, dir, acls).await
}

async fn create_as(
    mut mode: CreateMode,
    session: &Arc<Session>,
    dir: &str,
    acls: &[Acl],
) -> Result<(), backend::Error> {
    let all: Vec<&str> = ancestors(dir).collect();
    let mut depth = all.len();
    while depth > 0 {
        match session.create(all[depth - 1], &[], mode, acls).await {
            Ok(_) | Err(backend::Error::NodeExists) => break,
            Err(backend::Error::NoNode) => depth -= 1,
            Err(backend::Error::Unimplemented | backend::Error::BadArguments(_)) if mode == CreateMode::Container => {
                mode = CreateMode::Persistent;
            }
            Err(error) => return Err(error),
        }
    }
    if depth == 0 {
        // Not even the topmost could be created: the root of the connect string is missing.
        return Err(backend::Error::NoRoot);
    }
    for path in &all[depth..] {
        match session.create(path, &[], mode, acls).await {
            Ok(_) | Err(backend::Error::NodeExists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
