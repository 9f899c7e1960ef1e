//! What the servers had at each moment, and what a snapshot must match.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use zookeeper_recipes::cache::{Content, Node, Snapshot};
use zookeeper_recipes::testing::TestingServer;

pub(crate) const TOP: &str = "/tree";
/// All nodes that a seed may have, each after its parent.
pub(crate) const PATHS: [&str; 12] = [
    "/tree",
    "/tree/a",
    "/tree/a/x",
    "/tree/a/x/1",
    "/tree/b",
    "/tree/a-b",
    "/tree/a/y",
    "/tree/b/x",
    "/tree/a/x/2",
    "/tree/c",
    "/tree/b/x/1",
    "/tree/c/x",
];

/// A version of a node: czxid and mzxid.
pub(crate) type Id = (i64, i64);
pub(crate) type Ids = BTreeMap<String, Id>;

/// The part of the tree that a cache must have.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) root: &'static str,
    pub(crate) with_root: bool,
    pub(crate) depth: usize,
    /// A node that is left out, with everything below it, unless it is the root.
    pub(crate) without: Option<&'static str>,
}

impl Part {
    pub(crate) fn contains(&self, path: &str) -> bool {
        let Some(below) = path.strip_prefix(self.root) else { return false };
        if !below.is_empty() && !below.starts_with('/') {
            return false;
        }
        let depth = below.matches('/').count();
        let left_out = |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        (depth > 0 || self.with_root)
            && depth <= self.depth
            && !self.without.is_some_and(|without| without != self.root && left_out(without))
    }
}

pub(crate) fn ids(snapshot: &Snapshot<Vec<u8>>) -> Ids {
    snapshot.iter().map(|node| (node.path().to_owned(), (node.stat().czxid, node.stat().mzxid))).collect()
}

pub(crate) fn is_unreadable(node: &Node<Vec<u8>>) -> bool {
    matches!(node.content(), Content::Unreadable(_))
}

/// What the leader had committed at one moment.
#[derive(Debug)]
struct Moment {
    at: Instant,
    /// The newest transaction in any stat.
    zxid: i64,
    ids: BTreeMap<&'static str, Id>,
}

/// A data version, and the data.
type Written = (i32, Arc<[u8]>);

#[derive(Debug, Default)]
pub(crate) struct History {
    moments: Vec<Moment>,
    /// The version and data of every node version that was seen.
    contents: BTreeMap<(&'static str, Id), Written>,
}

impl History {
    /// Notes what the leader has committed.
    pub(crate) fn look(&mut self, server: &TestingServer) {
        let mut zxid = server.stat("/").map_or(0, |stat| stat.pzxid);
        let mut ids = BTreeMap::new();
        for path in PATHS {
            let Some(stat) = server.stat(path) else { continue };
            let id = (stat.czxid, stat.mzxid);
            zxid = zxid.max(stat.mzxid).max(stat.pzxid);
            ids.insert(path, id);
            let data = || (stat.version, server.get(path).unwrap_or_default().into());
            self.contents.entry((path, id)).or_insert_with(data);
        }
        if self.moments.last().is_none_or(|last| last.ids != ids || last.zxid < zxid) {
            self.moments.push(Moment { at: Instant::now(), zxid, ids });
        }
    }

    /// Returns the number of the present moment.
    pub(crate) fn now(&self) -> usize {
        self.moments.len().saturating_sub(1)
    }

    /// Returns the number of the last moment before `at`.
    pub(crate) fn before(&self, at: Instant) -> Option<usize> {
        self.moments.partition_point(|moment| moment.at < at).checked_sub(1)
    }

    /// Returns what the servers have now in this part.
    pub(crate) fn present(&self, part: &Part) -> Ids {
        let Some(last) = self.moments.last() else { return Ids::new() };
        let kept = last.ids.iter().filter(|(path, _)| part.contains(path));
        kept.map(|(path, id)| ((*path).to_owned(), *id)).collect()
    }

    /// Describes a node that is older in the snapshot than it was on the servers at that moment.
    pub(crate) fn older(&self, since: usize, part: &Part, ids: &Ids) -> Option<String> {
        let then = self.moments.get(since)?;
        PATHS.into_iter().filter(|path| part.contains(path)).find_map(|path| {
            let was = then.ids.get(path);
            let is_right = match ids.get(path) {
                Some(id) => was == Some(id) || id.1 > then.zxid,
                None => self.moments[since..]
                    .iter()
                    .any(|moment| moment.ids.get(path).is_none_or(|now| was.is_none_or(|was| was.0 != now.0))),
            };
            (!is_right).then(|| format!("{path}: {:?} instead of {was:?} or newer", ids.get(path)))
        })
    }

    /// Returns whether the servers had exactly this at some moment. If several transactions share a millisecond, only
    /// the last state is known, so a snapshot between two moments may be a mixture of both.
    pub(crate) fn was_once(&self, part: &Part, ids: &Ids) -> bool {
        let newest = ids.values().map(|id| id.1).max().unwrap_or(0);
        let paths: Vec<&str> = PATHS.into_iter().filter(|path| part.contains(path)).collect();
        for (number, moment) in self.moments.iter().enumerate().rev() {
            if moment.zxid < newest {
                return false;
            }
            let before = number.checked_sub(1).and_then(|number| self.moments.get(number));
            let (zxid_before, none) = (before.map_or(0, |before| before.zxid), BTreeMap::new());
            let before = before.map_or(&none, |before| &before.ids);
            let fits = |path: &&str| {
                let (id, was, is) = (ids.get(*path), before.get(*path), moment.ids.get(*path));
                id == is
                    || id == was
                    || id.is_some_and(|id| id.1 > zxid_before && id.1 <= moment.zxid)
                    || (id.is_none() && was.map(|was| was.0) != is.map(|is| is.0))
            };
            if paths.iter().all(fits) {
                return true;
            }
        }
        ids.is_empty()
    }

    /// Describes a node of the snapshot that differs from what the servers had in this version.
    pub(crate) fn wrong(&self, snapshot: &Snapshot<Vec<u8>>, with_data: bool) -> Option<String> {
        snapshot.iter().find_map(|node| {
            let id = (node.stat().czxid, node.stat().mzxid);
            let path = PATHS.into_iter().find(|path| *path == node.path());
            let (version, data) = path.and_then(|path| self.contents.get(&(path, id)))?;
            let found = node.value().map(Vec::as_slice);
            let expected = (with_data && !is_unreadable(node)).then_some(&**data);
            let is_right = node.stat().version == *version && found == expected;
            (!is_right).then(|| format!("{node:?} instead of version {version}, {data:?}"))
        })
    }

    pub(crate) fn describe_last(&self) -> String {
        format!("{:?}", self.moments.last())
    }
}
