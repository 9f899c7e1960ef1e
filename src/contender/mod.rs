//! One place in a line of sequential ephemeral nodes: enter, wait, hold, leave.
//!
//! Whoever stands first holds. Everybody else watches the node just before its own, so one change wakes one waiter. The
//! names are Curator's, so contenders of both kinds stand in one line.
//!
//! A contender is a value that is asked for its [news](Standing::next), by a task of its own or by the caller's; asking no
//! more and dropping it are safe at any await.
//!
//! What this adds to Curator's way:
//!
//! * a node counts as ours only if our live session owns it;
//! * the own node is watched by whoever will hold without another list, and while it holds: deleted by hand, we know. A
//!   waiter further back knows by its next list;
//! * a waiter whose predecessor was the head leads without asking again, but only if that node was *deleted* on a
//!   connection on which both nodes had been seen;
//! * what is held ends with the lease, by the clock. Only the first two of a line keep it warm.

mod enter;
mod hold;
#[cfg(any(feature = "leader-latch", feature = "leader-selector"))]
pub(crate) mod leadership;
mod left_behind;
mod look;
pub(crate) mod order;
#[cfg(any(feature = "leader-latch", feature = "leader-selector"))]
pub(crate) mod participants;
mod place;
mod standing;

use std::sync::Arc;

pub(crate) use self::hold::Hold;
pub(crate) use self::left_behind::LeftBehind;
pub(crate) use self::standing::{News, Standing};
use crate::backend;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Client, Error};
use crate::path::join;

/// What Curator writes into the node of a holder that is asked to let go.
pub(crate) const REVOKED: &[u8] = b"__REVOKE__";

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
    /// What stands in the way of entering.
    pub(crate) left_behind: LeftBehind,
}

impl Line {
    /// All bases that stand in the line.
    pub(crate) fn bases(&self) -> Vec<&str> {
        std::iter::once(self.base).chain(self.also_count.iter().map(String::as_str)).collect()
    }
}

/// How a place in line stands.
#[derive(Debug)]
enum State {
    /// Somebody stands before it.
    Behind,
    /// It is first, but the lease is not proven yet.
    Unproven,
    /// It is first, its session lives, and it knows so.
    Held(Hold),
    /// The connection is in doubt: what was held is given up; the node is kept.
    Suspended,
}

/// Why a contender lost its place, or could not have one.
#[derive(Debug)]
enum End {
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

/// The names in the line at `path`, in order; none if the directory does not exist.
pub(crate) async fn names(client: &Client, path: &str, bases: &[&str]) -> Result<Vec<String>, Error> {
    let look = |session: &Arc<Session>, full: &str| {
        let (session, dir) = (Arc::clone(session), full.to_owned());
        async move {
            let children = match session.list_children(&dir).await {
                Ok((children, _)) => children,
                Err(backend::Error::NoNode) => Vec::new(),
                Err(error) => return Err(error),
            };
            queue(&session, &dir, children, bases).await
        }
    };
    let core: &Core = client.core();
    Ok(core.read("list the participants of", path, look).await?.names().to_vec())
}
