//! What the tracker has under way, and what it keeps for the next round.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::cache::change::Change;
use crate::cache::node::Content;
use crate::cache::nodes::Nodes;

/// A request to hand over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Job {
    /// Only the stat.
    Look(Arc<str>),
    /// Data and stat.
    Read(Arc<str>),
    List(Arc<str>),
}

impl Job {
    /// Returns the path that it concerns.
    pub(crate) fn path(&self) -> &str {
        match self {
            Job::Look(path) | Job::Read(path) | Job::List(path) => path,
        }
    }
}

/// How the servers report changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    /// One persistent watch: every created, written and deleted node is an event.
    Persistent,
    /// One-shot watches, armed by the reads.
    OneShot,
}

impl Watching {
    /// Returns whether a request that is handed over now does what the events up to now call for. A one-shot watch that
    /// has fired must be armed again, even if the node is missing.
    pub(super) fn serves<T>(self, ask: &Ask<T>) -> bool {
        match self {
            Watching::Persistent => !matches!(ask, Ask::LookOnly(_)),
            Watching::OneShot => !matches!(ask, Ask::Read),
        }
    }
}

/// A request for a node.
#[derive(Debug)]
pub(super) struct Reading<T> {
    pub(super) ask: Ask<T>,
    pub(super) progress: Progress,
    /// The children have not been followed by events since the node was created: they may have to be listed.
    pub(super) lists: bool,
}

#[derive(Debug)]
pub(super) enum Ask<T> {
    Look,
    Read,
    /// Only the stat, because the data cannot be read, for this reason.
    LookOnly(Content<T>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Queued,
    UnderWay,
    /// Under way, but the node was deleted meanwhile: the answer does not count.
    Void,
}

/// A list of children.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) progress: Progress,
    /// Children that came or went since it was handed over.
    pub(super) touched: HashSet<String>,
}

/// What an event calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Later {
    /// The node was created since the watch was armed, so its children are all reported.
    pub(super) seen_created: bool,
}

/// What has changed since the last time, and the nodes now.
#[derive(Debug)]
pub(crate) struct Published<T> {
    pub(crate) nodes: Nodes<T>,
    pub(crate) changes: Vec<Change<T>>,
    /// Nothing waits to be read: all nodes were as shown at one moment.
    pub(crate) is_settled: bool,
    /// The end of a comparison of everything.
    pub(crate) is_synced: bool,
}

/// Withdraws a request that is not handed over yet, or voids the answer to one that is. Returns how many requests are
/// no longer open.
pub(super) fn take_back<R>(
    requests: &mut HashMap<Arc<str>, R>,
    path: &str,
    progress: fn(&mut R) -> &mut Progress,
) -> usize {
    match requests.get_mut(path).map(progress) {
        Some(Progress::Queued) => {
            requests.remove(path);
            1
        }
        Some(progress) => {
            *progress = Progress::Void;
            0
        }
        None => 0,
    }
}
