//! The state that the callers, the watches and the task of one session share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::events::Event;
use super::lacking_operations::LackingOperations;
use super::link::Link;
use super::outstanding::Entry;
use super::request_limit::RequestLimit;
use super::watches::{Armed, Kind, Watches};
use crate::protocol::{EventType, WatcherEvent, WatcherType};
use crate::util::clock::Clock;
use crate::util::mutex::Mutex;

/// The session's state outside its task.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link<HeldWatch>,
    pub(crate) watches: Mutex<Watches>,
    /// In milliseconds.
    timeout: AtomicU64,
    /// The latest zxid that an answer carried.
    pub(crate) zxid: AtomicI64,
    closing: watch::Sender<bool>,
    over: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(clock: Clock, limit: Arc<RequestLimit>, lacking: Arc<LackingOperations>) -> Self {
        Shared {
            link: Link::new(clock, limit, lacking),
            watches: Mutex::default(),
            timeout: AtomicU64::new(0),
            zxid: AtomicI64::new(0),
            closing: watch::Sender::new(false),
            over: watch::Sender::new(false),
        }
    }

    /// Returns the session timeout of the latest connection; zero before the first.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Relaxed))
    }

    pub(crate) fn set_timeout(&self, granted: Duration) {
        self.timeout.store(u64::try_from(granted.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Asks the task to close the session.
    pub(crate) fn close(&self) {
        self.link.close();
        self.closing.send_replace(true);
    }

    /// Resolves when the owner has asked to close the session.
    pub(crate) fn close_requested(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            closing.wait_for(|closing| *closing).await.ok();
        }
    }

    /// Marks the session as ended, which resolves every [`ended`](Self::ended).
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Resolves when the session has ended.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut over = self.over.subscribe();
        async move {
            // The sender is dropped with the session.
            over.wait_for(|over| *over).await.ok();
        }
    }

    /// Arms a watch on a path of the server.
    pub(crate) fn arm(shared: &Arc<Self>, kind: Kind, path: &Arc<str>) -> HeldWatch {
        let (number, armed) = shared.watches.lock().arm(kind, path);
        HeldWatch { armed, hold: Hold { shared: Arc::clone(shared), kind, path: Arc::clone(path), number } }
    }

    /// Delivers a server's event to the watches that it fires.
    pub(crate) fn fire(&self, event: &WatcherEvent) {
        let kind = match event.event {
            EventType::NodeCreated => Event::NodeCreated,
            EventType::NodeDeleted => Event::NodeDeleted,
            EventType::NodeDataChanged => Event::NodeDataChanged,
            EventType::NodeChildrenChanged => Event::NodeChildrenChanged,
            // The connection itself shows what session events report; no server sends the others.
            _ => return,
        };
        self.watches.lock().fire(kind, &event.path);
    }

    /// Stops counting a request that was answered in full. Then sends the removals of watches that waited for it.
    pub(crate) fn settled(&self, entry: &Entry<HeldWatch>) {
        self.link.settled(entry);
        if let Some(watch) = &entry.watch {
            self.remove_stale(&mut self.watches.lock(), &watch.path);
        }
    }

    /// Asks the server to remove the watches that were dropped while they were being restored.
    pub(crate) fn remove_all_stale(&self) {
        let mut watches = self.watches.lock();
        for path in watches.stale_paths() {
            self.remove_stale(&mut watches, &path);
        }
    }

    /// Asks the server to remove all watches of a path if none has a holder. For servers before 3.9, which cannot
    /// remove persistent watches alone.
    pub(crate) fn remove_any(&self, path: &Arc<str>) {
        let mut watches = self.watches.lock();
        watches.mark_stale(WatcherType::Any, path);
        self.remove_stale(&mut watches, path);
    }

    /// Asks the server to remove the stale watches of a path. Those that cannot be removed now stay stale.
    fn remove_stale(&self, watches: &mut Watches, path: &Arc<str>) {
        for watcher in watches.take_stale(path) {
            if !self.link.remove_watch(path, watcher) {
                watches.mark_stale(watcher, path);
            }
        }
    }
}

/// An armed watch, which is removed from the table when dropped.
pub(crate) struct HeldWatch {
    pub(crate) armed: Armed,
    pub(crate) hold: Hold,
}

/// Removes a watch when dropped.
pub(crate) struct Hold {
    shared: Arc<Shared>,
    kind: Kind,
    path: Arc<str>,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut watches = self.shared.watches.lock();
        watches.disarm(self.kind, &self.path, self.number);
        self.shared.remove_stale(&mut watches, &self.path);
    }
}
