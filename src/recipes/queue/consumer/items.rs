//! What a consumer knows about the items of a queue, and which of them it reads and claims next. Sends no request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::claim::Item;
use super::contention::{ContentionEstimate, MOST_EXPECTED};
use super::times::Times;
use crate::layout::queue::{Place, delayed_until_ms};
use crate::queue::history::Retry;

/// Replaces a time that the clock cannot represent.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// How long an item is hidden if it is free according to the events, but the servers refuse the claim.
const AFTER_CONTRADICTION: Duration = Duration::from_secs(1);
/// The most items that are read beyond those that are wanted, while many turn out to be delayed.
const MOST_READ_BEYOND: usize = 64;

/// The items. Those that are free are in the order of the queue.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The items in the queue, according to the servers.
    present: BTreeSet<String>,
    /// The items that have a claim, according to the servers.
    claimed: BTreeSet<String>,
    /// The items that this consumer has claimed or is claiming, in this session.
    own_claims: BTreeMap<String, ClaimState>,
    /// The items that this consumer does not claim for some time.
    hidden: Times<Instant>,
    /// The items that were returned with a delay, which the record in their data has: what it says, and until when this
    /// consumer waits at most. `None` for what this consumer has returned, and not read since. They are hidden until
    /// then, or until they are written. Kept after that, because one record is waited for only once.
    retries: BTreeMap<String, Option<(Retry, Instant)>>,
    /// The items that no consumer claims before the time of day in their names, in milliseconds since 1970.
    delayed: Times<i64>,
    /// The time of day up to which delayed items have been made available.
    shown_by: i64,
    /// How many items are read beyond those that are wanted, because others turned out to be delayed.
    read_beyond: usize,
    /// The items in the queue that are not claimed, not in `own_claims`, not hidden, and not delayed.
    free: BTreeMap<Place, Free>,
    contention: ContentionEstimate,
}

/// An item that this consumer may claim.
#[derive(Debug)]
struct Free {
    content: Content,
    since: Instant,
}

#[derive(Debug)]
enum Content {
    Unread,
    /// It is being read; the read began at this time.
    Reading(Instant),
    /// The data that was read. It is up to date: every write of an item is a claim on it, and the servers report that.
    Read(Item),
}

impl Free {
    /// Returns whether the item has been read or is being read.
    fn is_begun(&self) -> bool {
        !matches!(self.content, Content::Unread)
    }

    /// Records that the read of the item begins, and returns its name.
    fn begin(&mut self, name: &str, now: Instant) -> String {
        self.content = Content::Reading(now);
        name.to_owned()
    }
}

/// The state of a claim of this consumer. A claim is identified by the transaction that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    /// Its transaction is in flight.
    Claiming,
    Held(i64),
    /// The item is being returned to its place, to be claimed again at once. Nothing else is claimed until then.
    Returning(i64),
}

/// The next steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) read: Vec<String>,
    pub(super) claim: Vec<(String, Item)>,
    /// When there will be more to do, even if no event comes.
    pub(super) again_at: Option<Instant>,
}

/// A change of a node, as the servers reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Deleted,
    Written,
}

impl Items {
    /// Returns the number of items in the queue, and how many of them are claimed.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.present.len(), self.claimed.len())
    }

    /// Forgets everything but the hidden items, because claims and events end with the session.
    pub(super) fn end_session(&mut self) {
        let (hidden, retries) = (std::mem::take(&mut self.hidden), std::mem::take(&mut self.retries));
        *self = Items { hidden, retries, ..Items::default() };
    }

    /// Forgets the data of the items, because events may have been missed. The servers refuse a claim that relies on
    /// other outdated facts, but would not notice outdated data. Items that were returned with a delay stay hidden, so
    /// that many of them are not read again each time the connection is lost.
    pub(super) fn forget_contents(&mut self) {
        self.free.values_mut().for_each(|free| free.content = Content::Unread);
    }

    /// Starts over after the queue was deleted: the next items are different ones, even if they have the same names.
    pub(super) fn start_over(&mut self) {
        (self.present, self.free, self.delayed) = Default::default();
        (self.hidden, self.retries) = Default::default();
        self.own_claims.retain(|_, state| *state == ClaimState::Claiming);
    }

    /// Replaces what is known by a listing.
    pub(super) fn list(
        &mut self,
        present: impl Iterator<Item = String>,
        claimed: impl Iterator<Item = String>,
        now: Instant,
    ) {
        self.free.clear();
        (self.present, self.claimed) = (present.collect(), claimed.collect());
        self.hidden.retain(|name| self.present.contains(name));
        self.retries.retain(|name, _| self.present.contains(name));
        self.delayed.retain(|name| self.present.contains(name));
        self.delay_by_names(i64::MIN, now);
        let names: Vec<String> = self.present.iter().cloned().collect();
        names.iter().for_each(|name| self.update_free(name, now));
    }

    /// Delays all items with a time in their names that is later than `after`. Those whose time has come are
    /// [shown](Self::show_due) next.
    fn delay_by_names(&mut self, after: i64, now: Instant) {
        let times = self.present.iter().filter_map(|name| Some((name.clone(), delayed_until_ms(name)?)));
        for (name, time) in times.filter(|(_, time)| *time > after).collect::<Vec<_>>() {
            self.delay(&name, time, now);
        }
    }

    fn delay(&mut self, name: &str, until: i64, now: Instant) {
        self.delayed.insert(name, until);
        self.update_free(name, now);
    }

    pub(super) fn note_item(&mut self, name: &str, change: Change, now: Instant) {
        // After any change the data that was read is outdated.
        self.free.remove(&Place::of(name));
        self.delayed.remove(name);
        match change {
            Change::Created | Change::Written => {
                if change == Change::Created {
                    self.present.insert(name.to_owned());
                } else if self.retries.contains_key(name) {
                    // The record may be another one.
                    self.hidden.remove(name);
                }
                if let Some(time) = delayed_until_ms(name) {
                    self.delay(name, time, now);
                }
            }
            Change::Deleted => {
                self.present.remove(name);
                self.hidden.remove(name);
                self.retries.remove(name);
            }
        }
        self.update_free(name, now);
    }

    pub(super) fn note_claim(&mut self, name: &str, change: Change, now: Instant) {
        match change {
            Change::Created => {
                self.claimed.insert(name.to_owned());
                if !self.own_claims.contains_key(name) {
                    self.contention.note_other();
                }
            }
            Change::Written => {}
            Change::Deleted => drop(self.claimed.remove(name)),
        }
        self.update_free(name, now);
    }

    /// Adds the item to the free ones or removes it from them, by what is known.
    fn update_free(&mut self, name: &str, now: Instant) {
        let taken = self.claimed.contains(name) || self.own_claims.contains_key(name);
        let waits = self.hidden.contains(name) || self.delayed.contains(name);
        let place = Place::of(name);
        if taken || waits || !self.present.contains(name) {
            self.free.remove(&place);
        } else {
            self.free.entry(place).or_insert(Free { content: Content::Unread, since: now });
        }
    }

    /// Plans the reads and claims so that `wanted` items are claimed. If there are no other consumers, the data of so
    /// many more items as `ahead` is read, and these are not claimed yet. Items are claimed in order, except that those
    /// reserved for other consumers are skipped.
    pub(super) fn plan(&mut self, wanted: usize, ahead: usize, now: Instant) -> Steps {
        let mut steps = Steps::default();
        if self.is_alone() {
            let most = if wanted + ahead > 0 { wanted + ahead + self.read_beyond } else { 0 };
            let first = self.free.iter_mut().take(most).filter(|(_, free)| !free.is_begun());
            steps.read = first.map(|(place, free)| free.begin(place.name(), now)).collect();
        } else if wanted > 0 {
            self.plan_reads_among_others(wanted, &mut steps, now);
        }
        if wanted == 0 {
            self.contention.stop_waiting();
        }
        self.plan_claims(wanted, &mut steps);
        steps
    }

    /// Plans the reads while other consumers claim too: begins as many items as are wanted, and skips those that are
    /// reserved for the others.
    fn plan_reads_among_others(&mut self, wanted: usize, steps: &mut Steps, now: Instant) {
        // An item that was read is claimed, even if there are older ones by now: a read costs as much as a claim.
        let begun = self.free.values().take(MOST_EXPECTED + wanted).filter(|free| free.is_begun()).count();
        let mut to_begin = (wanted + self.read_beyond).saturating_sub(begun);
        // The others have as many claims in flight as this consumer has, in proportion to their speed.
        let at_once = (wanted.max(begun.saturating_sub(self.read_beyond)) + self.claims_in_flight()).max(1);
        let reserved = self.contention.reserved_for_others(at_once);
        for (nth, (place, free)) in self.free.iter_mut().enumerate().filter(|(_, (_, free))| !free.is_begun()) {
            if to_begin == 0 {
                break;
            }
            let reserved_for = reserved.saturating_sub(nth).div_ceil(at_once);
            match self.contention.due(reserved_for, free.since, now) {
                Some(due) => steps.again_at = steps.again_at.into_iter().chain([due]).min(),
                None => {
                    to_begin -= 1;
                    steps.read.push(free.begin(place.name(), now));
                }
            }
        }
    }

    /// Plans the claims, in order, up to the first item that is still being read. Skips unread items, which are
    /// reserved for others.
    fn plan_claims(&mut self, most: usize, steps: &mut Steps) {
        let begun = self.free.iter().take(MOST_EXPECTED + most).filter(|(_, free)| free.is_begun());
        let read = begun.take(most).take_while(|(_, free)| matches!(free.content, Content::Read(_)));
        let places: Vec<Place> = read.map(|(place, _)| place.clone()).collect();
        for place in places {
            if let Some(Free { content: Content::Read(item), .. }) = self.free.remove(&place) {
                let name = place.name().to_owned();
                self.own_claims.insert(name.clone(), ClaimState::Claiming);
                steps.claim.push((name, item));
            }
        }
    }

    /// Returns how many claims are in flight.
    fn claims_in_flight(&self) -> usize {
        self.own_claims.values().filter(|state| **state == ClaimState::Claiming).count()
    }

    fn is_alone(&self) -> bool {
        !self.contention.is_contended() && self.claimed.iter().all(|name| self.own_claims.contains_key(name))
    }

    pub(super) fn note_read(&mut self, name: &str, item: Item, now: Instant) {
        if let Some(Free { content, .. }) = self.free.get_mut(&Place::of(name))
            && let Content::Reading(since) = content
        {
            self.contention.note_answer(now.duration_since(*since));
            *content = Content::Read(item);
            self.read_beyond /= 2;
        }
    }

    /// Records that the item was read, and that it was returned with a delay of which so much is left. It does not
    /// count as available until then, and is read again after that. Returns false if this consumer has waited for that
    /// already: the clock that the record was written by may be fast.
    pub(super) fn note_delayed(&mut self, name: &str, retry: Retry, left: Duration, now: Instant) -> bool {
        let Some(Free { content: Content::Reading(since), .. }) = self.free.get(&Place::of(name)) else { return false };
        let until = match self.retries.get(name) {
            Some(Some((known, until))) if *known == retry => (*until).min(now + left),
            _ => now + left,
        };
        if until <= now {
            return false;
        }
        self.contention.note_answer(now.duration_since(*since));
        self.read_beyond = (2 * self.read_beyond).clamp(1, MOST_READ_BEYOND);
        self.retries.insert(name.to_owned(), Some((retry, until)));
        self.hide(name, until - now, now);
        true
    }

    /// Records that this consumer has returned the item with a delay, which the item's record has.
    pub(super) fn note_returned(&mut self, name: &str, delay: Duration, now: Instant) {
        self.retries.insert(name.to_owned(), None);
        self.give_up(name, delay, now);
    }

    pub(super) fn is_being_read(&self, name: &str) -> bool {
        self.free.get(&Place::of(name)).is_some_and(|free| matches!(free.content, Content::Reading(_)))
    }

    /// Records that this transaction made a claim of this consumer.
    pub(super) fn note_own(&mut self, name: String, zxid: i64) {
        self.contention.note_own();
        self.own_claims.insert(name, ClaimState::Held(zxid));
    }

    /// Records that another consumer was faster.
    pub(super) fn note_miss(&mut self, name: &str, chance: f64, now: Instant) {
        self.note_unavailable(name, now);
        if self.claimed.contains(name) {
            self.contention.note_miss(chance, self.claims_in_flight());
        }
    }

    /// Records that the servers refused the claim because the item is not free. Usually an event has reported why.
    pub(super) fn note_unavailable(&mut self, name: &str, now: Instant) {
        self.remove_own_claim(name, now);
        if self.free.contains_key(&Place::of(name)) {
            self.hide(name, AFTER_CONTRADICTION, now);
        }
    }

    /// Records that this consumer has no claim on the item any more.
    pub(super) fn remove_own_claim(&mut self, name: &str, now: Instant) {
        self.own_claims.remove(name);
        self.update_free(name, now);
    }

    /// Marks the item to be read again, after a read failed or the item was written.
    pub(super) fn read_again(&mut self, name: &str, now: Instant) {
        self.free.remove(&Place::of(name));
        self.remove_own_claim(name, now);
    }

    /// Returns whether this transaction made the claim that this consumer has on the item. In an earlier session or
    /// queue it may have claimed an item of the same name.
    pub(super) fn is_own_claim(&self, name: &str, zxid: i64) -> bool {
        matches!(self.own_claims.get(name), Some(ClaimState::Held(by) | ClaimState::Returning(by)) if *by == zxid)
    }

    /// Records that the item is about to be free again.
    pub(super) fn note_returning(&mut self, name: &str, zxid: i64) {
        self.set_claim_state(name, zxid, ClaimState::Returning(zxid));
    }

    /// Records that the item could not be returned.
    pub(super) fn note_kept(&mut self, name: &str, zxid: i64) {
        self.set_claim_state(name, zxid, ClaimState::Held(zxid));
    }

    fn set_claim_state(&mut self, name: &str, zxid: i64, state: ClaimState) {
        if self.is_own_claim(name, zxid) {
            self.own_claims.insert(name.to_owned(), state);
        }
    }

    pub(super) fn is_returning(&self) -> bool {
        self.own_claims.values().any(|state| matches!(state, ClaimState::Returning(_)))
    }

    pub(super) fn own_claim_count(&self) -> usize {
        self.own_claims.len()
    }

    /// Records that this consumer has no claim on the item any more, and does not claim it again for `hide`.
    pub(super) fn give_up(&mut self, name: &str, hide: Duration, now: Instant) {
        if hide > Duration::ZERO {
            self.hide(name, hide, now);
        }
        self.remove_own_claim(name, now);
    }

    /// Hides the item for `time`, in which this consumer does not claim it.
    pub(super) fn hide(&mut self, name: &str, time: Duration, now: Instant) {
        self.hidden.insert(name, now.checked_add(time).unwrap_or(now + FOREVER));
        self.update_free(name, now);
    }

    /// Shows the hidden items whose time is over.
    pub(super) fn show_hidden(&mut self, now: Instant) {
        while let Some(name) = self.hidden.pop_due(now) {
            self.update_free(&name, now);
        }
    }

    /// Returns when the next hidden item is shown.
    pub(super) fn shown_at(&self) -> Option<Instant> {
        self.hidden.first()
    }

    /// Makes the delayed items available whose time has come by this time of day, and none of the others.
    pub(super) fn show_due(&mut self, time_of_day: i64, now: Instant) {
        if time_of_day < self.shown_by {
            // The clock was set back.
            self.delay_by_names(time_of_day, now);
        }
        self.shown_by = time_of_day;
        while let Some(name) = self.delayed.pop_due(time_of_day) {
            self.update_free(&name, now);
        }
    }

    /// Returns the time of day of the next delayed item.
    pub(super) fn next_due(&self) -> Option<i64> {
        self.delayed.first()
    }
}

#[cfg(test)]
mod tests;
