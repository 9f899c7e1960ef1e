//! Reads the node with a watch.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::backend::{self, Watch};
use crate::client::session::Session;
use crate::znode::Stat;

/// A node, as it was read.
pub(super) struct Seen {
    pub(super) data: Vec<u8>,
    pub(super) stat: Stat,
    pub(super) watch: Watch,
}

/// Reads the node; `None` if it does not exist. A read of the data leaves no watch then.
pub(super) fn look(session: &Arc<Session>, path: &str) -> BoxFuture<'static, Result<Option<Seen>, backend::Error>> {
    let seen = |read| match read {
        Ok((data, stat, watch)) => Ok(Some(Seen { data, stat, watch })),
        Err(backend::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    };
    session.watch_data(path).map(seen).boxed()
}
