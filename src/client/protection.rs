//! Curator's protection: a recognizable name, by which a create whose answer was lost is found again.

use std::sync::Arc;

use super::session::Session;
use crate::engine;

/// Returns the child of `dir` whose name begins with `prefix`. The list follows a sync, as a server that lags may not
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
