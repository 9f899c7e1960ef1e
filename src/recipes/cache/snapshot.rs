//! A view of one moment.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use super::nodes::Nodes;
use super::scope::Scope;
use crate::util::clock::{Clock, Instant};
use crate::util::mutex::Mutex;

/// What a cache knew at one moment. Cheap to clone; it never changes, and it locks nothing.
///
/// # What you may conclude
///
/// * Each node was exactly as shown when it was read, and a later snapshot never shows an older version of it.
/// * If [`is_settled`](Self::is_settled), all nodes were as shown *at the same time*. Otherwise more events arrived
///   while these nodes were read, and the next snapshot follows within a round trip. That happens only while the tree
///   changes continuously, faster than it can be read.
/// * It shows the past: nodes may have changed since. [`age`](Self::age) bounds how old it is: it contains whatever the
///   ensemble had confirmed that long ago. [`Cache::synced`](super::Cache::synced) waits for a current snapshot.
pub struct Snapshot<T>(Arc<Inner<T>>);

struct Inner<T> {
    nodes: Nodes<T>,
    scope: Arc<Scope>,
    unlistable: Arc<BTreeSet<Arc<str>>>,
    zxid: i64,
    is_settled: bool,
    clock: Clock,
    fresh_for: Duration,
    /// The snapshot contains everything that was committed before this.
    /// `None` if it was never confirmed.
    confirmed: Mutex<Option<Instant>>,
}

/// What a snapshot is made of, besides its nodes.
pub(super) struct SnapshotMeta {
    pub(super) scope: Arc<Scope>,
    pub(super) unlistable: Arc<BTreeSet<Arc<str>>>,
    pub(super) zxid: i64,
    pub(super) is_settled: bool,
    pub(super) clock: Clock,
    pub(super) fresh_for: Duration,
    pub(super) confirmed: Option<Instant>,
}

impl<T: 'static> Snapshot<T> {
    pub(super) fn new(nodes: Nodes<T>, of: SnapshotMeta) -> Self {
        let SnapshotMeta { scope, unlistable, zxid, is_settled, clock, fresh_for, confirmed } = of;
        let confirmed = Mutex::new(confirmed);
        Snapshot(Arc::new(Inner { nodes, scope, unlistable, zxid, is_settled, clock, fresh_for, confirmed }))
    }

    /// Returns the snapshot before the first.
    pub(super) fn empty(scope: &Arc<Scope>, clock: Clock) -> Self {
        let unlistable = Arc::default();
        let (fresh_for, confirmed) = (Duration::ZERO, Some(clock.now()));
        let of = SnapshotMeta {
            scope: Arc::clone(scope),
            unlistable,
            zxid: 0,
            is_settled: false,
            clock,
            fresh_for,
            confirmed,
        };
        Snapshot::new(Nodes::new(), of)
    }

    /// Returns the node at `path`.
    pub fn get(&self, path: &str) -> Option<&Node<T>> {
        self.0.nodes.get(path).filter(|node| self.shows(node))
    }

    /// Returns the root of a cache of a node or a tree; `None` if it does not exist, and for a cache of children.
    pub fn root(&self) -> Option<&Node<T>> {
        self.get(&self.0.scope.root)
    }

    /// Returns the nodes directly below `path`, ordered by name.
    pub fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Node<T>> {
        self.0.nodes.children(path).filter(|node| self.shows(node))
    }

    /// Returns all nodes in the order of their paths: a node, then everything below it.
    pub fn iter(&self) -> impl Iterator<Item = &Node<T>> {
        self.0.nodes.iter().filter(|node| self.shows(node))
    }

    /// Returns the number of nodes.
    #[doc(alias = "size")]
    pub fn len(&self) -> usize {
        let hidden = !self.0.scope.with_root && self.0.nodes.get(&self.0.scope.root).is_some();
        self.0.nodes.len() - usize::from(hidden)
    }

    /// Returns whether the snapshot has no node: the root does not exist, or has no children, or these cannot be
    /// [listed](Self::unlistable).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the directories whose children cannot be listed: this client has no permission, or the request fails,
    /// for example because there are too many of them. Children may be missing.
    pub fn unlistable(&self) -> impl Iterator<Item = &str> {
        self.0.unlistable.iter().map(|path| &**path)
    }

    /// Returns the newest transaction (zxid) that the cache has seen in the stat of any node up to this snapshot. It
    /// never decreases from a snapshot to a later one. A deletion does not raise it.
    pub fn zxid(&self) -> i64 {
        self.0.zxid
    }

    /// Returns whether all nodes were as shown at the same time; see [above](Self#what-you-may-conclude).
    pub fn is_settled(&self) -> bool {
        self.0.is_settled
    }

    /// Returns how long ago the ensemble last confirmed this snapshot: it contains every change that was committed
    /// before that.
    ///
    /// While the servers answer, the heartbeats confirm the latest snapshot, and its age is at most a sixth of the
    /// session timeout and a round trip. Nodes that this client cannot read do not count: servers since 3.8.4 and 3.9.2
    /// send no events about those without permission.
    ///
    /// It grows during an outage, and once there is a newer snapshot, so call
    /// [`Cache::snapshot`](super::Cache::snapshot) each time. A heartbeat is a sync by default, which a server answers
    /// only if it is in touch with the leader; see [`Heartbeat`](crate::Heartbeat). [`Duration::MAX`] for what a
    /// [read-only server](crate::ConnectionState::ReadOnly) has told, which nothing confirms.
    pub fn age(&self) -> Duration {
        let confirmed = *self.0.confirmed.lock();
        confirmed.map_or(Duration::MAX, |at| self.0.clock.now().since(at))
    }

    /// Returns whether the ensemble has confirmed this within the last third of a session timeout: [`age`](Self::age)
    /// is at most that. False for what a [read-only server](crate::ConnectionState::ReadOnly) has told.
    pub fn is_fresh(&self) -> bool {
        self.age() <= self.0.fresh_for
    }

    /// Records that the snapshot contains everything that was committed before `at`.
    pub(super) fn confirm(&self, at: Instant) {
        let mut confirmed = self.0.confirmed.lock();
        *confirmed = (*confirmed).max(Some(at));
    }

    /// Returns whether the node is a part of the cache: a cache of children hides the root.
    fn shows(&self, node: &Node<T>) -> bool {
        self.0.scope.with_root || node.path() != &*self.0.scope.root
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot(Arc::clone(&self.0))
    }
}

impl<T: 'static> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("nodes", &self.len())
            .field("zxid", &self.zxid())
            .field("is_settled", &self.is_settled())
            .field("age", &self.age())
            .finish_non_exhaustive()
    }
}
