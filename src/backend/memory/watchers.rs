//! The watches that the holder of a session has: which events resolve them, and what becomes of those dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::handle::{Dropped, Drops};
use super::wire::Request;
use super::{ClientId, Zxid};
use crate::backend::zookeeper::watches::WatchPermit;
use crate::backend::{Event, Watch};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Data,
    /// On a node that did not exist.
    Exists,
    Children,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    kind: Kind,
    event: oneshot::Sender<Event>,
}

#[derive(Debug)]
pub(super) struct Watchers {
    drops: Arc<Drops>,
    client: ClientId,
    last_id: u64,
    by_path: BTreeMap<Arc<str>, Vec<Watcher>>,
}

/// A watch on its way to its holder.
#[derive(Debug)]
pub(super) struct Armed {
    event: oneshot::Receiver<Event>,
    guard: Guard,
}

/// Tells when the watch is no longer wanted.
#[derive(Debug)]
struct Guard {
    drops: Arc<Drops>,
    client: ClientId,
    id: u64,
    _permit: WatchPermit,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.add(Dropped::Watch(self.client, self.id));
    }
}

impl Armed {
    pub(super) fn into_watch(self) -> Watch {
        let Armed { event, guard } = self;
        Watch::new(Box::pin(async move {
            let event = event.await.unwrap_or(Event::SessionEnded);
            drop(guard);
            event
        }))
    }
}

impl Watchers {
    pub(super) fn new(drops: Arc<Drops>, client: ClientId) -> Self {
        Watchers { drops, client, last_id: 0, by_path: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, path: Arc<str>, kind: Kind, permit: WatchPermit) -> Armed {
        self.last_id += 1;
        let id = self.last_id;
        let (event, fired) = oneshot::channel();
        self.by_path.entry(path).or_default().push(Watcher { id, kind, event });
        Armed {
            event: fired,
            guard: Guard { drops: Arc::clone(&self.drops), client: self.client, id, _permit: permit },
        }
    }

    /// Resolves every watch that waits for such an event.
    pub(super) fn fire(&mut self, path: &Arc<str>, event: Event) {
        let Some(watchers) = self.by_path.get_mut(path) else {
            return;
        };
        let wants = |watcher: &Watcher| match event {
            Event::NodeCreated | Event::NodeDataChanged => watcher.kind != Kind::Children,
            Event::NodeChildrenChanged => watcher.kind == Kind::Children,
            Event::NodeDeleted | Event::SessionEnded => true,
        };
        for watcher in watchers.extract_if(.., |watcher| wants(watcher)) {
            watcher.event.send(event).ok();
        }
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
    }

    /// Takes a dropped watch away. The path and kind if it was the last of its kind there.
    pub(super) fn remove(&mut self, id: u64) -> Option<(Arc<str>, bool)> {
        let (path, at) = self.by_path.iter().find_map(|(path, watchers)| {
            let at = watchers.iter().position(|watcher| watcher.id == id)?;
            Some((Arc::clone(path), at))
        })?;
        let watchers = self.by_path.get_mut(&path)?;
        let children = watchers.remove(at).kind == Kind::Children;
        let needed = watchers.iter().any(|watcher| (watcher.kind == Kind::Children) == children);
        if watchers.is_empty() {
            self.by_path.remove(&path);
        }
        (!needed).then_some((path, children))
    }

    /// The request that restores all watches on a new connection.
    pub(super) fn to_restore(&self, since: Zxid) -> Option<Request> {
        if self.by_path.is_empty() {
            return None;
        }
        let of = |kind: Kind| {
            let has = |watchers: &Vec<Watcher>| watchers.iter().any(|watcher| watcher.kind == kind);
            let with = self.by_path.iter().filter(|(_, watchers)| has(watchers));
            with.map(|(path, _)| Arc::clone(path)).collect()
        };
        Some(Request::SetWatches {
            since,
            data: of(Kind::Data),
            exists: of(Kind::Exists),
            children: of(Kind::Children),
        })
    }

    pub(super) fn end(&mut self) {
        for watcher in std::mem::take(&mut self.by_path).into_values().flatten() {
            watcher.event.send(Event::SessionEnded).ok();
        }
    }
}
