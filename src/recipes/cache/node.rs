//! One node of a snapshot, and the order of nodes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

use triomphe::Arc;

use crate::util::path::quoted_bytes;
use crate::util::serializer::BoxError;
use crate::util::znode::Stat;

/// A node as a cache has read it. Cheap to clone; immutable.
pub struct Node<T>(Arc<Inner<T>>);

struct Inner<T> {
    path: Box<str>,
    stat: Stat,
    content: Content<T>,
}

/// What a cache knows of a node's data.
#[derive(Debug)]
#[non_exhaustive]
pub enum Content<T> {
    /// The data, decoded.
    Decoded(T),
    /// Data that the serializer could not decode.
    Undecodable(Box<Undecodable>),
    /// The client has no permission to read the node. Servers since 3.9 do not even return its stat then: it is all
    /// zeros, or as it was when the node could be read.
    Denied,
    /// The server cannot answer a read of this node, or this client cannot accept the answer, for example because it is
    /// too large: the error says why. The stat may be older than the node.
    Unreadable(Box<crate::Error>),
    /// The cache reads no data; see [`CacheBuilder::without_data`](super::CacheBuilder::without_data).
    NotRead,
}

/// Data that could not be decoded, and why.
#[derive(Debug)]
pub struct Undecodable {
    /// The data, unchanged.
    pub bytes: Vec<u8>,
    /// The error of the serializer; after a panic in it, the text of the panic.
    pub error: BoxError,
}

/// The error, and the data: as text if it is text.
impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, quoted_bytes(&self.bytes))
    }
}

impl<T> Node<T> {
    pub(crate) fn new(path: &str, stat: Stat, content: Content<T>) -> Self {
        Node(Arc::new(Inner { path: path.into(), stat, content }))
    }

    /// Returns the path, without the client's namespace.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the last element of the path.
    pub fn name(&self) -> &str {
        crate::util::path::split(&self.0.path).1
    }

    /// Returns the stat of the node when it was last read.
    ///
    /// Its `czxid`, `mzxid` and `version` always belong to the content. `num_children`, `cversion` and `pzxid` can be
    /// older than the snapshot, because the servers do not report their changes: use
    /// [`Snapshot::children`](super::Snapshot::children) instead. A change of the ACL is not reported either.
    pub fn stat(&self) -> &Stat {
        &self.0.stat
    }

    /// Returns the decoded data; `None` if there is none. [`content`](Self::content) says why.
    pub fn value(&self) -> Option<&T> {
        match &self.0.content {
            Content::Decoded(value) => Some(value),
            _ => None,
        }
    }

    /// Returns what is known of the data.
    pub fn content(&self) -> &Content<T> {
        &self.0.content
    }

    /// Estimates how many bytes it takes, without the decoded data.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Inner<T>>() + self.0.path.len() + usize::try_from(self.0.stat.data_length).unwrap_or_default()
    }

    /// Returns whether `stat` shows the same node with the same data.
    pub(super) fn is_same(&self, stat: &Stat) -> bool {
        (self.0.stat.czxid, self.0.stat.mzxid) == (stat.czxid, stat.mzxid)
    }

    /// Returns whether both were read at the same version, and with the same kind of outcome.
    pub(super) fn is_same_as(&self, other: &Node<T>) -> bool {
        let kind = |content: &Content<T>| std::mem::discriminant(content);
        self.is_same(&other.0.stat) && kind(&self.0.content) == kind(&other.0.content)
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Node(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { path, stat, content } = &*self.0;
        let mut node = f.debug_struct("Node");
        node.field("path", path).field("version", &stat.version).field("mzxid", &stat.mzxid);
        node.field("content", content).finish_non_exhaustive()
    }
}

/// Compares paths element by element, so that all nodes below a node follow it directly.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    const STEP: usize = 8;
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // Paths of one tree begin alike, and each insertion compares many of them: eight bytes at a time.
    let alike = one.chunks_exact(STEP).zip(other.chunks_exact(STEP)).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[alike * STEP..], &other[alike * STEP..]);
    // The slash sorts first.
    let order = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(order).cmp(other.iter().map(order))
}

/// Something that is ordered by its path.
pub(super) trait Ordered {
    fn path(&self) -> &str;
}

impl<T> Ordered for Node<T> {
    fn path(&self) -> &str {
        &self.0.path
    }
}

impl Ordered for &str {
    fn path(&self) -> &str {
        self
    }
}

impl PartialEq for dyn Ordered + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for dyn Ordered + '_ {}

impl PartialOrd for dyn Ordered + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Ordered + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.path(), other.path())
    }
}

/// A node in the map of a snapshot: ordered and found by its path alone.
#[derive(Debug)]
pub(super) struct ByPath<T>(pub(super) Node<T>);

impl<T> Clone for ByPath<T> {
    fn clone(&self) -> Self {
        ByPath(self.0.clone())
    }
}

impl<T> PartialEq for ByPath<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.path() == other.0.path()
    }
}

impl<T> Eq for ByPath<T> {}

impl<T> PartialOrd for ByPath<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for ByPath<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.path(), other.0.path())
    }
}

impl<'a, T: 'a> Borrow<dyn Ordered + 'a> for ByPath<T> {
    fn borrow(&self) -> &(dyn Ordered + 'a) {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_element_by_element() {
        let by_elements =
            |path: &str| -> Vec<Vec<u8>> { path.split('/').map(|name| name.as_bytes().to_vec()).collect() };
        let ends = ["", "/", "/a", "-", "-a", "0", "a", "a/b", "a-b", "ab", "/a/b-c/d", "/a/b/c/d", "ä", "/ä"];
        for length in 0..20 {
            let start = format!("/{}", "x".repeat(length));
            let paths: Vec<String> = ends.iter().map(|end| format!("{start}{end}")).collect();
            for (one, other) in paths.iter().flat_map(|one| paths.iter().map(move |other| (one, other))) {
                assert_eq!(compare(one, other), by_elements(one).cmp(&by_elements(other)), "{one} {other}");
            }
        }
    }
}
