//! What entering and leaving share: a view of the znodes, and steps on them. Their names are in the layout.
//!
//! Opening a round and ending it each raise the generation number, the data version of the node at the path, by one.
//!
//! Two facts decide everything. *Who is in the round*: every node that is older than `ready`, and every younger node
//! that was written to (its data version is not 0), whose member arrived late and joined. *Whether a decision is still
//! valid*: every transaction that depends on the state of the round checks the generation number.

use std::fmt;
use std::sync::Arc;

use crate::client::core::Core;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op};
use crate::layout::double_barrier::READY;
use crate::util::znode::Stat;

/// The znodes of one barrier.
pub(super) struct Znodes {
    pub(super) core: Arc<Core>,
    /// The path as the caller gave it.
    pub(super) path: Arc<str>,
    /// The same on the server.
    pub(super) dir: Arc<str>,
    /// `ready` on the server.
    pub(super) ready: Arc<str>,
    /// How many members must have arrived for a round to open.
    pub(super) members: usize,
    /// The data of this member's node.
    pub(super) data: Vec<u8>,
}

/// The members that one listing shows.
#[derive(Debug)]
pub(super) struct View {
    /// All members but ourselves, by name.
    pub(super) others: Vec<String>,
    /// Whether our own node is among the children.
    pub(super) own: bool,
    /// Whether there is a `ready`.
    pub(super) ready: bool,
    /// The stat of the directory.
    pub(super) stat: Stat,
}

impl View {
    pub(super) fn new(mut children: Vec<String>, stat: Stat, own: &str) -> Self {
        let count = children.len();
        children.retain(|name| name != READY);
        let ready = children.len() < count;
        let count = children.len();
        children.retain(|name| name != own);
        let own = children.len() < count;
        children.sort_unstable();
        View { others: children, own, ready, stat }
    }

    /// Returns the generation number, and which incarnation of the directory it belongs to.
    pub(super) fn generation(&self) -> Generation {
        Generation::of(&self.stat)
    }
}

/// The generation at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    czxid: i64,
    version: i32,
}

impl Generation {
    pub(super) fn of(directory: &Stat) -> Self {
        Generation { czxid: directory.czxid, version: directory.version }
    }
}

impl Znodes {
    /// Returns the path of a child on the server.
    pub(super) fn child(&self, name: &str) -> String {
        crate::util::path::join(&self.dir, name)
    }

    /// Lists the members. `own` is the name of our node.
    pub(super) async fn view(&self, session: &Arc<Session>, own: &str) -> Result<View, engine::Error> {
        let (children, stat) = session.list_children(&self.dir).await?;
        Ok(View::new(children, stat, own))
    }

    /// Returns the step that raises the generation by one, if it still has this number. Keeps the directory's data.
    pub(super) async fn advance_generation(&self, session: &Arc<Session>, stat: &Stat) -> Result<Op, engine::Error> {
        let data = match stat.data_length {
            0 => Vec::new(),
            // If it changes meanwhile, its version differs and nothing is written.
            _ => session.get_data(&self.dir).await?.0,
        };
        Ok(Op::SetData { path: self.dir.to_string(), data, version: Some(stat.version) })
    }

    /// Deletes `ready`, which ends a round that has no members left in this view. Returns false if something has
    /// changed since. `own` is our node, if it exists. It disappears with the directory, so checking it distinguishes a
    /// new directory with the same generation number from this one.
    pub(super) async fn remove_ready(
        &self,
        session: &Arc<Session>,
        stat: &Stat,
        own: Option<&str>,
    ) -> Result<bool, engine::Error> {
        let mut ops = vec![self.advance_generation(session, stat).await?];
        ops.push(Op::Delete { path: self.ready.to_string(), version: None });
        ops.extend(own.map(|path| Op::Check { path: path.to_owned(), version: None }));
        commit(session, ops).await
    }
}

/// Commits the steps. Returns false if they depended on something that has changed.
pub(super) async fn commit(session: &Arc<Session>, ops: Vec<Op>) -> Result<bool, engine::Error> {
    match session.multi(ops).await? {
        Multi::Committed(_) => Ok(true),
        Multi::Refused { error, .. } => match error {
            engine::Error::NoNode | engine::Error::NodeExists | engine::Error::BadVersion => Ok(false),
            error => Err(error),
        },
    }
}

impl fmt::Debug for Znodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Znodes").field("path", &self.path).field("members", &self.members).finish_non_exhaustive()
    }
}
