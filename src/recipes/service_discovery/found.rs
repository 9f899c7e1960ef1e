//! Instances as they are found.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::ServiceInstance;
use crate::cache::{Node, Snapshot};
use crate::util::znode::Stat;

/// An instance that is registered: a [`ServiceInstance`], and its node. Cheap to clone.
pub struct Instance<P>(Node<ServiceInstance<P>>);

impl<P> Instance<P> {
    /// Returns the instance in a node, if it could be read.
    pub(super) fn of(node: &Node<ServiceInstance<P>>) -> Option<Self> {
        node.value().is_some().then(|| Instance(node.clone()))
    }

    /// Returns the path of the node.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Returns the stat of the node when it was read. Its `czxid` tells two registrations under one id apart.
    pub fn stat(&self) -> &Stat {
        self.0.stat()
    }

    /// Returns whether both are one node, whatever its data.
    pub(super) fn is_same_registration(&self, other: &Self) -> bool {
        self.czxid() == other.czxid() && self.path() == other.path()
    }

    pub(super) fn czxid(&self) -> i64 {
        self.0.stat().czxid
    }
}

impl<P> Deref for Instance<P> {
    type Target = ServiceInstance<P>;

    fn deref(&self) -> &ServiceInstance<P> {
        self.0.value().expect("only nodes that could be read become instances")
    }
}

impl<P> Clone for Instance<P> {
    fn clone(&self) -> Self {
        Instance(self.0.clone())
    }
}

/// The same registration, with the same data.
impl<P> PartialEq for Instance<P> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_registration(other) && self.stat().mzxid == other.stat().mzxid
    }
}

impl<P> Eq for Instance<P> {}

impl<P> fmt::Debug for Instance<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("path", &self.path())
            .field("address", &self.address())
            .field("port", &self.port())
            .field("enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}

/// The instances of a service at one moment. Cheap to clone; it never changes.
pub struct Instances<P> {
    snapshot: Snapshot<ServiceInstance<P>>,
}

impl<P: 'static> Instances<P> {
    pub(super) fn new(snapshot: Snapshot<ServiceInstance<P>>) -> Self {
        Instances { snapshot }
    }

    /// Returns the instances that could be read, enabled or not, in the order of the names of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = Instance<P>> {
        self.snapshot.iter().filter_map(Instance::of)
    }

    /// Returns the instance with this id; if there are several, the first one.
    pub fn get(&self, id: &str) -> Option<Instance<P>> {
        self.iter().find(|instance| instance.id() == id)
    }

    /// Returns the number of instances that could be read.
    pub fn len(&self) -> usize {
        self.snapshot.iter().filter(|node| node.value().is_some()).count()
    }

    /// Returns whether there is no instance that could be read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the nodes that could not be read: [`Node::content`] says why. They do not hide the others.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::cache::Content;
    /// # fn example(instances: zookeeper_recipes::service_discovery::Instances<()>) {
    /// for node in instances.unreadable() {
    ///     match node.content() {
    ///         Content::Undecodable(data) => println!("{}: {data}", node.path()),
    ///         other => println!("{}: {other:?}", node.path()),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn unreadable(&self) -> impl Iterator<Item = &Node<ServiceInstance<P>>> {
        self.snapshot.iter().filter(|node| node.value().is_none())
    }

    /// Returns how long ago the servers last confirmed these instances; see [`Snapshot::age`].
    pub fn age(&self) -> Duration {
        self.snapshot.age()
    }

    /// Returns whether the servers have confirmed these instances within the last third of a session timeout.
    pub fn is_fresh(&self) -> bool {
        self.snapshot.is_fresh()
    }

    /// Returns the copy of the nodes.
    pub fn snapshot(&self) -> &Snapshot<ServiceInstance<P>> {
        &self.snapshot
    }
}

impl<P> Clone for Instances<P> {
    fn clone(&self) -> Self {
        Instances { snapshot: self.snapshot.clone() }
    }
}

impl<P: 'static> fmt::Debug for Instances<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
