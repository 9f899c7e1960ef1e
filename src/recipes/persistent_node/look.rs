//! Who owns the node at the path, and how it is looked at.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::client::protection;
use crate::client::session::Session;
use crate::engine::{self, Watch};
use crate::util::path::join;
use crate::util::znode::Stat;

/// Who owns the node at the path, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// It is unknown: a create finds out.
    Unknown,
    /// It was ours when it was seen last.
    Ours { czxid: i64, version: i32 },
    /// Another session owned it when it was seen last.
    Foreign,
}

impl Ownership {
    /// Returns whether it is our node, and has the data that it had when it was seen last.
    pub(super) fn is_unchanged(self, stat: &Stat) -> bool {
        self == Ownership::Ours { czxid: stat.czxid, version: stat.version }
    }
}

/// A node, as it was seen.
pub(super) struct Seen {
    /// `None` if it was not read.
    pub(super) data: Option<Vec<u8>>,
    pub(super) stat: Stat,
    pub(super) watch: Watch,
}

/// Looks at the node and sets a watch. Returns `None`, without a watch, if the node does not exist.
///
/// An ephemeral node has no children, so a watch on its children reports only its end, and our writes do not use it up.
/// A lasting node may have many. With `watches_data` the watch is set on the data, which is read.
pub(super) fn look(
    session: &Arc<Session>,
    path: &str,
    watches_data: bool,
) -> BoxFuture<'static, Result<Option<Seen>, engine::Error>> {
    if watches_data {
        let seen = |(data, stat, watch)| Seen { data: Some(data), stat, watch };
        session.watch_data(path).map(move |read| if_present(read.map(seen))).boxed()
    } else {
        let seen = |(_, stat, watch)| Seen { data: None, stat, watch };
        session.watch_children(path).map(move |read| if_present(read.map(seen))).boxed()
    }
}

impl Seen {
    /// Reads the data, unless it was read; `None` if the node was deleted since.
    pub(super) async fn with_data(self, session: &Arc<Session>, path: &str) -> Result<Option<Seen>, engine::Error> {
        if self.data.is_some() {
            return Ok(Some(self));
        }
        let read = if_present(session.get_data(path).await)?;
        let same = read.filter(|(_, stat)| stat.czxid == self.stat.czxid);
        Ok(same.map(|(data, stat)| Seen { data: Some(data), stat, ..self }))
    }
}

/// Finds the numbered node whose name begins with this prefix.
pub(super) async fn find_numbered(
    session: &Arc<Session>,
    dir: &str,
    prefix: &str,
) -> Result<Option<(String, Stat)>, engine::Error> {
    let Some(name) = protection::find(session, dir, prefix).await? else { return Ok(None) };
    let path = join(dir, &name);
    let stat = session.exists(&path).await?;
    Ok(stat.map(|stat| (path, stat)))
}

fn if_present<T>(read: Result<T, engine::Error>) -> Result<Option<T>, engine::Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(engine::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
