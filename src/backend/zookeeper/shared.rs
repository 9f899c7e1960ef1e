//! What callers, watches and the task of one session share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::link::Link;
use super::lock;
use super::watches::{Armed, Kind, Watches};
use crate::backend::Event;
use crate::clock::Clock;
use crate::protocol::{EventType, WatcherEvent, WatcherType};

/// The session's state outside its task.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) link: Link<HeldWatch>,
    pub(super) watches: Mutex<Watches>,
    /// In milliseconds.
    timeout: AtomicU64,
    closing: watch::Sender<bool>,
    over: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(clock: Clock) -> Self {
        Shared {
            link: Link::new(clock),
            watches: Mutex::default(),
            timeout: AtomicU64::new(0),
            closing: watch::Sender::new(false),
            over: watch::Sender::new(false),
        }
    }

    /// The session timeout of the latest connection; zero before the first.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Relaxed))
    }

    pub(super) fn set_timeout(&self, granted: Duration) {
        self.timeout.store(u64::try_from(granted.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Asks for the end of the session.
    pub(super) fn close(&self) {
        self.link.close();
        self.closing.send_replace(true);
    }

    /// Resolves when the owner has asked for the end of the session.
    pub(super) fn close_requested(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            closing.wait_for(|closing| *closing).await.ok();
        }
    }

    /// Resolves every [`ended`](Self::ended).
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Resolves when the session has ended.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut over = self.over.subscribe();
        async move {
            // The sender is gone with the session.
            over.wait_for(|over| *over).await.ok();
        }
    }

    /// Arms a watch on a path of the server.
    pub(super) fn arm(shared: &Arc<Self>, kind: Kind, path: &Arc<str>) -> HeldWatch {
        let (number, armed) = lock(&shared.watches).arm(kind, path);
        HeldWatch { armed, hold: Hold { shared: Arc::clone(shared), kind, path: Arc::clone(path), number } }
    }

    /// Hands an event of the server to the watches that it fires.
    pub(super) fn fire(&self, event: &WatcherEvent) {
        let kind = match event.event {
            EventType::NodeCreated => Event::NodeCreated,
            EventType::NodeDeleted => Event::NodeDeleted,
            EventType::NodeDataChanged => Event::NodeDataChanged,
            EventType::NodeChildrenChanged => Event::NodeChildrenChanged,
            // What is said about the session is also seen on the connection; the others no server sends.
            _ => return,
        };
        lock(&self.watches).fire(kind, &event.path);
    }

    /// Tells the server of watches that were dropped while it restored them.
    pub(super) fn remove_stale(&self) {
        let mut watches = lock(&self.watches);
        for (watcher, path) in watches.take_stale() {
            self.link.remove_watch(&path, watcher);
        }
    }

    /// A server before 3.9 knows no way to remove persistent watches alone: all of the path go, if none is needed.
    pub(super) fn remove_any(&self, path: &Arc<str>) {
        let watches = lock(&self.watches);
        if !watches.needs(WatcherType::Any, path) {
            self.link.remove_watch(path, WatcherType::Any);
        }
    }
}

/// A watch and its place in the table.
pub(super) struct HeldWatch {
    pub(super) armed: Armed,
    pub(super) hold: Hold,
}

/// Takes a watch away when dropped.
pub(super) struct Hold {
    shared: Arc<Shared>,
    kind: Kind,
    path: Arc<str>,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut watches = lock(&self.shared.watches);
        if watches.disarm(self.kind, &self.path, self.number)
            && !self.shared.link.remove_watch(&self.path, self.kind.at_server())
        {
            watches.left_behind(self.kind, &self.path);
        }
    }
}
