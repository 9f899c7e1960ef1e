//! What a consumer sees of the queue in one session: the events of the servers, and the results of its requests.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claim, Claimant, End, Item};
use super::items::Change;
use crate::client::parents;
use crate::client::session::Condition;
use crate::engine::{self, Event, PersistentEvent, PersistentWatch, WatchMode};
use crate::layout::queue::Paths;
use crate::util::task_set::TaskSet;
use crate::util::wait::{fired, forever};

/// While items are wanted, they are listed again after this time: servers send no events about nodes that this client
/// may not read, and none when that changes.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The result of a listing.
#[derive(Debug)]
pub(super) struct Listing {
    /// The transaction that created the queue's own node, if that exists: a different one after the node was deleted
    /// and created again.
    pub(super) queue: Option<i64>,
    pub(super) items: Vec<String>,
    pub(super) claims: Vec<String>,
}

/// An event of the queue, or the result of a request.
pub(super) enum Seen {
    Condition(Condition),
    Listed(Result<Listing, engine::Error>),
    /// A child of the queue has changed.
    Item(String, Change),
    /// A claim or a lock of Curator has changed.
    Claim(String, Change),
    /// The queue was deleted.
    Deleted,
    /// Events may have been missed, or the queue was created.
    Missed,
    Read(String, Result<Item, End>),
    Claimed(String, Result<Claim, End>),
}

/// The watches that report all changes below the two directories, until the session ends.
struct Watches {
    items: PersistentWatch,
    claims: PersistentWatch,
}

pub(super) struct View {
    pub(super) claimant: Claimant,
    conditions: watch::Receiver<Condition>,
    watches: Option<Watches>,
    look: Option<BoxFuture<'static, Result<(Watches, Listing), engine::Error>>>,
    reads: TaskSet<(String, Result<Item, End>)>,
    /// In the order of the items, in which they are delivered.
    claims: TaskSet<(String, Result<Claim, End>)>,
    /// When the items were listed last.
    looked_at: Option<Instant>,
}

impl View {
    pub(super) fn new(claimant: Claimant) -> Self {
        let mut conditions = claimant.session.conditions();
        conditions.mark_changed();
        let (reads, claims) = (TaskSet::new(), TaskSet::new());
        View { claimant, conditions, watches: None, look: None, looked_at: None, reads, claims }
    }

    /// Waits for the next event. Events come before the answers that followed them, except for those that arrive just
    /// now.
    pub(super) async fn next(&mut self) -> Seen {
        tokio::select! {
            biased;
            Ok(()) = self.conditions.changed() => Seen::Condition(*self.conditions.borrow_and_update()),
            looked = fired(&mut self.look) => {
                self.look = None;
                Seen::Listed(looked.map(|(watches, listing)| {
                    self.watches = Some(watches);
                    listing
                }).inspect_err(|_| self.watches = None))
            }
            // While a listing is under way, the new watches report the same events.
            seen = told(&mut self.watches, &self.claimant.shared.paths), if self.look.is_none() => seen,
            (name, read) = self.reads.next() => Seen::Read(name, read),
            (name, claimed) = self.claims.next_in_order() => Seen::Claimed(name, claimed),
        }
    }

    /// Returns whether all changes of the queue are reported.
    pub(super) fn is_looking(&self) -> bool {
        self.watches.is_some()
    }

    /// Returns how many claims are under way.
    pub(super) fn claiming(&self) -> usize {
        self.claims.len()
    }

    pub(super) fn read(&mut self, name: String) {
        let read = self.claimant.clone().read(name.clone());
        self.reads.push(read.map(|read| (name, read)));
    }

    pub(super) fn claim(&mut self, name: String, item: Item) {
        let claim = self.claimant.clone().claim(name.clone(), item);
        self.claims.push(claim.map(|claim| (name, claim)));
    }

    /// Ensures that all changes are reported from now on. Returns when it has to be called again at the latest.
    pub(super) fn look(&mut self, now: Instant) -> Instant {
        let is_due = self.looked_at.is_none_or(|looked_at| looked_at + LOOK_AGAIN_AFTER <= now);
        if is_due || self.watches.is_none() {
            self.look_again(now);
        }
        let looked_at = self.looked_at.filter(|_| self.look.is_none());
        looked_at.unwrap_or(now) + LOOK_AGAIN_AFTER
    }

    /// Lists once more. The present watches are kept until then, so that they need not be removed on the servers.
    pub(super) fn look_again(&mut self, now: Instant) {
        if self.look.is_none() {
            self.looked_at = Some(now);
            self.look = Some(self.claimant.clone().look().boxed());
        }
    }

    /// Drops the watches, because nothing more will be claimed.
    pub(super) fn look_away(&mut self) {
        (self.watches, self.look) = (None, None);
    }

    /// Drops the reads, because other items may have the same names now.
    pub(super) fn forget_reads(&mut self) {
        self.reads = TaskSet::new();
    }
}

impl Claimant {
    /// Sets the watches and lists, in one flight. Changes between the two are in the lists, and are also reported as
    /// events. That is harmless, because only the last change of each node counts.
    async fn look(self) -> Result<(Watches, Listing), engine::Error> {
        let (session, Paths { items, claims, .. }) = (&self.session, &*self.shared.paths);
        let watch = |dir: &str| session.watch_persistent(dir, WatchMode::PersistentRecursive);
        let list = |dir: &str| {
            let listed = session.list_children(dir);
            async move {
                match listed.await {
                    Ok((children, stat)) => Ok((children, Some(stat.czxid))),
                    // The first put creates the queue.
                    Err(engine::Error::NoNode) => Ok((Vec::new(), None)),
                    Err(error) => Err(error),
                }
            }
        };
        let look = || {
            let (items_watch, claims_watch, items, claims) =
                session.together(|| (watch(items), watch(claims), list(items), list(claims)));
            async { futures::try_join!(items_watch, claims_watch, items, claims) }
        };
        let (items_watch, claims_watch, (items, queue), (claims, has_claims)) =
            session.retry_while_passing(look).await?;
        if has_claims.is_none() {
            // Once for all first claims. If it is refused, so are they, and report it. Without a root nothing comes.
            let made = parents::ensure(session, &self.shared.paths.claims, &[], &self.shared.core.config.acls).await;
            if made == Err(engine::Error::NoRoot) {
                return Err(engine::Error::NoRoot);
            }
        }
        Ok((Watches { items: items_watch, claims: claims_watch }, Listing { queue, items, claims }))
    }
}

/// Waits for the next relevant event of the servers.
async fn told(watches: &mut Option<Watches>, paths: &Arc<Paths>) -> Seen {
    while let Some(Watches { items, claims }) = watches {
        let (dir, told, of): (_, _, fn(String, Change) -> Seen) = tokio::select! {
            biased;
            told = items.next() => (&paths.items, told, Seen::Item),
            told = claims.next() => (&paths.claims, told, Seen::Claim),
        };
        match told {
            Some(PersistentEvent::Node { path, event }) if path == *dir => {
                match event {
                    Event::NodeDeleted if dir == &paths.items => return Seen::Deleted,
                    // A listing reads its transaction, which distinguishes it from the next queue at this path.
                    Event::NodeCreated if dir == &paths.items => return Seen::Missed,
                    _ => {}
                }
            }
            Some(PersistentEvent::Node { path, event }) => {
                if let (Some(name), Some(change)) = (child_of(dir, &path), change(event)) {
                    return of(name.to_owned(), change);
                }
            }
            Some(PersistentEvent::Resync) => return Seen::Missed,
            // The session has ended, which its condition reports.
            None => *watches = None,
        }
    }
    forever().await
}

/// Returns the name of a node, if it is a direct child of this directory.
fn child_of<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix(dir)?.strip_prefix('/')?;
    (!name.contains('/')).then_some(name)
}

fn change(event: Event) -> Option<Change> {
    match event {
        Event::NodeCreated => Some(Change::Came),
        Event::NodeDeleted => Some(Change::Went),
        Event::NodeDataChanged => Some(Change::Written),
        Event::NodeChildrenChanged | Event::SessionEnded => None,
    }
}
