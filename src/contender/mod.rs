//! A place in a line of sequential ephemeral nodes: enter, wait, hold, leave.
//!
//! The first contender holds. Every other one watches the node just before its own, so one change wakes one waiter. The names
//! are Curator's, so contenders of both kinds share one line.
//!
//! A contender is a value whose [news](Standing::next) its own task or the caller's awaits. It can be dropped, or no longer
//! awaited, safely at any await.
//!
//! What this adds to Curator's recipe:
//!
//! * a node counts as ours only if our live session owns it;
//! * a contender watches its own node if it will hold without another list, and while it holds if its recipe asks for that:
//!   it notices a deletion by hand. A waiter further back notices it with its next list;
//! * a waiter whose predecessor was the head leads without another request, but only if that node was *deleted* on a
//!   connection on which both nodes had been seen;
//! * what is held ends with the lease, by the clock. Only the first two of a line send heartbeats; every other
//!   waiter proves the lease together with its list, if need be.

mod enter;
mod hold;
#[cfg(any(feature = "leader-latch", feature = "leader-selector"))]
pub(crate) mod leadership;
#[cfg(any(feature = "leader-latch", feature = "mutex"))]
mod leaving;
mod left_behind;
mod look;
pub(crate) mod order;
#[cfg(any(feature = "leader-latch", feature = "leader-selector"))]
pub(crate) mod participants;
mod place;
mod standing;

use std::sync::Arc;

pub(crate) use self::hold::Hold;
#[cfg(any(feature = "leader-latch", feature = "mutex"))]
pub(crate) use self::leaving::Leaving;
pub(crate) use self::left_behind::LeftBehind;
pub(crate) use self::standing::{News, Standing};
use crate::backend;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Client, Error};
use crate::path::join;

/// What Curator writes into the node of a holder that is asked to release.
pub(crate) const REVOKED: &[u8] = b"__REVOKE__";

/// The line to enter, and the name to enter it with.
#[derive(Debug)]
pub(crate) struct Line {
    /// The directory on the server.
    pub(crate) dir: Arc<str>,
    /// What the name of our node ends in before the number: `latch-`, `lock-`.
    pub(crate) base: &'static str,
    /// Other bases that belong to the same line.
    pub(crate) also_count: Vec<String>,
    /// The data of our node.
    pub(crate) data: Vec<u8>,
    /// Whether a holder that never had to wait watches its node, too.
    pub(crate) watch_own: bool,
    /// The nodes that block another entry.
    pub(crate) left_behind: LeftBehind,
}

impl Line {
    /// Returns all bases that belong to the line.
    pub(crate) fn bases(&self) -> Vec<&str> {
        std::iter::once(self.base).chain(self.also_count.iter().map(String::as_str)).collect()
    }
}

/// The state of a place in the line.
#[derive(Debug)]
enum State {
    /// Another contender is before it.
    Behind,
    /// It is first, but the lease is not proven yet.
    Unproven,
    /// It is first, and its session is known to be alive.
    Held(Hold),
    /// The connection is in doubt: what was held is given up; the node is kept.
    Suspended,
}

/// Why a contender lost its place, or could not get one.
#[derive(Debug)]
enum End {
    /// Its session has ended.
    SessionOver,
    /// Another client deleted its node.
    NodeGone,
    /// It could not enter, or read the line.
    Failed(Error),
}

/// Returns the queue of a directory: its children in order. Where the number does not decide, the transaction that created
/// them does.
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

/// Returns the names in the line at `path`, in order; none if the directory does not exist.
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
