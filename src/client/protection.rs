//! Curator's protection: a recognizable name, by which the client finds the node of a create whose answer was lost.

use std::sync::Arc;

use super::session::Session;
use crate::engine;

/// Returns the child of `dir` whose name begins with `prefix`. Syncs before it lists, because a lagging server may not
/// know the node yet.
pub(crate) async fn find(session: &Arc<Session>, dir: &str, prefix: &str) -> Result<Option<String>, engine::Error> {
    let (sync, list) = (session.sync(dir), session.list_children(dir));
    let (sync, list) = futures::join!(sync, list);
    sync?;
    match list {
        Ok((children, _)) => Ok(children.into_iter().find(|name| name.starts_with(prefix))),
        Err(engine::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
