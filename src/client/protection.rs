//! Curator's protection: a recognizable name, by which a create whose answer was lost is found again.

use std::sync::Arc;

use uuid::Uuid;

use super::session::Session;
use crate::backend;

/// Returns the prefix of a protected node's name: `_c_<uuid>-` (40 bytes), as Curator writes it.
pub(crate) fn prefix(uuid: Uuid) -> String {
    format!("_c_{uuid}-")
}

/// Returns the child of `dir` whose name begins with `prefix`. The list follows a sync, as a server that lags may not
/// know the node yet.
pub(crate) async fn find(session: &Arc<Session>, dir: &str, prefix: &str) -> Result<Option<String>, backend::Error> {
    let (sync, list) = (session.sync(dir), session.list_children(dir));
    let (sync, list) = futures::join!(sync, list);
    sync?;
    match list {
        Ok((children, _)) => Ok(children.into_iter().find(|name| name.starts_with(prefix))),
        Err(backend::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_curators() {
        let prefix = prefix(Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert_eq!(prefix, "_c_01234567-89ab-cdef-0123-456789abcdef-");
        assert_eq!(prefix.len(), 40);
    }
}
