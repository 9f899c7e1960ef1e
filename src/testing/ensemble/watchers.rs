//! The watches that the holder of a session has: which events they tell, and what becomes of those dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::drops::{Dropped, Drops};
use super::watching::upwards;
use super::wire::{Kind, Request, ServerWatch};
use super::{ClientId, Zxid};
use crate::backend::{Arrived, Event, PersistentEvent, PersistentWatch, Watch};

/// Where the events of a watch go.
#[derive(Debug)]
enum Teller {
    Once(oneshot::Sender<Arrived>),
    Lasting(mpsc::UnboundedSender<PersistentEvent>),
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    kind: Kind,
    teller: Teller,
}

impl Watcher {
    /// An error means that its holder has dropped it, which will be told.
    fn tell(&self, event: PersistentEvent) {
        if let Teller::Lasting(events) = &self.teller {
            events.send(event).ok();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Watchers {
    drops: Arc<Drops>,
    client: ClientId,
    last_id: u64,
    by_path: BTreeMap<Arc<str>, Vec<Watcher>>,
}

#[derive(Debug)]
enum Heard {
    Once(oneshot::Receiver<Arrived>),
    Lasting(mpsc::UnboundedReceiver<PersistentEvent>),
}

/// A watch on its way to its holder.
#[derive(Debug)]
pub(crate) struct Armed {
    heard: Heard,
    guard: Guard,
}

/// Tells when the watch is no longer wanted.
#[derive(Debug)]
struct Guard {
    drops: Arc<Drops>,
    client: ClientId,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.add(Dropped::Watch(self.client, self.id));
    }
}

impl Armed {
    /// None if it is a persistent one.
    pub(crate) fn into_watch(self) -> Option<Watch> {
        let Armed { heard: Heard::Once(event), guard } = self else {
            return None;
        };
        Some(Watch::new(Box::pin(async move {
            let arrived = event.await.unwrap_or_else(|_| (Event::SessionEnded, Instant::now()));
            drop(guard);
            arrived
        })))
    }

    /// None if it is a one-shot one.
    pub(crate) fn into_persistent(self) -> Option<PersistentWatch> {
        let Armed { heard: Heard::Lasting(events), guard } = self else {
            return None;
        };
        let events = futures::stream::unfold((events, guard), |(mut events, guard)| async move {
            let event = events.recv().await?;
            Some((event, (events, guard)))
        });
        Some(events.boxed())
    }
}

impl Watchers {
    pub(crate) fn new(drops: Arc<Drops>, client: ClientId) -> Self {
        Watchers { drops, client, last_id: 0, by_path: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, path: Arc<str>, kind: Kind) -> Armed {
        self.last_id += 1;
        let id = self.last_id;
        let (teller, heard) = match kind {
            Kind::Persistent | Kind::Recursive => {
                let (events, heard) = mpsc::unbounded_channel();
                (Teller::Lasting(events), Heard::Lasting(heard))
            }
            Kind::Data | Kind::Exists | Kind::Children => {
                let (event, heard) = oneshot::channel();
                (Teller::Once(event), Heard::Once(heard))
            }
        };
        self.by_path.entry(path).or_default().push(Watcher { id, kind, teller });
        Armed { heard, guard: Guard { drops: Arc::clone(&self.drops), client: self.client, id } }
    }

    /// Tells every watch that waits for such an event, and takes those away that it resolves.
    pub(crate) fn fire(&mut self, path: &Arc<str>, event: Event) {
        self.tell_persistent(path, event);
        let Some(watchers) = self.by_path.get_mut(path) else {
            return;
        };
        for watcher in watchers.extract_if(.., |watcher| watcher.kind.is_resolved_by(event)) {
            if let Teller::Once(teller) = watcher.teller {
                teller.send((event, Instant::now())).ok();
            }
        }
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
    }

    /// A recursive watch hears of nodes below its own, but not of lists of children: that one came for another watch.
    fn tell_persistent(&self, path: &Arc<str>, event: Event) {
        let told = |wanted: Kind, at: &str| {
            let watchers = self.by_path.get(at).into_iter().flatten();
            for watcher in watchers.filter(|watcher| watcher.kind == wanted) {
                watcher.tell(PersistentEvent::Node { path: path.to_string(), event });
            }
        };
        told(Kind::Persistent, path);
        if event != Event::NodeChildrenChanged {
            upwards(path).for_each(|above| told(Kind::Recursive, above));
        }
    }

    /// What happened while there was no connection is not replayed to persistent watches: they are told so.
    pub(crate) fn resync(&self) {
        for watcher in self.by_path.values().flatten() {
            watcher.tell(PersistentEvent::Resync);
        }
    }

    /// Takes a dropped watch away. Its path and kind if the server need not keep it for another one.
    pub(crate) fn remove(&mut self, id: u64) -> Option<(Arc<str>, ServerWatch)> {
        let (path, at) = self.by_path.iter().find_map(|(path, watchers)| {
            let at = watchers.iter().position(|watcher| watcher.id == id)?;
            Some((Arc::clone(path), at))
        })?;
        let watchers = self.by_path.get_mut(&path)?;
        let kind = watchers.remove(at).kind.at_server();
        if watchers.is_empty() {
            self.by_path.remove(&path);
        }
        (!self.needs(&path, kind)).then_some((path, kind))
    }

    /// Whether a watch needs what the server keeps so for this path.
    pub(crate) fn needs(&self, path: &str, kind: ServerWatch) -> bool {
        self.by_path.get(path).into_iter().flatten().any(|watcher| watcher.kind.at_server() == kind)
    }

    /// The request that restores all watches on a new connection.
    pub(crate) fn to_restore(&self, since: Zxid) -> Option<Request> {
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
            persistent: of(Kind::Persistent),
            recursive: of(Kind::Recursive),
        })
    }

    /// One-shot watches are told; the events of persistent ones end.
    pub(crate) fn end(&mut self) {
        for watcher in std::mem::take(&mut self.by_path).into_values().flatten() {
            if let Teller::Once(teller) = watcher.teller {
                teller.send((Event::SessionEnded, Instant::now())).ok();
            }
        }
    }
}
