//! All nodes of one moment, by path. A clone shares everything with the original; a change copies one path of the map.

use std::ops::Bound;

use rpds::RedBlackTreeSetSync;

use super::node::{ByPath, Node, Ordered};

#[derive(Debug)]
pub(super) struct Nodes<T>(RedBlackTreeSetSync<ByPath<T>>);

impl<T> Clone for Nodes<T> {
    fn clone(&self) -> Self {
        Nodes(self.0.clone())
    }
}

impl<T: 'static> Nodes<T> {
    pub(super) fn new() -> Self {
        Nodes(RedBlackTreeSetSync::new_sync())
    }

    pub(super) fn len(&self) -> usize {
        self.0.size()
    }

    pub(super) fn get(&self, path: &str) -> Option<&Node<T>> {
        self.0.get(&path as &dyn Ordered).map(|entry| &entry.0)
    }

    pub(super) fn insert(&mut self, node: Node<T>) {
        self.0.insert_mut(ByPath(node));
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.0.remove_mut(&path as &dyn Ordered);
    }

    /// Returns all nodes in the order of their paths: a node, then everything below it.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node<T>> {
        self.0.iter().map(|entry| &entry.0)
    }

    /// Returns the node at `path`, if it is there, and everything below it.
    pub(super) fn subtree<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Node<T>> {
        let mut next = self.get(path).or_else(|| self.after(path));
        std::iter::from_fn(move || {
            let node = next.filter(|node| is_within(node.path(), path))?;
            next = self.after(node.path());
            Some(node)
        })
    }

    /// Returns the nodes directly below `dir`.
    pub(super) fn children<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a Node<T>> {
        let mut next = self.after(dir);
        std::iter::from_fn(move || {
            let child = next.filter(|node| is_within(node.path(), dir))?;
            next = self.after(child.path());
            // What is below the child follows it.
            if next.is_some_and(|node| is_within(node.path(), child.path())) {
                next = self.after(&below_all(child.path()));
            }
            Some(child)
        })
        .filter(move |node| crate::util::path::split(node.path()).0 == dir)
    }

    /// Returns the first node after this path.
    fn after(&self, path: &str) -> Option<&Node<T>> {
        let range = (Bound::Excluded(&path as &dyn Ordered), Bound::Unbounded);
        self.0.range::<dyn Ordered, _>(range).next().map(|entry| &entry.0)
    }
}

/// Returns whether `path` is `top` or below it.
pub(super) fn is_within(path: &str, top: &str) -> bool {
    if top == "/" {
        return true;
    }
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns what sorts after everything below `path`, and before whatever follows: no path has this character.
fn below_all(path: &str) -> String {
    crate::util::path::join(path, "\u{10ffff}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Content;
    use crate::util::znode::Stat;

    fn nodes(paths: &[&str]) -> Nodes<()> {
        let mut nodes = Nodes::new();
        for path in paths {
            nodes.insert(Node::new(path, Stat::default(), Content::NotRead));
        }
        nodes
    }

    fn paths<'a>(nodes: impl Iterator<Item = &'a Node<()>>) -> Vec<&'a str> {
        nodes.map(Node::path).collect()
    }

    #[test]
    fn what_is_below_a_node_follows_it() {
        let nodes = nodes(&["/a-b", "/a/z", "/a", "/", "/b", "/a/b/c", "/a/b", "/a.b", "/a/b-c"]);
        assert_eq!(paths(nodes.iter()), ["/", "/a", "/a/b", "/a/b/c", "/a/b-c", "/a/z", "/a-b", "/a.b", "/b"]);
        assert_eq!(paths(nodes.subtree("/a/b")), ["/a/b", "/a/b/c"]);
        assert_eq!(paths(nodes.subtree("/a/b/")), Vec::<&str>::new());
        assert_eq!(nodes.subtree("/").count(), nodes.len());
    }

    #[test]
    fn children_are_those_directly_below() {
        let nodes = nodes(&["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b-c", "/a/z/missing/parent", "/ab", "/b"]);
        assert_eq!(paths(nodes.children("/")), ["/a", "/ab", "/b"]);
        assert_eq!(paths(nodes.children("/a")), ["/a/b", "/a/b-c"]);
        assert_eq!(paths(nodes.children("/a/b")), ["/a/b/c"]);
        assert_eq!(paths(nodes.children("/b")), Vec::<&str>::new());
        assert_eq!(paths(nodes.children("/none")), Vec::<&str>::new());
    }

    #[test]
    fn a_copy_does_not_change_with_the_original() {
        let mut first = nodes(&["/a", "/b"]);
        let second = first.clone();
        first.remove("/a");
        assert_eq!((first.len(), second.len()), (1, 2));
        assert!(first.get("/a").is_none() && second.get("/a").is_some());
    }
}
