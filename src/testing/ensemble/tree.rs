//! The data tree as one server has applied it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Zxid;
use super::txn::{Change, Txn};
use crate::util::path;
use crate::util::znode::{Acl, Stat};

/// What a server stores as the owner of a container node.
pub(crate) const CONTAINER: i64 = i64::MIN;
/// What a server stores as the owner of a node with a time to live: these high bits, and the milliseconds below them.
const TTL: i64 = -1 << 56;
const TTL_MILLIS: i64 = 0xff_ffff_ffff;

/// Returns what a server stores as the owner of a node with this time to live.
pub(crate) fn owner_for_ttl(ttl: Duration) -> i64 {
    TTL | i64::try_from(ttl.as_millis()).unwrap_or(TTL_MILLIS).min(TTL_MILLIS)
}

/// Returns the time to live in milliseconds that an owner stands for, if any.
fn ttl_of(owner: i64) -> Option<i64> {
    (owner >> 56 == -1).then_some(owner & TTL_MILLIS)
}

/// Returns the session that an owner stands for; 0 if none.
pub(crate) fn session_of(owner: i64) -> i64 {
    if owner == CONTAINER || ttl_of(owner).is_some() { 0 } else { owner }
}

/// A node. A clone shares data and ACL.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    ctime: i64,
    mtime: i64,
    pub(crate) version: i32,
    pub(crate) acl_version: i32,
    /// How many children were ever created. Sequential names use this number, and the server stores it as `cversion`.
    pub(crate) creations: i32,
    pub(crate) owner: i64,
    pub(crate) children: BTreeSet<Arc<str>>,
}

impl Node {
    fn new(data: Arc<[u8]>, acls: Arc<[Acl]>, owner: i64, zxid: Zxid, time: i64) -> Self {
        Node {
            data,
            acls,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            acl_version: 0,
            creations: 0,
            owner,
            children: BTreeSet::new(),
        }
    }

    /// Returns the stat as a client sees it. Its `cversion` counts all changes of the children, although the server
    /// stores only creations, and it does not show whether a node is a container or has a time to live.
    pub(crate) fn stat(&self) -> Stat {
        let children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.creations.wrapping_mul(2).wrapping_sub(children),
            aversion: self.acl_version,
            ephemeral_owner: session_of(self.owner),
            data_length: i32::try_from(self.data.len()).unwrap_or(i32::MAX),
            num_children: children,
        }
    }
}

/// What a change did.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The stat of the node after the change, if there is one.
    pub(crate) stat: Option<Stat>,
    /// The ACL of the node, even if the node is gone. This and the parent's ACL decide which clients get the events.
    pub(crate) acls: Option<Arc<[Acl]>>,
    /// The ACL of its parent.
    pub(crate) parent_acls: Option<Arc<[Acl]>>,
}

/// All nodes. A real server has `/zookeeper` as well; here the tree begins empty.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: BTreeMap<Arc<str>, Node>,
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    containers: BTreeSet<Arc<str>>,
    /// The nodes with a time to live.
    timed: BTreeSet<Arc<str>>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Node::new(Arc::from([]), Arc::from([Acl::anyone_all()]), 0, 0, 0);
        Tree {
            nodes: BTreeMap::from([(Arc::from("/"), root)]),
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
            timed: BTreeSet::new(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Returns how many ephemeral nodes there are.
    pub(crate) fn count_ephemerals(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// Returns the ephemeral nodes of a session.
    pub(crate) fn ephemerals(&self, session: i64) -> BTreeSet<Arc<str>> {
        self.ephemerals.get(&session).cloned().unwrap_or_default()
    }

    /// Returns the containers that have had a child and have none now.
    pub(crate) fn spent_containers(&self) -> Vec<Arc<str>> {
        let spent =
            |path: &&Arc<str>| self.get(path).is_some_and(|node| node.creations > 0 && node.children.is_empty());
        self.containers.iter().filter(spent).cloned().collect()
    }

    /// Returns the nodes without children whose last write is longer ago than their time to live, at this time of day.
    pub(crate) fn outlived(&self, now: i64) -> Vec<Arc<str>> {
        let is_outlived = |path: &&Arc<str>| {
            let ttl =
                self.get(path).filter(|node| node.children.is_empty()).map(|node| (ttl_of(node.owner), node.mtime));
            ttl.is_some_and(|(ttl, mtime)| ttl.is_some_and(|ttl| now - mtime > ttl))
        };
        self.timed.iter().filter(is_outlived).cloned().collect()
    }

    /// Applies a transaction. Returns what each of its changes did.
    pub(crate) fn apply(&mut self, txn: &Txn) -> Vec<Applied> {
        let apply = |change: &Change| {
            let dir = change.path().map(|path| path::split(path).0);
            let parent_acls = dir.and_then(|dir| self.acls(dir));
            let before = change.path().and_then(|path| self.acls(path));
            let stat = self.change(change, txn.zxid, txn.time);
            let acls = change.path().and_then(|path| self.acls(path)).or(before);
            Applied { stat, acls, parent_acls }
        };
        txn.changes.iter().map(apply).collect()
    }

    fn acls(&self, path: &str) -> Option<Arc<[Acl]>> {
        self.get(path).map(|node| Arc::clone(&node.acls))
    }

    fn change(&mut self, change: &Change, zxid: Zxid, time: i64) -> Option<Stat> {
        match change {
            Change::Check => None,
            Change::Create { path, data, acls, owner, parent_creations } => {
                let node = Node::new(Arc::clone(data), Arc::clone(acls), *owner, zxid, time);
                self.create(path, node, *parent_creations)
            }
            Change::Delete { path } => {
                self.delete(path, zxid);
                None
            }
            Change::SetData { path, data, version } => {
                let node = self.nodes.get_mut(path)?;
                node.data = Arc::clone(data);
                node.version = *version;
                node.mzxid = zxid;
                node.mtime = time;
                Some(node.stat())
            }
            Change::SetAcl { path, acls, version } => {
                let node = self.nodes.get_mut(path)?;
                node.acls = Arc::clone(acls);
                node.acl_version = *version;
                Some(node.stat())
            }
            Change::SetSequence { path, next } => {
                self.nodes.get_mut(path)?.creations = *next;
                None
            }
        }
    }

    fn create(&mut self, at: &Arc<str>, node: Node, parent_creations: i32) -> Option<Stat> {
        let (dir, name) = path::split(at);
        let parent = self.nodes.get_mut(dir)?;
        parent.children.insert(Arc::from(name));
        // As in the server: a counter that wrapped around is smaller, so the node keeps the old one.
        if parent_creations > parent.creations {
            parent.creations = parent_creations;
            parent.pzxid = node.czxid;
        }
        match node.owner {
            0 => {}
            CONTAINER => {
                self.containers.insert(Arc::clone(at));
            }
            owner if ttl_of(owner).is_some() => {
                self.timed.insert(Arc::clone(at));
            }
            owner => {
                self.ephemerals.entry(owner).or_default().insert(Arc::clone(at));
            }
        }
        let stat = node.stat();
        self.nodes.insert(Arc::clone(at), node);
        Some(stat)
    }

    fn delete(&mut self, at: &Arc<str>, zxid: Zxid) {
        let Some(node) = self.nodes.remove(at) else { return };
        let (dir, name) = path::split(at);
        if let Some(parent) = self.nodes.get_mut(dir) {
            parent.children.remove(name);
            parent.pzxid = zxid;
        }
        self.containers.remove(at);
        self.timed.remove(at);
        if let Some(owned) = self.ephemerals.get_mut(&node.owner) {
            owned.remove(at);
            if owned.is_empty() {
                self.ephemerals.remove(&node.owner);
            }
        }
    }
}
