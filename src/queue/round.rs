//! What a consumer knows of the queue in one session, and what it waits for.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claimant, Tried};
use super::claimer::{Claimer, Order};
use super::heads::Heads;
use super::job::Settled;
use super::listing::{Listing, Look};
use super::serializer::Serializer;
use crate::backend::{self, Watch};
use crate::client::pool::Pool;
use crate::client::session::Condition;

/// What was seen; `None` if the session is over.
pub(super) type Listed = Result<Option<Listing>, backend::Error>;

pub(super) struct Round {
    claimant: Claimant,
    conditions: watch::Receiver<Condition>,
    /// What is tried next.
    pub(super) heads: Heads,
    /// Under way, in the order of the items: so they are handed out in it.
    pub(super) claims: Pool<(String, Tried)>,
    listing: Option<BoxFuture<'static, Listed>>,
    /// There may be items that were not seen.
    pub(super) stale: bool,
    /// Others are at work.
    contended: bool,
    items_watch: Option<Watch>,
    claims_watch: Option<Watch>,
    last_listed: Option<Instant>,
    /// No list before this.
    not_before: Option<Instant>,
}

/// What a consumer's task hears of.
pub(super) enum Next<T> {
    Order(Option<Order>),
    Settled(Settled<T>),
    Condition(Condition),
    /// The lease may be proven now.
    Proven,
    Tried(String, Tried),
    Listed(Listed),
    /// Items, or claims of others, have come or gone.
    Changed,
    Asked,
    Time,
}

impl Round {
    pub(super) fn new(claimant: Claimant) -> Self {
        let mut conditions = claimant.session.conditions();
        conditions.mark_changed();
        Round {
            claimant,
            conditions,
            heads: Heads::default(),
            claims: Pool::new(),
            listing: None,
            stale: true,
            contended: false,
            items_watch: None,
            claims_watch: None,
            last_listed: None,
            not_before: None,
        }
    }

    /// What happens next.
    pub(super) async fn next<S: Serializer>(&mut self, claimer: &mut Claimer<S>) -> Next<S::Item> {
        let session = &self.claimant.session;
        // Made before the lease is looked at, so no extension is missed.
        let extended = session.lease().extended();
        let unproven = claimer.shelf.ready() > 0 && session.grant().is_none();
        // A list that is overdue waits for something else, which is told.
        let now = Instant::now();
        let list = self.not_before.filter(|at| self.stale && *at > now);
        let time = [claimer.wake_at(), list].into_iter().flatten().min();
        let shelf = std::sync::Arc::clone(&claimer.shelf);
        tokio::select! {
            biased;
            Ok(()) = self.conditions.changed() => Next::Condition(*self.conditions.borrow_and_update()),
            order = claimer.orders.recv(), if !claimer.abandoned => Next::Order(order),
            // Before what was settled since: what it shows of that is old.
            listed = under_way(&mut self.listing) => {
                self.listing = None;
                Next::Listed(listed)
            }
            settled = claimer.settles.next() => Next::Settled(settled),
            (name, tried) = self.claims.next_in_order() => Next::Tried(name, tried),
            () = fired(&mut self.items_watch) => Next::Changed,
            () = fired(&mut self.claims_watch), if self.contended => Next::Changed,
            () = extended, if unproven => Next::Proven,
            () = shelf.asked() => Next::Asked,
            () = until(time) => Next::Time,
        }
    }

    pub(super) fn claim(&mut self, number: u64, name: String) {
        let claim = self.claimant.clone().claim(number, name.clone());
        self.claims.push(claim.map(|tried| (name, tried)));
    }

    /// Lists, if there may be something new to be seen, and it is time.
    pub(super) fn list(&mut self, now: Instant) {
        let busy = !self.heads.is_empty() || !self.claims.is_empty() || self.listing.is_some();
        if busy || !self.stale || self.not_before.is_some_and(|at| now < at) {
            return;
        }
        (self.stale, self.not_before, self.last_listed) = (false, None, Some(now));
        let look = Look {
            watch_items: self.items_watch.is_none(),
            claims: self.contended,
            watch_claims: self.claims_watch.is_none(),
        };
        self.listing = Some(self.claimant.clone().list(look).boxed());
    }

    /// Takes in what was listed. `start` decides where to start among others; so many are wanted at once.
    pub(super) fn see(
        &mut self,
        listing: Listing,
        start: Option<f64>,
        wanted: usize,
        is_ours: impl Fn(&str) -> bool,
        is_hidden: impl Fn(&str) -> bool,
    ) {
        self.items_watch = listing.items_watch.or(self.items_watch.take());
        self.claims_watch = listing.claims_watch.or(self.claims_watch.take());
        let mut free = listing.items;
        free.retain(|name| !is_ours(name));
        if let Some(claimed) = listing.claimed {
            let all = free.len();
            free.retain(|name| !claimed.contains(name));
            self.contended = free.len() < all;
        }
        free.retain(|name| !is_hidden(name));
        self.heads = Heads::of(free, start.filter(|_| self.contended), wanted);
        self.stale |= self.heads.is_empty() && self.heads.is_stale();
    }

    /// Somebody else has an item.
    pub(super) fn note_taken(&mut self) {
        self.contended = true;
        self.heads.note_miss();
    }

    /// If all that was listed was tried: what of it tells whether to look again, and when?
    pub(super) fn end_batch(&mut self, again: Duration) {
        if self.heads.is_empty() && self.claims.is_empty() {
            self.stale |= self.heads.is_stale();
            if self.heads.was_in_vain() {
                self.wait(again);
            }
            self.heads = Heads::default();
        }
    }

    /// No list for so long; then one.
    pub(super) fn wait(&mut self, time: Duration) {
        self.stale = true;
        self.not_before = self.not_before.max(Some(Instant::now() + time));
    }

    /// Something has come or gone. Alone, it is looked at at once; among others, not more often than that.
    pub(super) fn heed_change(&mut self, apart: Duration) {
        self.stale = true;
        if self.contended {
            self.not_before = self.not_before.max(self.last_listed.map(|last| last + apart));
        }
    }

    /// Nothing more will be claimed: what comes or goes is of no interest.
    pub(super) fn look_away(&mut self) {
        (self.items_watch, self.claims_watch) = (None, None);
    }

    /// There is a new connection: everything is looked at anew.
    pub(super) fn forget(&mut self) {
        self.heads.discard();
        self.stale = true;
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

async fn under_way(listing: &mut Option<BoxFuture<'static, Listed>>) -> Listed {
    match listing {
        Some(listing) => listing.await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
