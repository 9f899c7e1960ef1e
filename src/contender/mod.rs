//! One place in a line of sequential ephemeral nodes: enter, wait, hold, leave.
//!
//! Whoever stands first holds. Everybody else watches the node just before its own, so one change wakes one waiter. The
//! names are Curator's, so contenders of both kinds stand in one line.
//!
//! What this adds to Curator's way:
//!
//! * a node counts as ours only if our live session owns it;
//! * the own node is watched while we wait and while we hold: deleted by hand, we know;
//! * a waiter whose predecessor was the head leads without asking again, but only if that node was *deleted* on a
//!   connection on which both nodes had been seen;
//! * what is held ends with the lease, by the clock.

mod enter;
mod hold;
pub(crate) mod order;
mod stand;

use std::sync::Arc;

pub(crate) use self::hold::Hold;
pub(crate) use self::stand::{Left, stand};
use crate::backend;
use crate::client::Error;
use crate::client::session::Session;
use crate::path::join;

/// Where to stand, and under what name.
#[derive(Debug)]
pub(crate) struct Line {
    /// The directory on the server.
    pub(crate) dir: Arc<str>,
    /// What the own name ends in before the number: `latch-`, `lock-`.
    pub(crate) base: &'static str,
    /// Other bases that stand in the same line.
    pub(crate) also_count: Vec<String>,
    /// What the own node holds.
    pub(crate) data: Vec<u8>,
    /// Whether a holder that never had to wait watches its node all the same.
    pub(crate) watch_own: bool,
}

impl Line {
    fn bases(&self) -> Vec<&str> {
        std::iter::once(self.base).chain(self.also_count.iter().map(String::as_str)).collect()
    }
}

/// How a place stands.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Its node is being created.
    Entering,
    /// Somebody stands before it, or the lease is not proven yet.
    Waiting,
    /// It is first, its session lives, and it knows so.
    Held(Hold),
    /// The connection is in doubt: what was held is given up; the node is kept.
    Suspended,
}

/// Is told, on the contender's own task, how its place stands. Must not block.
pub(crate) trait Observer: Send {
    /// The own node, as soon as it is known.
    fn entered(&mut self, path: &Arc<str>);
    /// A change of state.
    fn changed(&mut self, state: State);
}

/// Why a contender left its place.
#[derive(Debug)]
pub(crate) enum End {
    /// It was asked to. The node, if any, is still there.
    Asked,
    /// Its session is over.
    SessionOver,
    /// Its node was deleted by somebody else.
    NodeGone,
    /// It could not enter, or see the line.
    Failed(Error),
}

/// The queue of a directory: its children in order, those whose number does not tell by the transaction that created
/// them.
pub(crate) async fn queue(
    session: &Arc<Session>,
    dir: &str,
    children: Vec<String>,
    bases: &[&str],
) -> Result<order::Queue, backend::Error> {
    let line = match order::Line::of(children, bases).into_queue() {
        Ok(queue) => return Ok(queue),
        Err(line) => line,
    };
    let asked: Vec<_> = line.unresolved().iter().map(|name| session.exists(&join(dir, name))).collect();
    let stats = futures::future::try_join_all(asked).await?;
    let mut stats = stats.into_iter();
    // `resolve` asks in the order of `unresolved`.
    Ok(line.resolve(|_| stats.next().flatten().map(|stat| stat.czxid)))
}

/// Gives a place up: deletes the node and waits until the server has. Near the end of the directory's counter it tries to
/// delete the directory too, so that the counter starts anew.
pub(crate) async fn leave(session: &Arc<Session>, line: &Line, left: Left) -> Result<(), backend::Error> {
    let Some(node) = left.node else { return Ok(()) };
    node.delete().await?;
    drop(left.own_watch);
    if left.near_exhaustion {
        // Somebody else stands there, or was faster: both are fine.
        let _ = session.delete(&line.dir, None).await;
    }
    Ok(())
}
