//! Which part of the tree a cache keeps.

use std::fmt;
use std::sync::Arc;

use super::nodes::is_within;
use crate::util::path::split;

/// Decides by the path whether a node is kept.
pub(super) type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A part of the tree.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) root: Arc<str>,
    /// Whether the root itself is a part of it.
    pub(super) with_root: bool,
    /// How many levels below the root.
    pub(super) depth: usize,
    pub(super) filter: Option<Filter>,
}

impl Scope {
    /// Returns whether a node at this path is kept.
    pub(super) fn contains(&self, path: &str) -> bool {
        if !is_within(path, &self.root) {
            return false;
        }
        let depth = self.depth_of(path);
        if depth == 0 {
            return self.with_root;
        }
        depth <= self.depth && self.passes_filter(path)
    }

    /// Returns whether nodes below this one may be kept.
    pub(super) fn reaches_below(&self, path: &str) -> bool {
        self.depth_of(path) < self.depth
    }

    fn depth_of(&self, path: &str) -> usize {
        let root = if &*self.root == "/" { "" } else { &*self.root };
        path.get(root.len()..).filter(|rest| *rest != "/").map_or(0, |below| below.matches('/').count())
    }

    /// Returns whether the filter keeps the node and all nodes between it and the root.
    fn passes_filter(&self, path: &str) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut at = path;
        while at != &*self.root {
            if !filter(at) {
                return false;
            }
            at = split(at).0;
        }
        true
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("root", &self.root).field("depth", &self.depth).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(root: &str, with_root: bool, depth: usize) -> Scope {
        Scope { root: root.into(), with_root, depth, filter: None }
    }

    #[test]
    fn a_node_its_children_or_a_tree() {
        let paths = ["/a", "/a/b", "/a/b/c", "/ab", "/"];
        let kept = |scope: Scope| paths.map(|path| scope.contains(path));
        assert_eq!(kept(scope("/a", true, 0)), [true, false, false, false, false]);
        assert_eq!(kept(scope("/a", false, 1)), [false, true, false, false, false]);
        assert_eq!(kept(scope("/a", true, usize::MAX)), [true, true, true, false, false]);
        assert_eq!(kept(scope("/", true, 1)), [true, false, false, true, true]);
        assert_eq!(kept(scope("/", true, usize::MAX)), [true; 5]);
        assert!(scope("/", true, 1).reaches_below("/"));
        assert!(!scope("/", true, 1).reaches_below("/a"));
        assert!(scope("/a", false, 1).reaches_below("/a"));
    }

    #[test]
    fn what_the_filter_refuses_is_left_out_with_everything_below() {
        let filter: Filter = Arc::new(|path: &str| path != "/a/secret");
        let scope = Scope { filter: Some(filter), ..scope("/a", true, usize::MAX) };
        assert!(scope.contains("/a") && scope.contains("/a/b/secret"));
        assert!(!scope.contains("/a/secret") && !scope.contains("/a/secret/deep"));
    }
}
