//! What a consumer knows of the items of a queue, and the decision which items it reads and claims next. Sends no
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::claim::Item;
use super::turn::{MOST, Turn};

/// Replaces a time that the clock cannot represent.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// How long an item is left alone if it is free according to the events, but the servers refuse the claim.
const CONTRADICTED: Duration = Duration::from_secs(1);

/// The items by their names, and so in the order of the queue.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The items in the queue, according to the servers.
    present: BTreeSet<String>,
    /// The items that have a claim, according to the servers.
    claimed: BTreeSet<String>,
    /// The items that this consumer has claimed in this session, or is about to claim.
    in_hand: BTreeMap<String, Hand>,
    /// The items that this consumer does not claim before some time.
    hidden: Hidden,
    /// The items in the queue that are neither claimed, nor in hand, nor hidden.
    free: BTreeMap<String, Free>,
    turn: Turn,
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
    /// It is being read since then.
    Reading(Instant),
    /// The data that was read. It is current: a write of the item is a claim on it, which is reported.
    Read(Item),
}

impl Free {
    /// Returns whether it was read, or is being read.
    fn is_begun(&self) -> bool {
        !matches!(self.content, Content::Unread)
    }

    /// Records that it is being read from now on, and returns its name.
    fn begin(&mut self, name: &str, now: Instant) -> String {
        self.content = Content::Reading(now);
        name.to_owned()
    }
}

/// An item that this consumer has in hand. A claim is identified by the transaction that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    /// Its claim is under way.
    Claiming,
    Held(i64),
    /// It is being returned to its place, to be claimed again at once: no later one is claimed before.
    Returning(i64),
}

/// The next steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) read: Vec<String>,
    pub(super) claim: Vec<(String, Item)>,
    /// When there will be more to do, even if nothing happens.
    pub(super) again_at: Option<Instant>,
}

/// A change of a node, as the servers reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Came,
    Went,
    Written,
}

impl Items {
    /// Returns how many items the servers have, and how many of these are claimed.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.present.len(), self.claimed.len())
    }

    /// Forgets everything but the hidden items, because claims and events end with the session.
    pub(super) fn end_session(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        *self = Items { hidden, ..Items::default() };
    }

    /// Forgets the data of the items, because events may have been missed. The servers refuse steps that rely on other
    /// outdated facts, but would not notice outdated data.
    pub(super) fn forget_contents(&mut self) {
        self.free.values_mut().for_each(|free| free.content = Content::Unread);
    }

    /// Starts over after the queue was deleted: the next items are different ones, even if they have the same names.
    pub(super) fn start_over(&mut self) {
        (self.present, self.free, self.hidden) = Default::default();
        self.in_hand.retain(|_, hand| *hand == Hand::Claiming);
    }

    /// Takes over a listing.
    pub(super) fn list(
        &mut self,
        present: impl Iterator<Item = String>,
        claimed: impl Iterator<Item = String>,
        now: Instant,
    ) {
        self.free.clear();
        (self.present, self.claimed) = (present.collect(), claimed.collect());
        self.hidden.retain(|name| self.present.contains(name));
        let names: Vec<String> = self.present.iter().cloned().collect();
        names.iter().for_each(|name| self.sort(name, now));
    }

    pub(super) fn note_item(&mut self, name: &str, change: Change, now: Instant) {
        // After any change the data that was read is outdated.
        self.free.remove(name);
        match change {
            Change::Came => drop(self.present.insert(name.to_owned())),
            Change::Written => {}
            Change::Went => {
                self.present.remove(name);
                self.hidden.remove(name);
            }
        }
        self.sort(name, now);
    }

    pub(super) fn note_claim(&mut self, name: &str, change: Change, now: Instant) {
        match change {
            Change::Came => {
                self.claimed.insert(name.to_owned());
                if !self.in_hand.contains_key(name) {
                    self.turn.note_other();
                }
            }
            Change::Written => {}
            Change::Went => drop(self.claimed.remove(name)),
        }
        self.sort(name, now);
    }

    /// Adds the item to the free ones, or removes it from them.
    fn sort(&mut self, name: &str, now: Instant) {
        let taken = self.claimed.contains(name) || self.in_hand.contains_key(name) || self.hidden.contains(name);
        if taken || !self.present.contains(name) {
            self.free.remove(name);
        } else if !self.free.contains_key(name) {
            self.free.insert(name.to_owned(), Free { content: Content::Unread, since: now });
        }
    }

    /// Plans the reads and claims, so that `wanted` items are claimed, and `ahead` more are read ahead if there are no
    /// other consumers. In order: no item is claimed before an older free one, except for those that are left to
    /// others.
    pub(super) fn plan(&mut self, wanted: usize, ahead: usize, now: Instant) -> Steps {
        let mut steps = Steps::default();
        if self.is_alone() {
            let first = self.free.iter_mut().take(wanted + ahead).filter(|(_, free)| !free.is_begun());
            steps.read = first.map(|(name, free)| free.begin(name, now)).collect();
        } else if wanted > 0 {
            self.take_turns(wanted, &mut steps, now);
        }
        if wanted == 0 {
            self.turn.rest();
        }
        self.claim_what_is_read(wanted, &mut steps);
        steps
    }

    /// Plans the reads among other consumers: begins as many items as are wanted, except for those that are left to
    /// others.
    fn take_turns(&mut self, wanted: usize, steps: &mut Steps, now: Instant) {
        // An item that was read is claimed, even if there are older ones by now: a read costs as much as a claim.
        let begun = self.free.values().take(MOST + wanted).filter(|free| free.is_begun()).count();
        let mut to_begin = wanted.saturating_sub(begun);
        // The others have as many claims on the way as this consumer has, in proportion to their speed.
        let at_once = (to_begin + begun + self.under_way()).max(1);
        let left_to_others = self.turn.leaves(at_once);
        for (place, (name, free)) in self.free.iter_mut().enumerate().filter(|(_, (_, free))| !free.is_begun()) {
            if to_begin == 0 {
                break;
            }
            let left_to = left_to_others.saturating_sub(place).div_ceil(at_once);
            match self.turn.due(left_to, free.since, now) {
                Some(due) => steps.again_at = steps.again_at.into_iter().chain([due]).min(),
                None => {
                    to_begin -= 1;
                    steps.read.push(free.begin(name, now));
                }
            }
        }
    }

    /// Claims in order, up to the first item that is being read. Items that were not begun are left to others.
    fn claim_what_is_read(&mut self, most: usize, steps: &mut Steps) {
        let begun = self.free.iter().take(MOST + most).filter(|(_, free)| free.is_begun());
        let read = begun.take(most).take_while(|(_, free)| matches!(free.content, Content::Read(_)));
        let names: Vec<String> = read.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(Free { content: Content::Read(item), .. }) = self.free.remove(&name) {
                self.in_hand.insert(name.clone(), Hand::Claiming);
                steps.claim.push((name, item));
            }
        }
    }

    /// Returns how many claims are under way.
    fn under_way(&self) -> usize {
        self.in_hand.values().filter(|hand| **hand == Hand::Claiming).count()
    }

    fn is_alone(&self) -> bool {
        !self.turn.is_contended() && self.claimed.iter().all(|name| self.in_hand.contains_key(name))
    }

    pub(super) fn note_read(&mut self, name: &str, item: Item, now: Instant) {
        if let Some(Free { content, .. }) = self.free.get_mut(name)
            && let Content::Reading(since) = content
        {
            self.turn.note_answer(now.duration_since(*since));
            *content = Content::Read(item);
        }
    }

    pub(super) fn is_being_read(&self, name: &str) -> bool {
        self.free.get(name).is_some_and(|free| matches!(free.content, Content::Reading(_)))
    }

    /// Records a claim of this consumer, which this transaction made.
    pub(super) fn note_own(&mut self, name: String, zxid: i64) {
        self.turn.note_own();
        self.in_hand.insert(name, Hand::Held(zxid));
    }

    /// Records that another consumer was faster.
    pub(super) fn note_miss(&mut self, name: &str, chance: f64, now: Instant) {
        self.note_unavailable(name, now);
        if self.claimed.contains(name) {
            self.turn.note_miss(chance, self.under_way());
        }
    }

    /// Records that the servers refused the claim because the item is not free. Usually an event has told why.
    pub(super) fn note_unavailable(&mut self, name: &str, now: Instant) {
        self.let_go(name, now);
        if self.free.contains_key(name) {
            self.hide(name, CONTRADICTED, now);
        }
    }

    /// Records that this consumer does not have the item in hand any more.
    pub(super) fn let_go(&mut self, name: &str, now: Instant) {
        self.in_hand.remove(name);
        self.sort(name, now);
    }

    /// Has the item read again, after the read failed or the item was written.
    pub(super) fn read_again(&mut self, name: &str, now: Instant) {
        self.free.remove(name);
        self.let_go(name, now);
    }

    /// Returns whether this consumer has the item in hand by this transaction. In an earlier session or queue, it may
    /// have claimed an item of the same name.
    pub(super) fn is_in_hand(&self, name: &str, zxid: i64) -> bool {
        matches!(self.in_hand.get(name), Some(Hand::Held(by) | Hand::Returning(by)) if *by == zxid)
    }

    /// Records that the item is about to be free again.
    pub(super) fn note_returning(&mut self, name: &str, zxid: i64) {
        self.replace_hand(name, zxid, Hand::Returning(zxid));
    }

    /// Records that the item could not be returned.
    pub(super) fn note_kept(&mut self, name: &str, zxid: i64) {
        self.replace_hand(name, zxid, Hand::Held(zxid));
    }

    fn replace_hand(&mut self, name: &str, zxid: i64, hand: Hand) {
        if self.is_in_hand(name, zxid) {
            self.in_hand.insert(name.to_owned(), hand);
        }
    }

    pub(super) fn is_returning(&self) -> bool {
        self.in_hand.values().any(|hand| matches!(hand, Hand::Returning(_)))
    }

    pub(super) fn count_in_hand(&self) -> usize {
        self.in_hand.len()
    }

    /// Hides the item: this consumer does not claim it for this time.
    pub(super) fn hide(&mut self, name: &str, time: Duration, now: Instant) {
        self.hidden.insert(name, now.checked_add(time).unwrap_or(now + FOREVER));
        self.sort(name, now);
    }

    /// Frees the hidden items whose time is up, at their places.
    pub(super) fn show_hidden(&mut self, now: Instant) {
        while let Some(name) = self.hidden.pop_due(now) {
            self.sort(&name, now);
        }
    }

    /// Returns when the next hidden item is shown.
    pub(super) fn shown_at(&self) -> Option<Instant> {
        self.hidden.first()
    }
}

/// Names of items, each hidden until a time.
#[derive(Debug, Default)]
struct Hidden {
    until: BTreeMap<String, Instant>,
    /// The same names, ordered by their times.
    in_time: BTreeSet<(Instant, String)>,
}

impl Hidden {
    fn insert(&mut self, name: &str, until: Instant) {
        self.remove(name);
        self.until.insert(name.to_owned(), until);
        self.in_time.insert((until, name.to_owned()));
    }

    fn remove(&mut self, name: &str) {
        if let Some((name, until)) = self.until.remove_entry(name) {
            self.in_time.remove(&(until, name));
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.until.contains_key(name)
    }

    fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.until.retain(|name, _| keep(name));
        self.in_time.retain(|(_, name)| keep(name));
    }

    fn first(&self) -> Option<Instant> {
        self.in_time.first().map(|(until, _)| *until)
    }

    fn pop_due(&mut self, now: Instant) -> Option<String> {
        let _due = self.first().filter(|until| *until <= now)?;
        let (_, name) = self.in_time.pop_first()?;
        self.until.remove(&name);
        Some(name)
    }
}

#[cfg(test)]
mod tests;
