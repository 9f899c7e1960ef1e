//! What a consumer sees of the queue in one session: listings, reads and claims that are under way, and watches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claim, Claimant, End, Item};
use super::plan::Candidates;
use crate::backend::{self, Watch};
use crate::client::pool::Pool;
use crate::client::session::Condition;
use crate::queue::names;

/// Among other consumers a change is looked at no sooner than this after the last listing.
const APART: Duration = Duration::from_millis(100);

/// What was listed.
#[derive(Debug)]
pub(super) struct Listing {
    /// The queue's own node: another one after it was deleted and created again.
    queue: i64,
    pub(super) children: Vec<String>,
    items_watch: Option<Watch>,
    /// The items that are claimed, if that was asked for.
    claimed: Option<BTreeSet<String>>,
    claims_watch: Option<Watch>,
}

/// What happened to the queue, or to a request.
pub(super) enum Seen {
    Condition(Condition),
    /// The lease may be valid now.
    Extended,
    Listed(Result<Listing, End>),
    Read(String, Result<Item, End>),
    Claimed(String, Result<Claim, End>),
    /// An item that was delivered too often became a dead letter, or not.
    Buried {
        name: String,
        attempts: u32,
        outcome: Result<(), End>,
    },
    /// Items, or claims of others, have come or gone.
    Changed,
}

pub(super) struct View {
    pub(super) claimant: Claimant,
    conditions: watch::Receiver<Condition>,
    pub(super) candidates: Candidates,
    reads: Pool<(String, Result<Item, End>)>,
    /// In the order of the items: so they are handed out.
    claims: Pool<(String, Result<Claim, End>)>,
    burials: Pool<(String, u32, Result<(), End>)>,
    listing: Option<BoxFuture<'static, Result<Listing, End>>>,
    /// There may be items that were not seen.
    stale: bool,
    /// How many items other consumers hold, or take while this one takes one; at least one if another consumer was met.
    theirs: usize,
    /// The order is everything: nothing is left to the others.
    strict: bool,
    /// So many candidates in a row that others were faster at.
    misses: usize,
    queue: Option<i64>,
    items_watch: Option<Watch>,
    claims_watch: Option<Watch>,
    last_listed: Option<Instant>,
    /// No listing before this.
    not_before: Option<Instant>,
}

impl View {
    pub(super) fn new(claimant: Claimant, strict: bool) -> Self {
        let mut conditions = claimant.session.conditions();
        conditions.mark_changed();
        View {
            claimant,
            conditions,
            candidates: Candidates::default(),
            reads: Pool::new(),
            claims: Pool::new(),
            burials: Pool::new(),
            listing: None,
            stale: true,
            theirs: 0,
            strict,
            misses: 0,
            queue: None,
            items_watch: None,
            claims_watch: None,
            last_listed: None,
            not_before: None,
        }
    }

    /// What happens next. `unproven` if it matters when the lease becomes valid.
    pub(super) async fn next(&mut self, unproven: bool) -> Seen {
        let session = &self.claimant.session;
        // Created before the lease is read, so no extension is missed.
        let extended = session.lease().extended();
        tokio::select! {
            biased;
            Ok(()) = self.conditions.changed() => Seen::Condition(*self.conditions.borrow_and_update()),
            listed = under_way(&mut self.listing) => {
                self.listing = None;
                Seen::Listed(listed)
            }
            (name, read) = self.reads.next() => Seen::Read(name, read),
            (name, claimed) = self.claims.next_in_order() => Seen::Claimed(name, claimed),
            (name, attempts, outcome) = self.burials.next() => Seen::Buried { name, attempts, outcome },
            () = fired(&mut self.items_watch) => Seen::Changed,
            () = fired(&mut self.claims_watch), if self.theirs > 0 => Seen::Changed,
            () = extended, if unproven => Seen::Extended,
        }
    }

    /// When a listing is due that has to wait.
    pub(super) fn list_at(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| self.stale && *at > now)
    }

    /// How many claims are under way.
    pub(super) fn claiming(&self) -> usize {
        self.claims.len()
    }

    pub(super) fn is_busy(&self) -> bool {
        !(self.claims.is_empty() && self.burials.is_empty())
    }

    pub(super) fn is_alone(&self) -> bool {
        self.theirs == 0
    }

    pub(super) fn read(&mut self, name: String) {
        let read = self.claimant.clone().read(name.clone());
        self.reads.push(read.map(|read| (name, read)));
    }

    pub(super) fn claim(&mut self, name: String, item: Item) {
        let claim = self.claimant.clone().claim(name.clone(), item);
        self.claims.push(claim.map(|claim| (name, claim)));
    }

    pub(super) fn bury(&mut self, name: String, item: Item, attempts: u32, reason: String) {
        let bury = self.claimant.clone().bury(name.clone(), item, reason);
        self.burials.push(bury.map(move |outcome| (name, attempts, outcome)));
    }

    /// Lists, if there may be something new to be seen, and it is time.
    pub(super) fn list(&mut self, now: Instant) {
        // What was left to others may still be there.
        self.stale |= self.candidates.is_partial();
        if !self.stale || self.listing.is_some() || self.not_before.is_some_and(|at| now < at) {
            return;
        }
        (self.stale, self.not_before, self.last_listed) = (false, None, Some(now));
        let look = Look {
            watch_items: self.items_watch.is_none(),
            claims: self.theirs > 0,
            watch_claims: self.claims_watch.is_none(),
        };
        self.listing = Some(self.claimant.clone().list(look).boxed());
    }

    /// Takes over a listing: this consumer has `ours` items in hand or wants them.
    pub(super) fn renew(
        &mut self,
        listing: Listing,
        ours: usize,
        is_open: impl Fn(&str) -> bool,
        is_ours: impl Fn(&str) -> bool,
    ) {
        self.items_watch = listing.items_watch.or(self.items_watch.take());
        self.claims_watch = listing.claims_watch.or(self.claims_watch.take());
        let mut free = names::in_order(listing.children);
        if let Some(mut claimed) = listing.claimed {
            claimed.retain(|name| !is_ours(name));
            let all = free.len();
            free.retain(|name| !claimed.contains(name));
            self.theirs = all - free.len();
        }
        free.retain(|name| is_open(name));
        self.misses = 0;
        self.candidates.renew(free, ours, self.theirs);
        self.theirs = self.theirs.max(self.candidates.rate_of_others().ceil() as usize);
        if self.strict {
            self.candidates.take_no_turns();
        }
    }

    /// Whether the queue was deleted and created again since the last look: its numbers begin again.
    pub(super) fn is_another(&mut self, listing: &Listing) -> bool {
        self.queue.replace(listing.queue).is_some_and(|before| before != listing.queue)
    }

    /// Another consumer was faster. After more misses in a row than there are others the listing is outdated.
    pub(super) fn note_miss(&mut self) {
        self.theirs = self.theirs.max(1);
        self.stale = true;
        self.misses += 1;
        self.candidates.note_miss();
        if self.misses > self.theirs + 1 {
            self.misses = 0;
            self.candidates.clear();
        }
    }

    pub(super) fn note_hit(&mut self) {
        self.misses = 0;
    }

    /// There may be items that were not seen.
    pub(super) fn note_stale(&mut self) {
        self.stale = true;
    }

    /// No listing for so long; then one.
    pub(super) fn wait(&mut self, time: Duration) {
        self.stale = true;
        self.not_before = self.not_before.max(Some(Instant::now() + time));
    }

    /// Something has come or gone. Alone, it is looked at at once; among others, not more often than that.
    pub(super) fn note_change(&mut self) {
        self.stale = true;
        if self.theirs > 0 {
            self.not_before = self.not_before.max(self.last_listed.map(|last| last + APART));
        }
    }

    /// Nothing more will be claimed: what comes or goes is of no interest.
    pub(super) fn look_away(&mut self) {
        (self.items_watch, self.claims_watch) = (None, None);
        self.candidates.clear();
    }

    /// The items are others now, though their names are the same.
    pub(super) fn forget_reads(&mut self) {
        self.candidates.clear();
        self.reads = Pool::new();
    }

    /// There is a new connection: everything is looked at again.
    pub(super) fn forget(&mut self) {
        self.candidates.clear();
        self.stale = true;
    }
}

/// What is to be listed.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// There is no watch on the items yet.
    watch_items: bool,
    /// Others are at work: the claims are to be seen too.
    claims: bool,
    /// There is no watch on the claims yet.
    watch_claims: bool,
}

/// The names, the directory's own transaction, and a watch if it was asked for.
type Children = (Vec<String>, i64, Option<Watch>);

impl Claimant {
    /// Lists, in one flight. The items come first: of one that is returned in between the claim is not seen, so it is tried; the
    /// other way round it could be passed over.
    async fn list(self, look: Look) -> Result<Listing, End> {
        loop {
            let connection = self.connected().await?;
            let items = self.children(&self.places.items, look.watch_items);
            let claims = look.claims.then(|| self.children(&self.places.claims, look.watch_claims));
            let claims = async {
                match claims {
                    Some(claims) => claims.await.map(Some),
                    None => Ok(None),
                }
            };
            let error = match futures::join!(items, claims) {
                (Ok((children, queue, items_watch)), Ok(claims)) => {
                    let (claimed, claims_watch) = match claims {
                        Some((claims, _, watch)) => (Some(claims.into_iter().collect()), watch),
                        None => (None, None),
                    };
                    return Ok(Listing { queue, children, items_watch, claimed, claims_watch });
                }
                (Err(backend::Error::NoNode), _) => match self.make(&self.places.items).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                (_, Err(backend::Error::NoNode)) => match self.make(&self.places.claims).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                (Err(error), _) | (_, Err(error)) => error,
            };
            self.wait_out(error, connection).await?;
        }
    }

    /// Asked for when this is called.
    fn children(&self, dir: &str, watch: bool) -> impl Future<Output = Result<Children, backend::Error>> + use<> {
        let session = Arc::clone(&self.session);
        let (watched, plain) = match watch {
            true => (Some(session.watch_children(dir)), None),
            false => (None, Some(session.list_children(dir))),
        };
        async move {
            match (watched, plain) {
                (Some(watched), _) => watched.await.map(|(children, stat, watch)| (children, stat.czxid, Some(watch))),
                (_, Some(plain)) => plain.await.map(|(children, stat)| (children, stat.czxid, None)),
                (None, None) => Ok((Vec::new(), 0, None)),
            }
        }
    }
}

async fn fired(watch: &mut Option<Watch>) {
    match watch {
        Some(armed) => {
            armed.await;
            *watch = None;
        }
        None => std::future::pending().await,
    }
}

async fn under_way(listing: &mut Option<BoxFuture<'static, Result<Listing, End>>>) -> Result<Listing, End> {
    match listing {
        Some(listing) => listing.await,
        None => std::future::pending().await,
    }
}
