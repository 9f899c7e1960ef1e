//! The watches of a session: which event concerns which of them, and what restores them on a new connection. No I/O.
//!
//! Paths are those of the server, with the chroot.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::backend::{Arrived, Event, PersistentEvent, WatchMode};
use crate::protocol::{
    AddWatchMode, SetWatches2Request, SetWatchesRequest, WatcherType, encode_request, ustring_len, xid,
};
use crate::util::mutex::{Mutex, MutexGuard};

/// A request to restore watches stays below the server's limit for requests, as in the Java client.
const RESTORED_AT_ONCE: usize = 128 * 1024 - 1024;
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
        matches!(self, Kind::Persistent | Kind::Recursive)
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

/// By path; each holder with its number.
type Table = HashMap<Arc<str>, Vec<(u64, Holder)>>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    tables: [Table; Kind::ALL.len()],
    latest: u64,
    over: bool,
    /// Watches that lost their last holder while there was no connection, since those to restore were listed.
    stale: Vec<(WatcherType, Arc<str>)>,
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

    /// Removes a holder. Returns whether the server's watch has no holder now; not if it has fired.
    pub(crate) fn disarm(&mut self, kind: Kind, path: &str, number: u64) -> bool {
        let table = self.table(kind);
        let Some(holders) = table.get_mut(path) else { return false };
        let before = holders.len();
        holders.retain(|(other, _)| *other != number);
        let removed = holders.len() < before;
        if holders.is_empty() {
            table.remove(path);
        }
        removed && !self.needs(kind.at_server(), path)
    }

    /// Records that the server could not be told to remove a watch.
    pub(crate) fn left_behind(&mut self, kind: Kind, path: &Arc<str>) {
        if !self.over {
            self.stale.push((kind.at_server(), Arc::clone(path)));
        }
    }

    /// Takes the watches that a server restored but no holder needs.
    pub(crate) fn take_stale(&mut self) -> Vec<(WatcherType, Arc<str>)> {
        let stale = std::mem::take(&mut self.stale);
        stale.into_iter().filter(|(watcher, path)| !self.needs(*watcher, path)).collect()
    }

    /// Returns whether a holder needs what the server keeps as `watcher` for `path`. A persistent watch counts for the
    /// one-shot ones too: servers before 3.9 remove it together with them.
    pub(crate) fn needs(&self, watcher: WatcherType, path: &str) -> bool {
        Kind::ALL.into_iter().any(|kind| {
            let same = kind.at_server() == watcher || watcher == WatcherType::Any;
            let beside =
                kind.is_persistent() && !matches!(watcher, WatcherType::Persistent | WatcherType::PersistentRecursive);
            (same || beside) && self.tables[kind as usize].contains_key(path)
        })
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
            for path in std::iter::once("/").chain(crate::path::ancestors(path)) {
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

    /// Tells persistent watches that events may be missing.
    pub(crate) fn resync(&mut self) {
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
        let persistent = self.tables.iter().skip(Kind::Persistent as usize).any(|table| !table.is_empty());
        let mut requests = Vec::new();
        let mut chunk: [Vec<&str>; Kind::ALL.len()] = Default::default();
        let mut bytes = 0;
        for kind in Kind::ALL {
            for path in self.tables[kind as usize].keys() {
                let length = ustring_len(path);
                if bytes + length > RESTORED_AT_ONCE && bytes > 0 {
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
mod tests {
    use super::*;
    use crate::protocol::{AnyRequest, decode_client_frame};

    fn arm(watches: &mut Watches, kind: Kind, path: &str) -> (u64, Armed) {
        watches.arm(kind, &Arc::from(path))
    }

    fn fired(armed: &mut Armed) -> Option<Event> {
        match armed {
            Armed::Once(fired) => fired.try_recv().ok().map(|(event, _)| event),
            Armed::Persistent(_) => None,
        }
    }

    fn read(armed: &Armed) -> Vec<PersistentEvent> {
        let Armed::Persistent(queue) = armed else { return Vec::new() };
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match queue.poll_next(&mut cx) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        })
        .collect()
    }

    fn node(path: &str, event: Event) -> PersistentEvent {
        PersistentEvent::Node { path: path.to_owned(), event }
    }

    #[test]
    fn an_event_spends_what_it_concerns() {
        use Event::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
        for (event, concerned) in [
            (NodeCreated, [true, true, false]),
            (NodeDataChanged, [true, true, false]),
            (NodeChildrenChanged, [false, false, true]),
            (NodeDeleted, [true, true, true]),
        ] {
            let mut watches = Watches::default();
            let mut armed = [Kind::Data, Kind::Exist, Kind::Child].map(|kind| arm(&mut watches, kind, "/a").1);
            let mut other = arm(&mut watches, Kind::Data, "/a/b").1;
            watches.fire(event, "/a");
            for (armed, concerned) in armed.iter_mut().zip(concerned) {
                assert_eq!(fired(armed), concerned.then_some(event), "{event:?}");
            }
            assert_eq!(fired(&mut other), None);
            watches.fire(NodeDeleted, "/a");
            let left: usize = watches.tables.iter().map(HashMap::len).sum();
            assert_eq!(left, 1, "{event:?}: only the other path is watched");
        }
    }

    #[test]
    fn a_watch_is_removed_with_its_last_holder() {
        let mut watches = Watches::default();
        let (first, _a) = arm(&mut watches, Kind::Data, "/a");
        let (second, _b) = arm(&mut watches, Kind::Data, "/a");
        let (exists, _c) = arm(&mut watches, Kind::Exist, "/a");
        let (child, _d) = arm(&mut watches, Kind::Child, "/a");
        assert!(!watches.disarm(Kind::Data, "/a", first));
        assert!(!watches.disarm(Kind::Data, "/a", first), "it is gone already");
        assert!(!watches.disarm(Kind::Data, "/a", second), "the server keeps it together with the one on existence");
        assert!(watches.disarm(Kind::Exist, "/a", exists));
        assert!(watches.disarm(Kind::Child, "/a", child));
        let (spent, _e) = arm(&mut watches, Kind::Data, "/a");
        watches.fire(Event::NodeDeleted, "/a");
        assert!(!watches.disarm(Kind::Data, "/a", spent), "the server's is spent as well");
        let (once, _f) = arm(&mut watches, Kind::Data, "/a");
        let (standing, _g) = arm(&mut watches, Kind::Persistent, "/a");
        assert!(!watches.disarm(Kind::Data, "/a", once), "old servers would remove both");
        assert!(watches.disarm(Kind::Persistent, "/a", standing));
        assert!(watches.tables.iter().all(HashMap::is_empty));
    }

    #[test]
    fn persistent_watches_hear_of_their_part_of_the_tree() {
        let mut watches = Watches::default();
        let (_, single) = arm(&mut watches, Kind::Persistent, "/a");
        let (_, below) = arm(&mut watches, Kind::Recursive, "/a");
        let (_, all) = arm(&mut watches, Kind::Recursive, "/");
        watches.fire(Event::NodeChildrenChanged, "/a");
        watches.fire(Event::NodeCreated, "/a/b");
        watches.fire(Event::NodeDataChanged, "/a");
        watches.fire(Event::NodeDeleted, "/ab");
        let (children, created) = (node("/a", Event::NodeChildrenChanged), node("/a/b", Event::NodeCreated));
        let (changed, deleted) = (node("/a", Event::NodeDataChanged), node("/ab", Event::NodeDeleted));
        assert_eq!(read(&single), [children, changed.clone()]);
        assert_eq!(read(&below), [created.clone(), changed.clone()]);
        assert_eq!(read(&all), [created, changed, deleted]);
    }

    #[test]
    fn too_many_unread_events_become_one_word() {
        let mut watches = Watches::default();
        let (_, armed) = arm(&mut watches, Kind::Persistent, "/a");
        for _ in 0..UNREAD + 10 {
            watches.fire(Event::NodeDataChanged, "/a");
        }
        let events = read(&armed);
        assert_eq!(events.len(), 11);
        assert_eq!(events[0], PersistentEvent::Resync);
        watches.resync();
        watches.resync();
        assert_eq!(read(&armed), [PersistentEvent::Resync], "twice says no more than once");
    }

    #[test]
    fn the_end_reaches_every_holder_also_one_that_comes_late() {
        let mut watches = Watches::default();
        let (_, mut once) = arm(&mut watches, Kind::Exist, "/a");
        let (_, standing) = arm(&mut watches, Kind::Recursive, "/a");
        watches.fire(Event::NodeCreated, "/a/b");
        watches.end();
        let (_, mut late) = arm(&mut watches, Kind::Data, "/a");
        assert_eq!(fired(&mut once), Some(Event::SessionEnded));
        assert_eq!(fired(&mut late), Some(Event::SessionEnded));
        assert_eq!(read(&standing).len(), 1, "what came before the end is read");
        let Armed::Persistent(queue) = &standing else { unreachable!() };
        assert!(matches!(queue.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }

    #[test]
    fn all_are_restored_in_chunks_that_a_server_reads() {
        let mut watches = Watches::default();
        let name = |number: usize| format!("/{number:0>90}");
        let mut kept: Vec<Armed> = Vec::new();
        for number in 0..5_000 {
            let kind = Kind::ALL[number % 3];
            kept.push(arm(&mut watches, kind, &name(number)).1);
        }
        let long = format!("/{}", "x".repeat(200_000));
        kept.push(arm(&mut watches, Kind::Child, &long).1);
        for persistent in [false, true] {
            if persistent {
                kept.push(arm(&mut watches, Kind::Persistent, "/p").1);
                kept.push(arm(&mut watches, Kind::Recursive, "/r").1);
            }
            let mut seen: Vec<String> = Vec::new();
            let mut latest = 0;
            let requests = watches.restore(77);
            assert!(requests.len() >= 5, "{}", requests.len());
            for request in requests {
                let frame = request.freeze().slice(4..);
                assert!(frame.len() < 128 * 1024 || frame.len() < 200_100, "{}", frame.len());
                let decoded = decode_client_frame(&frame).expect("a request");
                assert_eq!(decoded.header.xid, xid::SET_WATCHES);
                let lists = match decoded.request {
                    AnyRequest::SetWatches(set) if !persistent => {
                        assert_eq!(set.relative_zxid, 77);
                        [set.data, set.exist, set.child, Vec::new(), Vec::new()]
                    }
                    AnyRequest::SetWatches2(set) if persistent => {
                        assert_eq!(set.relative_zxid, 77);
                        [set.data, set.exist, set.child, set.persistent, set.persistent_recursive]
                    }
                    other => panic!("{other:?}"),
                };
                for (kind, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                    assert!(kind >= latest, "the order of the Java client");
                    latest = kind;
                    seen.extend(list.iter().map(|path| format!("{kind}{path}")));
                }
            }
            let mut expected: Vec<String> = watches
                .tables
                .iter()
                .enumerate()
                .flat_map(|(kind, table)| table.keys().map(move |path| format!("{kind}{path}")))
                .collect();
            expected.sort();
            seen.sort();
            assert_eq!(seen, expected);
        }
        assert!(Watches::default().restore(1).is_empty());
    }
}
