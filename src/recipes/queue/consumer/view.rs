//! How a consumer sees the queue in one session: the events of the servers, and the results of its own requests.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claim, ClaimError, Claimant, Item};
use super::items::Change;
use crate::client::parents;
use crate::client::session::Condition;
use crate::engine::{self, Event, PersistentEvent, PersistentWatch, WatchMode};
use crate::layout::queue::Paths;
use crate::util::task_set::TaskSet;
use crate::util::wait::{fired, forever};

/// While items are wanted, they are listed again after this time, because servers send no events about nodes that this
/// client may not read, and none when its permissions change.
const LIST_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The result of a listing.
#[derive(Debug)]
pub(super) struct Listing {
    /// The transaction that created the queue's own node, if the node exists. It is a different one after the node was
    /// deleted and created again.
    pub(super) queue: Option<i64>,
    pub(super) items: Vec<String>,
    pub(super) claims: Vec<String>,
}

/// An event of the queue, or the result of a request.
pub(super) enum ViewEvent {
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
    Read(String, Result<Item, ClaimError>),
    Claimed(String, Result<Claim, ClaimError>),
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
    listing: Option<BoxFuture<'static, Result<(Watches, Listing), engine::Error>>>,
    reads: TaskSet<(String, Result<Item, ClaimError>)>,
    /// In the order of the items, which is the order of their delivery.
    claims: TaskSet<(String, Result<Claim, ClaimError>)>,
    /// When the items were listed last.
    listed_at: Option<Instant>,
}

impl View {
    pub(super) fn new(claimant: Claimant) -> Self {
        let mut conditions = claimant.session.conditions();
        conditions.mark_changed();
        let (reads, claims) = (TaskSet::new(), TaskSet::new());
        View { claimant, conditions, watches: None, listing: None, listed_at: None, reads, claims }
    }

    /// Waits for the next event. An event is returned before the answers that followed it, unless it arrives during the
    /// call.
    pub(super) async fn next(&mut self) -> ViewEvent {
        tokio::select! {
            biased;
            Ok(()) = self.conditions.changed() => ViewEvent::Condition(*self.conditions.borrow_and_update()),
            listed = fired(&mut self.listing) => {
                self.listing = None;
                ViewEvent::Listed(listed.map(|(watches, listing)| {
                    self.watches = Some(watches);
                    listing
                }).inspect_err(|_| self.watches = None))
            }
            // While a listing is in flight, the new watches report the same events.
            event = next_change(&mut self.watches, &self.claimant.shared.paths), if self.listing.is_none() => event,
            (name, read) = self.reads.next() => ViewEvent::Read(name, read),
            (name, claimed) = self.claims.next_in_order() => ViewEvent::Claimed(name, claimed),
        }
    }

    /// Returns whether the watches report all changes of the queue.
    pub(super) fn is_watching(&self) -> bool {
        self.watches.is_some()
    }

    /// Returns how many claims are in flight.
    pub(super) fn claims_in_flight(&self) -> usize {
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

    /// Ensures that all changes are reported from now on. Returns by when it has to be called again.
    pub(super) fn ensure_watching(&mut self, now: Instant) -> Instant {
        let is_due = self.listed_at.is_none_or(|listed_at| listed_at + LIST_AGAIN_AFTER <= now);
        if is_due || self.watches.is_none() {
            self.list_again(now);
        }
        let listed_at = self.listed_at.filter(|_| self.listing.is_none());
        listed_at.unwrap_or(now) + LIST_AGAIN_AFTER
    }

    /// Lists again. The present watches are kept until the new ones are set, so that the servers need not remove them.
    pub(super) fn list_again(&mut self, now: Instant) {
        if self.listing.is_none() {
            self.listed_at = Some(now);
            self.listing = Some(self.claimant.clone().watch_and_list().boxed());
        }
    }

    /// Drops the watches, because no more items will be claimed.
    pub(super) fn stop_watching(&mut self) {
        (self.watches, self.listing) = (None, None);
    }

    /// Drops the reads, because other items may have the same names now.
    pub(super) fn forget_reads(&mut self) {
        self.reads = TaskSet::new();
    }
}

impl Claimant {
    /// Sets the watches and lists, in one flight. Changes between the two are in the lists and are reported as events,
    /// too. That is harmless, because only the last change of each node counts.
    async fn watch_and_list(self) -> Result<(Watches, Listing), engine::Error> {
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
        let request = || {
            let (items_watch, claims_watch, items, claims) =
                session.together(|| (watch(items), watch(claims), list(items), list(claims)));
            async { futures::try_join!(items_watch, claims_watch, items, claims) }
        };
        let (items_watch, claims_watch, (items, queue), (claims, has_claims)) =
            session.retry_while_transient(request).await?;
        if has_claims.is_none() {
            // Created once, for all first claims. If this is refused, the claims are refused too and report it. But
            // below a missing root there will be no claims.
            let made = parents::ensure(session, &self.shared.paths.claims, &[], &self.shared.core.config.acls).await;
            if made == Err(engine::Error::NoRoot) {
                return Err(engine::Error::NoRoot);
            }
        }
        Ok((Watches { items: items_watch, claims: claims_watch }, Listing { queue, items, claims }))
    }
}

/// Waits for the next event of the servers that matters.
async fn next_change(watches: &mut Option<Watches>, paths: &Arc<Paths>) -> ViewEvent {
    while let Some(Watches { items, claims }) = watches {
        let (dir, change, of): (_, _, fn(String, Change) -> ViewEvent) = tokio::select! {
            biased;
            change = items.next() => (&paths.items, change, ViewEvent::Item),
            change = claims.next() => (&paths.claims, change, ViewEvent::Claim),
        };
        match change {
            Some(PersistentEvent::Node { path, event }) if path == *dir => {
                match event {
                    Event::NodeDeleted if dir == &paths.items => return ViewEvent::Deleted,
                    // A listing reads which transaction created it, which no other queue at this path has in common.
                    Event::NodeCreated if dir == &paths.items => return ViewEvent::Missed,
                    _ => {}
                }
            }
            Some(PersistentEvent::Node { path, event }) => {
                if let (Some(name), Some(change)) = (child_of(dir, &path), change_of(event)) {
                    return of(name.to_owned(), change);
                }
            }
            Some(PersistentEvent::Resync) => return ViewEvent::Missed,
            // The session has ended, which its condition reports.
            None => *watches = None,
        }
    }
    forever().await
}

/// Returns the name of the node if it is a direct child of this directory.
fn child_of<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix(dir)?.strip_prefix('/')?;
    (!name.contains('/')).then_some(name)
}

fn change_of(event: Event) -> Option<Change> {
    match event {
        Event::NodeCreated => Some(Change::Created),
        Event::NodeDeleted => Some(Change::Deleted),
        Event::NodeDataChanged => Some(Change::Written),
        Event::NodeChildrenChanged | Event::SessionEnded => None,
    }
}
