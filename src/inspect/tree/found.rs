//! The nodes that were found at a path and below, before their recipes are known.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::line::{Owner, is_session};
use super::value::Entry;
use crate::util::path::{join, split};
use crate::util::znode::Stat;

/// A path, ordered so that everything below a node comes directly after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place(pub(super) String);

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.bytes().map(order_of).cmp(other.0.bytes().map(order_of))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Orders the slash before any other byte.
fn order_of(byte: u8) -> u16 {
    if byte == b'/' { 0 } else { u16::from(byte) + 1 }
}

/// What was read of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Its stat, and its data if that is needed.
    Read { stat: Stat, data: Vec<u8> },
    /// Nothing, because its name says enough.
    Unread,
    /// Nothing, because the client has no permission.
    Denied,
}

/// The nodes that were found. A recipe takes the nodes that belong to it, so no node is in the result twice.
#[derive(Debug)]
pub(super) struct Found {
    contents: HashMap<String, Content>,
    /// The names of the children of each directory, including those that were taken.
    children: BTreeMap<String, BTreeSet<String>>,
    /// The paths of recipes that have nodes beside their path.
    paths_of_recipes: HashSet<String>,
}

impl Found {
    pub(super) fn new(contents: HashMap<String, Content>) -> Self {
        let mut children: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for path in contents.keys().filter(|path| *path != "/") {
            let (directory, name) = split(path);
            children.entry(directory.to_owned()).or_default().insert(name.to_owned());
        }
        Found { contents, children, paths_of_recipes: HashSet::new() }
    }

    /// Returns the directories that have children.
    pub(super) fn directories(&self) -> Vec<String> {
        self.children.keys().cloned().collect()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.contents.contains_key(path)
    }

    /// Returns the stat of a node that has not been taken.
    pub(super) fn stat(&self, path: &str) -> Option<Stat> {
        match self.contents.get(path)? {
            Content::Read { stat, .. } => Some(*stat),
            Content::Unread | Content::Denied => None,
        }
    }

    pub(super) fn children(&self, directory: &str) -> impl Iterator<Item = &str> {
        self.children.get(directory).into_iter().flatten().map(String::as_str)
    }

    /// Returns the children that have no children themselves, have not been taken, and match `is`.
    pub(super) fn leaves(&self, directory: &str, is: impl Fn(&str, &Content) -> bool) -> Vec<String> {
        let names = self.children(directory).filter(|name| {
            let path = join(directory, name);
            let is_leaf = !self.children.contains_key(&path) && !self.paths_of_recipes.contains(&path);
            is_leaf && self.contents.get(&path).is_some_and(|content| is(name, content))
        });
        names.map(str::to_owned).collect()
    }

    /// Reserves the node at the path of a recipe, so that it does not become part of another recipe.
    pub(super) fn keep(&mut self, path: &str) {
        self.paths_of_recipes.insert(path.to_owned());
    }

    /// Takes a node for a recipe.
    pub(super) fn take(&mut self, path: &str) -> Option<Content> {
        self.contents.remove(path)
    }

    /// Takes these children of a directory, oldest first. Those that may not be read come last.
    pub(super) fn entries(&mut self, directory: &str, names: Vec<String>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = names.iter().filter_map(|name| self.entry(join(directory, name))).collect();
        let age = |entry: &Entry| entry.owner.as_ref().map_or(i64::MAX, |owner| owner.fencing_token);
        entries.sort_by_key(age);
        entries
    }

    /// Takes a node.
    pub(super) fn entry(&mut self, path: String) -> Option<Entry> {
        let owner = match self.take(&path)? {
            Content::Read { stat, data } => Some(Owner::new(data, &stat)),
            Content::Unread | Content::Denied => None,
        };
        Some(Entry { path, owner })
    }

    /// Returns whether a directory has not been taken itself, but all its children have.
    pub(super) fn is_used_up(&self, directory: &str) -> bool {
        self.stat(directory).is_some() && self.children(directory).all(|name| !self.has(&join(directory, name)))
    }

    /// Returns the nodes that no recipe has taken.
    pub(super) fn into_rest(self) -> impl Iterator<Item = (String, Content)> {
        self.contents.into_iter()
    }
}

impl Content {
    /// Returns whether the node is known to be ephemeral.
    pub(super) fn is_ephemeral(&self) -> bool {
        matches!(self, Content::Read { stat, .. } if is_session(stat.ephemeral_owner))
    }
}

/// Returns whether a path is a directory's own path, or below it.
pub(super) fn is_at_or_below(path: &str, directory: &str) -> bool {
    let below = path.strip_prefix(directory.trim_end_matches('/'));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
