//! The watches that one server keeps for its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::tree::Tree;
use super::txn::Change;
use super::{ConnId, Zxid};
use crate::backend::Event;
use crate::path;

type Table = BTreeMap<Arc<str>, BTreeSet<ConnId>>;

/// An event for one connection.
pub(super) type Fired = (ConnId, Arc<str>, Event);

/// One-shot watches. A watch on a node that does not exist (yet) is a data watch too.
#[derive(Debug, Default)]
pub(super) struct Watches {
    data: Table,
    children: Table,
}

impl Watches {
    pub(super) fn add(&mut self, path: &str, children: bool, conn: ConnId) {
        let table = if children { &mut self.children } else { &mut self.data };
        table.entry(Arc::from(path)).or_default().insert(conn);
    }

    pub(super) fn remove(&mut self, path: &str, children: bool, conn: ConnId) {
        let table = if children { &mut self.children } else { &mut self.data };
        if let Some(conns) = table.get_mut(path) {
            conns.remove(&conn);
            if conns.is_empty() {
                table.remove(path);
            }
        }
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        for table in [&mut self.data, &mut self.children] {
            table.retain(|_, conns| {
                conns.remove(&conn);
                !conns.is_empty()
            });
        }
    }

    pub(super) fn count(&self, mut counts: impl FnMut(ConnId) -> bool) -> usize {
        let tables = self.data.values().chain(self.children.values());
        tables.flatten().filter(|conn| counts(**conn)).count()
    }

    /// Takes the watches that a change triggers, in the order in which the server sends their events. A connection hears
    /// once that a node was deleted, however it watched it.
    pub(super) fn trigger(&mut self, change: &Change) -> Vec<Fired> {
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
            Change::Check | Change::SetSequence { .. } => {}
        }
        fired
    }

    fn trigger_parent(&mut self, path: &str, fired: &mut Vec<Fired>) {
        take(&mut self.children, path::split(path).0, Event::NodeChildrenChanged, fired);
    }

    /// Restores a watch after a reconnect: if the node changed after `since`, that is an event at once.
    pub(super) fn restore(&mut self, tree: &Tree, lost: &Lost<'_>, conn: ConnId, since: Zxid) -> Option<Fired> {
        let (path, node) = (lost.path(), tree.get(lost.path()));
        let event = match (lost, node) {
            (Lost::Exists(_), Some(_)) => Some(Event::NodeCreated),
            (Lost::Exists(_), None) => None,
            (_, None) => Some(Event::NodeDeleted),
            (Lost::Data(_), Some(node)) => (node.mzxid > since).then_some(Event::NodeDataChanged),
            (Lost::Children(_), Some(node)) => (node.pzxid > since).then_some(Event::NodeChildrenChanged),
        };
        match event {
            Some(event) => Some((conn, Arc::clone(path), event)),
            None => {
                self.add(path, matches!(lost, Lost::Children(_)), conn);
                None
            }
        }
    }
}

/// A watch that a client had on its last connection.
pub(super) enum Lost<'a> {
    Data(&'a Arc<str>),
    Exists(&'a Arc<str>),
    Children(&'a Arc<str>),
}

impl Lost<'_> {
    fn path(&self) -> &Arc<str> {
        match self {
            Lost::Data(path) | Lost::Exists(path) | Lost::Children(path) => path,
        }
    }
}

fn take(table: &mut Table, path: &str, event: Event, fired: &mut Vec<Fired>) {
    if let Some((path, conns)) = table.remove_entry(path) {
        fired.extend(conns.into_iter().map(|conn| (conn, Arc::clone(&path), event)));
    }
}
