//! The directories of a queue: persistent, as numbers and claims must survive a moment of emptiness.

use std::sync::Arc;

use crate::backend;
use crate::client::parents;
use crate::client::session::Session;
use crate::path::split;
use crate::types::{Acl, CreateMode};

/// Sees to it that the directory exists; what is missing above it becomes containers, as by Curator.
pub(super) async fn make(session: &Arc<Session>, dir: &str, acls: &[Acl]) -> Result<(), backend::Error> {
    loop {
        match session.create(dir, &[], CreateMode::Persistent, acls).await {
            Ok(_) | Err(backend::Error::NodeExists) => return Ok(()),
            Err(backend::Error::NoNode) => match parents::create(session, split(dir).0, acls).await {
                // A parent can be taken away between two steps.
                Ok(_) | Err(backend::Error::NoNode) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}
