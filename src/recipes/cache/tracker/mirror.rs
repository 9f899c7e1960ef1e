//! The nodes as they are known, and what has changed since they were published.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::change::Change;
use crate::cache::node::{Content, Node, compare};
use crate::cache::nodes::Nodes;
use crate::cache::scope::Scope;
use crate::util::znode::Stat;

/// The most bytes of data in a small node.
const SMALL: i32 = 1_024;

/// See the module.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    nodes: Nodes<T>,
    /// The pzxid as of which the children of a node are complete, where its stat has another one.
    followed: HashMap<Arc<str>, i64>,
    /// The nodes that may have changed, as they were last published; `None` before the first publication.
    before: Option<HashMap<Arc<str>, Option<Node<T>>>>,
    newest: i64,
}

impl<T: 'static> Mirror<T> {
    pub(super) fn new() -> Self {
        Mirror { nodes: Nodes::new(), followed: HashMap::new(), before: None, newest: 0 }
    }

    pub(super) fn nodes(&self) -> &Nodes<T> {
        &self.nodes
    }

    pub(super) fn get(&self, path: &str) -> Option<&Node<T>> {
        self.nodes.get(path)
    }

    /// Returns whether a node is known to have little data.
    pub(super) fn is_small(&self, path: &str) -> bool {
        self.get(path).is_some_and(|node| node.stat().data_length <= SMALL)
    }

    /// Returns the newest transaction that any stat has shown.
    pub(super) fn newest(&self) -> i64 {
        self.newest
    }

    /// Returns whether there may be changes to publish.
    pub(super) fn is_changed(&self) -> bool {
        self.before.as_ref().is_some_and(|before| !before.is_empty())
    }

    pub(super) fn put(&mut self, path: &Arc<str>, stat: Stat, content: Content<T>) {
        self.remember(path);
        self.newest = self.newest.max(stat.mzxid).max(stat.pzxid).max(stat.czxid);
        self.followed.remove(path);
        self.nodes.insert(Node::new(path, stat, content));
    }

    /// Records as of which transaction the children are complete, in a stat that is newer than the known node's.
    pub(super) fn followed(&mut self, path: &Arc<str>, stat: &Stat, known: Option<&Node<T>>) {
        self.newest = self.newest.max(stat.pzxid);
        match known {
            Some(node) if node.stat().pzxid != stat.pzxid => drop(self.followed.insert(Arc::clone(path), stat.pzxid)),
            _ if self.followed.is_empty() => {}
            _ => drop(self.followed.remove(path)),
        }
    }

    /// Returns whether the children of a known node are complete as of the pzxid in this stat.
    pub(super) fn is_followed(&self, path: &str, stat: &Stat, known: Option<&Node<T>>) -> bool {
        let known = known.map(|known| known.stat().pzxid);
        self.followed.get(path).copied().or(known) == Some(stat.pzxid)
    }

    /// Removes the node at `top`, if it is there, and everything below it. Returns the paths.
    pub(super) fn remove_subtree(&mut self, top: &str) -> Vec<Arc<str>> {
        let below: Vec<Arc<str>> = self.nodes.subtree(top).map(|node| node.path().into()).collect();
        for path in &below {
            self.remember(path);
            self.nodes.remove(path);
            self.followed.remove(path);
        }
        below
    }

    /// Remembers the node as it was last published.
    fn remember(&mut self, path: &Arc<str>) {
        if let Some(before) = &mut self.before {
            before.entry(Arc::clone(path)).or_insert_with(|| self.nodes.get(path).cloned());
        }
    }

    /// Returns what differs from the last publication: first the removed nodes, each after everything below it; then
    /// the new and the written ones, in the order of their paths. The first time everything is new, and nothing is
    /// returned.
    pub(super) fn take_changes(&mut self, scope: &Scope) -> Vec<Change<T>> {
        let Some(before) = &mut self.before else {
            self.before = Some(HashMap::new());
            return Vec::new();
        };
        let mut before: Vec<_> = std::mem::take(before).into_iter().collect();
        before.retain(|(path, _)| scope.contains(path));
        before.sort_by(|(one, _), (other, _)| compare(one, other));
        let (mut removed, mut others) = (Vec::new(), Vec::new());
        for (path, old) in before {
            match (old, self.nodes.get(&path).cloned()) {
                (None, None) => {}
                (None, Some(new)) => others.push(Change::Added(new)),
                (Some(old), None) => removed.push(Change::Removed { old }),
                (Some(old), Some(new)) if old.is_same_as(&new) => {}
                // The stat of a node may be unknown without permission.
                (Some(old), Some(new)) if [0, new.stat().czxid].contains(&old.stat().czxid) => {
                    others.push(Change::Updated { old, new });
                }
                // Another node at the same path.
                (Some(old), Some(new)) => {
                    removed.push(Change::Removed { old });
                    others.push(Change::Added(new));
                }
            }
        }
        removed.reverse();
        removed.append(&mut others);
        removed
    }
}
