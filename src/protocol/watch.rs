//! Watches: the events, and the requests that arm, restore and remove them.

use super::jute::{closed_codes, open_codes, record};
use super::request::request;

open_codes! {
    /// What happened to a watched node.
    EventType {
        /// About the session; `state` says what.
        None = -1,
        NodeCreated = 1,
        NodeDeleted = 2,
        NodeDataChanged = 3,
        NodeChildrenChanged = 4,
        DataWatchRemoved = 5,
        ChildWatchRemoved = 6,
        PersistentWatchRemoved = 7,
    }
}

open_codes! {
    /// The state of the session when the event was sent. 3.9 sends `SyncConnected` with every event of a node.
    KeeperState {
        Unknown = -1,
        Disconnected = 0,
        NoSyncConnected = 1,
        SyncConnected = 3,
        AuthFailed = 4,
        ConnectedReadOnly = 5,
        SaslAuthenticated = 6,
        Closed = 7,
        Expired = -112,
    }
}

closed_codes! {
    AddWatchMode {
        Persistent = 0,
        PersistentRecursive = 1,
    }
}

closed_codes! {
    /// Which watches of a node a request is about. Only servers from 3.9 on know the persistent ones.
    WatcherType {
        Children = 1,
        /// Includes those of `exists`.
        Data = 2,
        Any = 3,
        Persistent = 4,
        PersistentRecursive = 5,
    }
}

impl WatcherType {
    /// Returns whether such a watch fires more than once.
    pub(crate) fn is_persistent(self) -> bool {
        matches!(self, WatcherType::Persistent | WatcherType::PersistentRecursive)
    }
}

record! {
    /// The body of a frame with [`xid::NOTIFICATION`](super::xid::NOTIFICATION).
    WatcherEvent { event: EventType, state: KeeperState, path: String }
}

record! {
    /// Arms a persistent watch (3.6 and later).
    AddWatchRequest<'a> { path: &'a str, mode: AddWatchMode }
}

record! {
    /// Refused with `NoWatcher` if the session has none of them.
    RemoveWatchesRequest<'a> { path: &'a str, watcher: WatcherType }
}

record! {
    /// Asks whether the session has such a watch. The answer is `Ok` or `NoWatcher`.
    CheckWatchesRequest<'a> { path: &'a str, watcher: WatcherType }
}

record! {
    /// Restores one-shot watches after a reconnect; the server reports what happened since `relative_zxid` at once.
    SetWatchesRequest<'a> {
        relative_zxid: i64,
        data: Vec<&'a str>,
        exist: Vec<&'a str>,
        child: Vec<&'a str>,
    }
}

record! {
    /// Like [`SetWatchesRequest`], with persistent watches (3.6 and later). For these, the server does not report what
    /// happened in the meantime.
    SetWatches2Request<'a> {
        relative_zxid: i64,
        data: Vec<&'a str>,
        exist: Vec<&'a str>,
        child: Vec<&'a str>,
        persistent: Vec<&'a str>,
        persistent_recursive: Vec<&'a str>,
    }
}

request!(AddWatchRequest<'_> => AddWatch);
request!(RemoveWatchesRequest<'_> => RemoveWatches);
request!(CheckWatchesRequest<'_> => CheckWatches);
request!(SetWatchesRequest<'_> => SetWatches);
request!(SetWatches2Request<'_> => SetWatches2);
