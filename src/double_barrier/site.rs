//! Where the members of a barrier meet, and what they all do there in the same way.
//!
//! ```text
//! <path>          its data version is the number of the gate: whoever opens or ends a round turns it on by one
//! <path>/<uuid>   one a member, ephemeral; a new name each time it enters
//! <path>/ready    persistent; there while a round is open
//! ```
//!
//! Two facts decide everything. *Who is in the round*: every node that is older than `ready`, and every younger one that
//! was written to (its data version is not 0): it came late, and was let in. *Whether a decision still stands*: the
//! number of the gate, which every transaction that opens or ends a round, or depends on there being none, compares.

use std::fmt;
use std::sync::Arc;

use crate::backend::{self, Multi, Op};
use crate::client::core::Core;
use crate::client::session::Session;
use crate::types::Stat;

/// The name of the node that says that a round is open: Curator's.
pub(super) const READY: &str = "ready";

/// Where the members meet.
pub(super) struct Site {
    pub(super) core: Arc<Core>,
    /// The path as the user names it.
    pub(super) path: Arc<str>,
    /// The same on the server.
    pub(super) dir: Arc<str>,
    /// `ready` on the server.
    pub(super) ready: Arc<str>,
    /// How many must be there for a round to open.
    pub(super) members: usize,
    /// What the own node holds.
    pub(super) data: Vec<u8>,
}

/// Who is there, as one list tells.
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

    /// The number of the gate, and of which incarnation of the directory.
    pub(super) fn gate(&self) -> Gate {
        Gate::of(&self.stat)
    }
}

/// The number of the gate at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate {
    czxid: i64,
    version: i32,
}

impl Gate {
    pub(super) fn of(directory: &Stat) -> Self {
        Gate { czxid: directory.czxid, version: directory.version }
    }
}

impl Site {
    /// The path of a child on the server.
    pub(super) fn child(&self, name: &str) -> String {
        crate::path::join(&self.dir, name)
    }

    /// Who is there. `own` is the name of our node.
    pub(super) async fn view(&self, session: &Arc<Session>, own: &str) -> Result<View, backend::Error> {
        let (children, stat) = session.list_children(&self.dir).await?;
        Ok(View::new(children, stat, own))
    }

    /// Turns the gate on by one, if it is at this number. What the directory holds is kept.
    pub(super) async fn turn(&self, session: &Arc<Session>, stat: &Stat) -> Result<Op, backend::Error> {
        let data = match stat.data_length {
            0 => Vec::new(),
            // Changed since, its version is another one, and nothing will be written.
            _ => session.get_data(&self.dir).await?.0,
        };
        Ok(Op::SetData { path: self.dir.to_string(), data, version: Some(stat.version) })
    }

    /// Ends a round of which nobody is left, as far as this view tells: `ready` goes. False if something has changed since.
    /// `own` is our node, if it stands: it goes with the directory, so another one of the same number is not taken for it.
    pub(super) async fn remove_ready(
        &self,
        session: &Arc<Session>,
        stat: &Stat,
        own: Option<&str>,
    ) -> Result<bool, backend::Error> {
        let mut ops = vec![self.turn(session, stat).await?];
        ops.push(Op::Delete { path: self.ready.to_string(), version: None });
        ops.extend(own.map(|path| Op::Check { path: path.to_owned(), version: None }));
        commit(session, ops).await
    }
}

/// Whether the steps were done; false if they depended on something that is no longer so.
pub(super) async fn commit(session: &Arc<Session>, ops: Vec<Op>) -> Result<bool, backend::Error> {
    match session.multi(ops).await? {
        Multi::Committed(_) => Ok(true),
        Multi::Refused { error, .. } => match error {
            backend::Error::NoNode | backend::Error::NodeExists | backend::Error::BadVersion => Ok(false),
            error => Err(error),
        },
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("path", &self.path).field("members", &self.members).finish_non_exhaustive()
    }
}
