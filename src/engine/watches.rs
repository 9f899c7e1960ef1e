//! The watches of a session: which watches an event fires, and how they are restored on a new connection. No I/O.
//!
//! Paths are the server's, with the chroot.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::events::{Arrived, Event, PersistentEvent, WatchMode};
use crate::protocol::{
    AddWatchMode, SetWatches2Request, SetWatchesRequest, WatcherType, encode_request, ustring_len, xid,
};
use crate::util::mutex::{Mutex, MutexGuard};

/// The most bytes of paths in one request to restore watches. Stays below the server's limit for requests, as in the
/// Java client.
const RESTORED_AT_ONCE: usize = 128 * 1024 - 1024;
/// The lower bound of that number, however often restoring has failed.
const LEAST_RESTORED_AT_ONCE: usize = 4 * 1024;
/// More unread events than this become one [`PersistentEvent::Resync`].
const UNREAD: usize = 4096;

/// The kinds of watches. The Java client has a table for each, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Data,
    /// Armed by `exists` on a node that did not exist.
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Data, Kind::Exist, Kind::Child, Kind::Persistent, Kind::Recursive];

    pub(crate) const PERSISTENT: [Kind; 2] = [Kind::Persistent, Kind::Recursive];

    /// Returns the type under which the server keeps such a watch. Watches on existence are kept with those on data.
    pub(crate) fn at_server(self) -> WatcherType {
        match self {
            Kind::Data | Kind::Exist => WatcherType::Data,
            Kind::Child => WatcherType::Children,
            Kind::Persistent => WatcherType::Persistent,
            Kind::Recursive => WatcherType::PersistentRecursive,
        }
    }

    fn is_persistent(self) -> bool {
        self.at_server().is_persistent()
    }
}

impl From<WatchMode> for Kind {
    fn from(mode: WatchMode) -> Kind {
        match mode {
            WatchMode::Persistent => Kind::Persistent,
            WatchMode::PersistentRecursive => Kind::Recursive,
        }
    }
}

impl From<WatchMode> for AddWatchMode {
    fn from(mode: WatchMode) -> AddWatchMode {
        match mode {
            WatchMode::Persistent => AddWatchMode::Persistent,
            WatchMode::PersistentRecursive => AddWatchMode::PersistentRecursive,
        }
    }
}

/// The receiving side of an armed watch.
#[derive(Debug)]
pub(crate) enum Armed {
    Once(oneshot::Receiver<Arrived>),
    Persistent(Arc<EventQueue>),
}

#[derive(Debug)]
enum Holder {
    Once(oneshot::Sender<Arrived>),
    Persistent(Arc<EventQueue>),
}

/// The holders of each path, each with its number. Watches are restored in this order.
type Table = BTreeMap<Arc<str>, Vec<(u64, Holder)>>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    tables: [Table; Kind::ALL.len()],
    latest: u64,
    over: bool,
    /// Watches without a holder that the server of this connection may still keep.
    stale: BTreeMap<Arc<str>, Vec<WatcherType>>,
    is_restoring: bool,
    /// How often restoring has failed. Each failure halves the bytes of paths in one request.
    failed_restores: u32,
}

impl Watches {
    fn table(&mut self, kind: Kind) -> &mut Table {
        &mut self.tables[kind as usize]
    }

    /// Adds a holder. Returns its number, for [`disarm`](Self::disarm), and the receiving side.
    pub(crate) fn arm(&mut self, kind: Kind, path: &Arc<str>) -> (u64, Armed) {
        self.latest += 1;
        let number = self.latest;
        let (holder, armed) = if kind.is_persistent() {
            let queue = Arc::new(EventQueue::default());
            (Holder::Persistent(Arc::clone(&queue)), Armed::Persistent(queue))
        } else {
            let (event, fired) = oneshot::channel();
            (Holder::Once(event), Armed::Once(fired))
        };
        if self.over {
            holder.end();
        } else {
            self.table(kind).entry(Arc::clone(path)).or_default().push((number, holder));
        }
        (number, armed)
    }

    /// Removes a holder. After the last one the server's watch is [stale](Self::take_stale), unless it has fired.
    pub(crate) fn disarm(&mut self, kind: Kind, path: &Arc<str>, number: u64) {
        let table = self.table(kind);
        let Some(holders) = table.get_mut(path) else { return };
        let before = holders.len();
        holders.retain(|(other, _)| *other != number);
        let removed = holders.len() < before;
        if holders.is_empty() {
            table.remove(path);
        }
        if removed && !self.holds(kind.at_server(), path) {
            self.mark_stale(kind.at_server(), path);
        }
    }

    /// Records that the server may keep a watch without a holder.
    pub(crate) fn mark_stale(&mut self, watcher: WatcherType, path: &Arc<str>) {
        let stale = self.stale.entry(Arc::clone(path)).or_default();
        if !stale.contains(&watcher) {
            stale.push(watcher);
        }
    }

    /// Returns the paths of stale watches.
    pub(crate) fn stale_paths(&self) -> Vec<Arc<str>> {
        self.stale.keys().cloned().collect()
    }

    /// Takes the watches of a path that the server may keep without a holder. While the path has a persistent watch,
    /// one-shot watches stay stale: servers before 3.9 would remove the persistent watch with them.
    pub(crate) fn take_stale(&mut self, path: &Arc<str>) -> Vec<WatcherType> {
        let stale = self.stale.remove(path).unwrap_or_default();
        let stale = stale.into_iter().filter(|watcher| !self.holds(*watcher, path));
        let has_persistent = Kind::PERSISTENT.iter().any(|kind| self.holds(kind.at_server(), path));
        let (kept, removable) = stale.partition::<Vec<_>, _>(|watcher| has_persistent && !watcher.is_persistent());
        if !kept.is_empty() {
            self.stale.insert(Arc::clone(path), kept);
        }
        removable
    }

    /// Returns whether a watch that the server keeps as `watcher` for a path has a holder.
    fn holds(&self, watcher: WatcherType, path: &str) -> bool {
        let kept = Kind::ALL.into_iter().filter(|kind| kind.at_server() == watcher || watcher == WatcherType::Any);
        kept.into_iter().any(|kind| self.tables[kind as usize].contains_key(path))
    }

    /// Delivers an event of a node to all holders that watch for it. This uses up one-shot watches.
    pub(crate) fn fire(&mut self, event: Event, path: &str) {
        let spent: &[Kind] = match event {
            Event::NodeCreated | Event::NodeDataChanged => &[Kind::Data, Kind::Exist],
            Event::NodeChildrenChanged => &[Kind::Child],
            Event::NodeDeleted => &[Kind::Data, Kind::Exist, Kind::Child],
            Event::SessionEnded => &[],
        };
        for kind in spent {
            for (_, holder) in self.table(*kind).remove(path).into_iter().flatten() {
                if let Holder::Once(holder) = holder {
                    holder.send((event, Instant::now())).ok();
                }
            }
        }
        let fired = PersistentEvent::Node { path: path.to_owned(), event };
        self.push(Kind::Persistent, path, &fired);
        if event != Event::NodeChildrenChanged && !self.table(Kind::Recursive).is_empty() {
            for path in std::iter::once("/").chain(crate::util::path::ancestors(path)) {
                self.push(Kind::Recursive, path, &fired);
            }
        }
    }

    fn push(&mut self, kind: Kind, path: &str, event: &PersistentEvent) {
        for (_, holder) in self.table(kind).get(path).into_iter().flatten() {
            if let Holder::Persistent(queue) = holder {
                queue.push(event.clone());
            }
        }
    }

    /// Records that all watches are restored. Reports to persistent watches that events may be missing.
    pub(crate) fn resync(&mut self) {
        self.is_restoring = false;
        for kind in Kind::PERSISTENT {
            for (_, holder) in self.table(kind).values().flatten() {
                if let Holder::Persistent(queue) = holder {
                    queue.push(PersistentEvent::Resync);
                }
            }
        }
    }

    /// Ends all watches, because the session has ended.
    pub(crate) fn end(&mut self) {
        self.over = true;
        self.stale.clear();
        for table in &mut self.tables {
            for (_, holder) in std::mem::take(table).into_values().flatten() {
                holder.end();
            }
        }
    }

    /// Returns the requests that restore all watches on a new connection; the server then reports what happened after
    /// `zxid`.
    pub(crate) fn restore(&mut self, zxid: i64) -> Vec<BytesMut> {
        self.stale.clear();
        if std::mem::replace(&mut self.is_restoring, true) {
            // The previous attempt failed: the request may have been too long for the servers.
            self.failed_restores += 1;
        }
        let at_once = RESTORED_AT_ONCE.checked_shr(self.failed_restores).unwrap_or(0).max(LEAST_RESTORED_AT_ONCE);
        let persistent = self.tables.iter().skip(Kind::Persistent as usize).any(|table| !table.is_empty());
        let mut requests = Vec::new();
        let mut chunk: [Vec<&str>; Kind::ALL.len()] = Default::default();
        let mut bytes = 0;
        for kind in Kind::ALL {
            for path in self.tables[kind as usize].keys() {
                let length = ustring_len(path);
                if bytes + length > at_once && bytes > 0 {
                    requests.extend(set_watches(zxid, std::mem::take(&mut chunk), persistent));
                    bytes = 0;
                }
                chunk[kind as usize].push(path);
                bytes += length;
            }
        }
        if bytes > 0 {
            requests.extend(set_watches(zxid, chunk, persistent));
        }
        requests
    }
}

/// Encodes one request. Uses the older request, which servers before 3.6 know, if no persistent watch is armed.
fn set_watches(zxid: i64, paths: [Vec<&str>; Kind::ALL.len()], persistent: bool) -> Option<BytesMut> {
    let [data, exist, child, plain, persistent_recursive] = paths;
    let mut frame = BytesMut::new();
    let limit = usize::MAX;
    let encoded = if persistent {
        let request =
            SetWatches2Request { relative_zxid: zxid, data, exist, child, persistent: plain, persistent_recursive };
        encode_request(xid::SET_WATCHES, &request, limit, &mut frame)
    } else {
        let request = SetWatchesRequest { relative_zxid: zxid, data, exist, child };
        encode_request(xid::SET_WATCHES, &request, limit, &mut frame)
    };
    // A chunk is far below the longest frame.
    encoded.is_ok().then_some(frame)
}

impl Holder {
    fn end(self) {
        match self {
            Holder::Once(holder) => {
                holder.send((Event::SessionEnded, Instant::now())).ok();
            }
            Holder::Persistent(queue) => queue.end(),
        }
    }
}

/// The unread events of a persistent watch.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(Mutex<Unread>);

#[derive(Debug, Default)]
struct Unread {
    events: VecDeque<PersistentEvent>,
    over: bool,
    reader: Option<Waker>,
}

impl EventQueue {
    fn push(&self, event: PersistentEvent) {
        let mut unread = self.0.lock();
        if unread.events.len() >= UNREAD {
            unread.events.clear();
            unread.events.push_back(PersistentEvent::Resync);
        }
        if unread.events.back() != Some(&PersistentEvent::Resync) || event != PersistentEvent::Resync {
            unread.events.push_back(event);
        }
        wake(unread);
    }

    fn end(&self) {
        let mut unread = self.0.lock();
        unread.over = true;
        wake(unread);
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<PersistentEvent>> {
        let mut unread = self.0.lock();
        if let Some(event) = unread.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if unread.over {
            return Poll::Ready(None);
        }
        unread.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn wake(mut unread: MutexGuard<'_, Unread>) {
    let reader = unread.reader.take();
    drop(unread);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests;
