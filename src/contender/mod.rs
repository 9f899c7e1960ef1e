//! Contenders: each keeps a place in a line of sequential ephemeral nodes. It enters, waits, holds and leaves.
//!
//! The first contender holds. Every other one watches the node just before its own, so one change wakes one waiter. (A
//! reader holds beside other readers, and watches the nearest writer before it: see [`Rule`].) The names are Curator's,
//! so contenders of both kinds share one line.
//!
//! A contender is a value: its own task, or the caller's, awaits its [next state](Contender::next). It can be dropped,
//! or no longer awaited, at any await.
//!
//! This adds to Curator's recipe:
//!
//! * A node counts as ours only if our live session owns it.
//! * A contender watches its own node if it will hold without another list, and, if its recipe asks for it, while it
//!   holds. So it notices a deletion by another client. A waiter further back notices it with its next list.
//! * A waiter whose predecessor was the last one ahead holds without another request, but only if that node was
//!   *deleted* on a connection on which both nodes had been seen.
//! * A hold ends with the lease, by the clock. Only the first two in line send heartbeats. Every other waiter proves
//!   the lease together with its list if that is needed.

pub(crate) mod acquire;
#[allow(clippy::module_inception)]
mod contender;
mod downgrade;
mod entry;
pub(crate) mod held;
pub(crate) mod held_together;
mod hold;
pub(crate) mod leadership;
mod leaving;
mod left_behind;
pub(crate) mod lock;
pub(crate) mod measure;
pub(crate) mod observe;
pub(crate) mod order;
pub(crate) mod participants;
mod place;
mod position;
pub(crate) mod revoke;

use std::sync::Arc;

pub(crate) use self::contender::Contender;
pub(crate) use self::hold::Hold;
pub(crate) use self::leaving::Leaving;
use self::left_behind::LeftBehind;
pub(crate) use self::order::Rule;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Client, Error};
use crate::engine;
use crate::util::path::join;

/// The line to enter, and the node to enter it with.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The directory on the server.
    pub(crate) dir: Arc<str>,
    /// The end of our node's name before the number: `latch-`, `lock-`.
    pub(crate) base: &'static str,
    /// Other bases that belong to the same line.
    pub(crate) also_count: Vec<String>,
    /// What it waits for.
    pub(crate) rule: Rule,
    /// The data of our node.
    pub(crate) data: Vec<u8>,
    /// Whether a holder that did not have to wait watches its node too.
    pub(crate) watch_own: bool,
    /// Whether Curator's mark in the data of our node asks the holder to release. An election has no such mark.
    pub(crate) takes_mark: bool,
    /// Nodes of earlier attempts that prevent another entry.
    pub(crate) left_behind: LeftBehind,
}

impl Spec {
    /// Returns the line of an election at `path`, for a participant with this id.
    pub(crate) fn of_participant(core: &Core, path: &str, base: &'static str, id: &str) -> Self {
        Spec {
            dir: core.full_path(path).into(),
            base,
            also_count: Vec::new(),
            rule: Rule::Alone,
            data: id.as_bytes().to_vec(),
            watch_own: true,
            takes_mark: false,
            left_behind: LeftBehind::default(),
        }
    }

    /// Returns the line of a lock in this directory, for contenders under this rule.
    pub(crate) fn of_lock(dir: String, base: &'static str, also_count: Vec<String>, rule: Rule, data: Vec<u8>) -> Self {
        let (dir, left_behind) = (dir.into(), LeftBehind::default());
        Spec { dir, base, also_count, rule, data, watch_own: false, takes_mark: true, left_behind }
    }

    /// Returns nodes in this directory that hold when their recipe admits them.
    pub(crate) fn counted(dir: String, base: &'static str, data: Vec<u8>) -> Self {
        Spec::of_lock(dir, base, Vec::new(), Rule::Counted, data)
    }

    /// Returns all bases that belong to the line.
    pub(crate) fn bases(&self) -> Vec<&str> {
        std::iter::once(self.base).chain(self.also_count.iter().map(String::as_str)).collect()
    }
}

/// The state of a contender.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// It is creating its node.
    Entering,
    /// It has a node, at this path on the server, and does not know its position yet.
    Entered(Arc<str>),
    /// Another contender is before it.
    Behind,
    /// It is first, but the lease is not proven yet.
    Unproven,
    /// It is first, and its session is known to be alive.
    Held(Hold),
    /// The connection may be lost. The hold has ended, and the node is kept.
    Suspended,
    /// Its place is lost: the session ended, or another client deleted the node. It takes a new place.
    Lost,
    /// It could not enter or read the line. It retries with growing delays.
    Failed(Error),
    /// The client was closed. No other state follows.
    Closed,
}

impl State {
    /// Returns the name of the state, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Entering => "entering",
            State::Entered(_) => "entered",
            State::Behind => "behind",
            State::Unproven => "unproven",
            State::Held(_) => "held",
            State::Suspended => "suspended",
            State::Lost => "lost",
            State::Failed(_) => "failed",
            State::Closed => "closed",
        }
    }

    /// Returns the path of a new node on the server, for the log.
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            State::Entered(node) => Some(node),
            _ => None,
        }
    }
}

/// Why a contender lost its place, or could not get one.
#[derive(Debug)]
enum End {
    /// Its session has ended.
    SessionOver,
    /// Another client deleted its node.
    NodeGone,
    /// It could not enter or read the line.
    Failed(Error),
}

/// Returns the queue of a directory: its children in order. If the number of a node does not decide, the transaction
/// that created it does.
pub(crate) async fn queue(
    session: &Arc<Session>,
    dir: &str,
    children: Vec<String>,
    bases: &[&str],
) -> Result<order::Queue, engine::Error> {
    let line = match order::Listing::of(children, bases).into_queue() {
        Ok(queue) => return Ok(queue),
        Err(line) => line,
    };
    let asked: Vec<_> = line.unresolved().iter().map(|name| session.exists(&join(dir, name))).collect();
    let stats = futures::future::try_join_all(asked).await?;
    let mut stats = stats.into_iter();
    // `resolve` asks in the order of `unresolved`.
    Ok(line.resolve(|_| stats.next().flatten().map(|stat| stat.czxid)))
}

/// Returns the names in the line at `path`, in order. If the directory does not exist, there are none.
pub(crate) async fn names(client: &Client, path: &str, bases: &[&str]) -> Result<Vec<String>, Error> {
    let look = |session: &Arc<Session>, full: &str| {
        let (session, dir) = (Arc::clone(session), full.to_owned());
        async move {
            let children = match session.list_children(&dir).await {
                Ok((children, _)) => children,
                Err(engine::Error::NoNode) => Vec::new(),
                Err(error) => return Err(error),
            };
            queue(&session, &dir, children, bases).await
        }
    };
    let core: &Core = client.core();
    Ok(core.read("list the participants of", path, look).await?.names().to_vec())
}
