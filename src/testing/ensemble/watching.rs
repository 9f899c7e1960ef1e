//! The watches that one server keeps for its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::tree::Tree;
use super::txn::Change;
use super::wire::ServerWatch;
use super::{ConnId, Zxid};
use crate::engine::Event;
use crate::util::path;

/// How a connection watches a path. The ways are independent of each other (since 3.9).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Ways {
    once: bool,
    persistent: bool,
    recursive: bool,
}

impl Ways {
    fn are_none(self) -> bool {
        self == Ways::default()
    }

    fn count(self) -> usize {
        usize::from(self.once) + usize::from(self.persistent) + usize::from(self.recursive)
    }
}

type Table = BTreeMap<Arc<str>, BTreeMap<ConnId, Ways>>;

/// An event for one connection.
pub(crate) type Fired = (ConnId, Arc<str>, Event);

/// The watches, by path. A watch on a node that does not exist yet is a data watch, too. A persistent watch is in both
/// tables; a recursive one is only in `data`, because it gets no events about lists of children.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: Table,
    children: Table,
}

impl Watches {
    pub(crate) fn add(&mut self, path: &str, watch: ServerWatch, conn: ConnId) {
        self.change(path, watch, conn, true);
    }

    /// Returns whether there was such a watch.
    pub(crate) fn remove(&mut self, path: &str, watch: ServerWatch, conn: ConnId) -> bool {
        let had = self.has(path, watch, conn);
        self.change(path, watch, conn, false);
        had
    }

    pub(crate) fn has(&self, path: &str, watch: ServerWatch, conn: ConnId) -> bool {
        let table = if watch == ServerWatch::Children { &self.children } else { &self.data };
        let ways = table.get(path).and_then(|conns| conns.get(&conn)).copied().unwrap_or_default();
        match watch {
            ServerWatch::Data | ServerWatch::Children => ways.once,
            ServerWatch::Persistent => ways.persistent,
            ServerWatch::Recursive => ways.recursive,
        }
    }

    fn change(&mut self, path: &str, watch: ServerWatch, conn: ConnId, on: bool) {
        let (data, children) = (&mut self.data, &mut self.children);
        match watch {
            ServerWatch::Data => set(data, path, conn, |ways| ways.once = on),
            ServerWatch::Children => set(children, path, conn, |ways| ways.once = on),
            ServerWatch::Persistent => {
                set(data, path, conn, |ways| ways.persistent = on);
                set(children, path, conn, |ways| ways.persistent = on);
            }
            ServerWatch::Recursive => set(data, path, conn, |ways| ways.recursive = on),
        }
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        for table in [&mut self.data, &mut self.children] {
            table.retain(|_, conns| {
                conns.remove(&conn);
                !conns.is_empty()
            });
        }
    }

    /// Counts watches. A persistent watch counts once, although it is in both tables.
    pub(crate) fn count(&self, mut counts: impl FnMut(ConnId) -> bool) -> usize {
        let data = self.data.values().flatten().map(|(conn, ways)| (conn, ways.count()));
        let children = self.children.values().flatten().map(|(conn, ways)| (conn, usize::from(ways.once)));
        data.chain(children).filter(|(conn, _)| counts(**conn)).map(|(_, count)| count).sum()
    }

    /// Returns how many connections watch how many paths.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let tables = || self.data.iter().chain(&self.children);
        let conns: BTreeSet<&ConnId> = tables().flat_map(|(_, conns)| conns.keys()).collect();
        let paths: BTreeSet<&Arc<str>> = tables().map(|(path, _)| path).collect();
        (conns.len(), paths.len())
    }

    /// Returns the events of a change, in the order in which the server sends them; they consume one-shot watches. A
    /// connection gets one event for a deleted node, even if it watched the node in several ways.
    pub(crate) fn trigger(&mut self, change: &Change) -> Vec<Fired> {
        let mut fired = Vec::new();
        match change {
            Change::Create { path, .. } => {
                take(&mut self.data, path, Event::NodeCreated, &mut fired);
                self.trigger_parent(path, &mut fired);
            }
            Change::Delete { path } => {
                take(&mut self.data, path, Event::NodeDeleted, &mut fired);
                let mut more = Vec::new();
                take(&mut self.children, path, Event::NodeDeleted, &mut more);
                more.retain(|(conn, ..)| !fired.iter().any(|(told, ..)| told == conn));
                fired.append(&mut more);
                self.trigger_parent(path, &mut fired);
            }
            Change::SetData { path, .. } => take(&mut self.data, path, Event::NodeDataChanged, &mut fired),
            Change::Check | Change::SetAcl { .. } | Change::SetSequence { .. } => {}
        }
        fired
    }

    fn trigger_parent(&mut self, path: &str, fired: &mut Vec<Fired>) {
        take(&mut self.children, path::split(path).0, Event::NodeChildrenChanged, fired);
    }

    /// Restores a watch after a reconnect. If the node has changed after `since`, returns the event instead. Nothing is
    /// replayed to persistent watches.
    pub(crate) fn restore(&mut self, tree: &Tree, lost: &Lost<'_>, conn: ConnId, since: Zxid) -> Option<Fired> {
        let (path, node) = (lost.path(), tree.get(lost.path()));
        let event = match (lost, node) {
            (Lost::Persistent(_) | Lost::Recursive(_), _) | (Lost::Exists(_), None) => None,
            (Lost::Exists(_), Some(_)) => Some(Event::NodeCreated),
            (_, None) => Some(Event::NodeDeleted),
            (Lost::Data(_), Some(node)) => (node.mzxid > since).then_some(Event::NodeDataChanged),
            (Lost::Children(_), Some(node)) => (node.pzxid > since).then_some(Event::NodeChildrenChanged),
        };
        match event {
            Some(event) => Some((conn, Arc::clone(path), event)),
            None => {
                self.add(path, lost.watch(), conn);
                None
            }
        }
    }
}

/// A watch that a client had on its last connection.
pub(crate) enum Lost<'a> {
    Data(&'a Arc<str>),
    Exists(&'a Arc<str>),
    Children(&'a Arc<str>),
    Persistent(&'a Arc<str>),
    Recursive(&'a Arc<str>),
}

impl Lost<'_> {
    fn path(&self) -> &Arc<str> {
        match self {
            Lost::Data(path)
            | Lost::Exists(path)
            | Lost::Children(path)
            | Lost::Persistent(path)
            | Lost::Recursive(path) => path,
        }
    }

    fn watch(&self) -> ServerWatch {
        match self {
            Lost::Data(_) | Lost::Exists(_) => ServerWatch::Data,
            Lost::Children(_) => ServerWatch::Children,
            Lost::Persistent(_) => ServerWatch::Persistent,
            Lost::Recursive(_) => ServerWatch::Recursive,
        }
    }
}

/// Returns a path and all paths above it, up to the root.
pub(crate) fn upwards(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| (path.len() > 1).then(|| path::split(path).0))
}

fn set(table: &mut Table, path: &str, conn: ConnId, change: impl FnOnce(&mut Ways)) {
    if !table.contains_key(path) {
        table.insert(Arc::from(path), BTreeMap::new());
    }
    let Some(conns) = table.get_mut(path) else { return };
    let ways = conns.entry(conn).or_default();
    change(ways);
    if ways.are_none() {
        conns.remove(&conn);
    }
    if conns.is_empty() {
        table.remove(path);
    }
}

/// Adds to `fired` an event for each connection that watches `path`, or watches recursively above it.
fn take(table: &mut Table, path: &str, event: Event, fired: &mut Vec<Fired>) {
    let mut hear = BTreeSet::new();
    if let Some(conns) = table.get_mut(path) {
        conns.retain(|conn, ways| {
            hear.insert(*conn);
            ways.once = false;
            !ways.are_none()
        });
        if conns.is_empty() {
            table.remove(path);
        }
    }
    for conns in upwards(path).skip(1).filter_map(|above| table.get(above)) {
        hear.extend(conns.iter().filter(|(_, ways)| ways.recursive).map(|(conn, _)| *conn));
    }
    if !hear.is_empty() {
        let path: Arc<str> = Arc::from(path);
        fired.extend(hear.into_iter().map(|conn| (conn, Arc::clone(&path), event)));
    }
}
