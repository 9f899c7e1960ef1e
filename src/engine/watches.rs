//! The watches of a session: which event concerns which of them, and what restores them on a new connection. No I/O.
//!
//! Paths are those of the server, with the chroot.

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

/// A request to restore watches stays below the server's limit for requests, as in the Java client.
const RESTORED_AT_ONCE: usize = 128 * 1024 - 1024;
/// No fewer bytes of paths, however often that failed.
const LEAST_RESTORED_AT_ONCE: usize = 4 * 1024;
/// More unread events than this become one [`PersistentEvent::Resync`].
const UNREAD: usize = 4096;

/// The tables of the Java client, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Data,
    /// On a node that did not exist.
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Data, Kind::Exist, Kind::Child, Kind::Persistent, Kind::Recursive];

    pub(crate) const PERSISTENT: [Kind; 2] = [Kind::Persistent, Kind::Recursive];

    /// Returns where the server keeps such a watch: those on existence with those on data.
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

/// What a holder waits on.
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

/// By path, in the order in which they are restored; each holder with its number.
type Table = BTreeMap<Arc<str>, Vec<(u64, Holder)>>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    tables: [Table; Kind::ALL.len()],
    latest: u64,
    over: bool,
    /// Those that the server of this connection may still keep, although they have no holder.
    stale: BTreeMap<Arc<str>, Vec<WatcherType>>,
    is_restoring: bool,
    /// How often to restore them has failed: each time half as many go into one request.
    failed_restores: u32,
}

impl Watches {
    fn table(&mut self, kind: Kind) -> &mut Table {
        &mut self.tables[kind as usize]
    }

    /// Adds a holder, under a number that [`disarm`](Self::disarm) takes.
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

    /// Removes a holder. The server's watch is [stale](Self::take_stale) after the last one, unless it has fired.
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
            self.left_behind(kind.at_server(), path);
        }
    }

    /// Records that the server may keep a watch without a holder.
    pub(crate) fn left_behind(&mut self, watcher: WatcherType, path: &Arc<str>) {
        let stale = self.stale.entry(Arc::clone(path)).or_default();
        if !stale.contains(&watcher) {
            stale.push(watcher);
        }
    }

    /// Returns the paths that stale watches are on.
    pub(crate) fn stale_paths(&self) -> Vec<Arc<str>> {
        self.stale.keys().cloned().collect()
    }

    /// Takes the watches of a path that the server may keep without a holder. Beside a persistent watch those that fire
    /// once stay stale until that goes: servers before 3.9 would remove it together with them.
    pub(crate) fn take_stale(&mut self, path: &Arc<str>) -> Vec<WatcherType> {
        let stale = self.stale.remove(path).unwrap_or_default();
        let stale = stale.into_iter().filter(|watcher| !self.holds(*watcher, path));
        let beside = Kind::PERSISTENT.iter().any(|kind| self.holds(kind.at_server(), path));
        let (stay, go) = stale.partition::<Vec<_>, _>(|watcher| beside && !watcher.is_persistent());
        if !stay.is_empty() {
            self.stale.insert(Arc::clone(path), stay);
        }
        go
    }

    /// Returns whether there is a holder of what the server keeps as `watcher` for a path.
    fn holds(&self, watcher: WatcherType, path: &str) -> bool {
        let kept = Kind::ALL.into_iter().filter(|kind| kind.at_server() == watcher || watcher == WatcherType::Any);
        kept.into_iter().any(|kind| self.tables[kind as usize].contains_key(path))
    }

    /// Hands an event of a node to all holders that it concerns. It spends one-shot watches.
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
        let told = PersistentEvent::Node { path: path.to_owned(), event };
        self.tell(Kind::Persistent, path, &told);
        if event != Event::NodeChildrenChanged && !self.table(Kind::Recursive).is_empty() {
            for path in std::iter::once("/").chain(crate::util::path::ancestors(path)) {
                self.tell(Kind::Recursive, path, &told);
            }
        }
    }

    fn tell(&mut self, kind: Kind, path: &str, told: &PersistentEvent) {
        for (_, holder) in self.table(kind).get(path).into_iter().flatten() {
            if let Holder::Persistent(queue) = holder {
                queue.push(told.clone());
            }
        }
    }

    /// Notes that all watches are restored, and tells persistent ones that events may be missing.
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

    /// Ends all watches: the session is over.
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
            // Perhaps the servers do not read so long a request.
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

/// Encodes one request. Servers before 3.6 know only the older one, which is enough where no persistent watch is armed.
fn set_watches(zxid: i64, paths: [Vec<&str>; Kind::ALL.len()], persistent: bool) -> Option<BytesMut> {
    let [data, exist, child, standing, persistent_recursive] = paths;
    let mut frame = BytesMut::new();
    let limit = usize::MAX;
    let encoded = if persistent {
        let request =
            SetWatches2Request { relative_zxid: zxid, data, exist, child, persistent: standing, persistent_recursive };
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

/// The events of a persistent watch that its holder has not read yet.
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
