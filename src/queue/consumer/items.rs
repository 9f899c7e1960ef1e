//! What a consumer knows of the items of a queue, and which it reads and claims next: decided here, without any
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::claim::Item;
use super::turn::{MOST, Turn};

/// Stands for a time beyond the end of the clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// An item that is free by all that was told, and that the servers say is not, is left alone for this long.
const CONTRADICTED: Duration = Duration::from_secs(1);

/// By their names, and so in the order of the queue.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Those in the queue, as the servers tell.
    present: BTreeSet<String>,
    /// Those that have a claim, as the servers tell.
    claimed: BTreeSet<String>,
    /// Those that this consumer has claimed in this session, or is about to.
    in_hand: BTreeMap<String, Hand>,
    /// Those that this consumer does not claim before.
    hidden: Hidden,
    /// Those in the queue that are nothing of all that.
    free: BTreeMap<String, Free>,
    turn: Turn,
    /// An item that is left to others is waited for: no later one is claimed before.
    strict: bool,
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
    /// What it held, and holds still: who writes it claims it, and that is told.
    Read(Item),
}

impl Free {
    /// Whether it is to be read now; that is said once.
    fn begin(&mut self, now: Instant) -> bool {
        let is_unread = matches!(self.content, Content::Unread);
        if is_unread {
            self.content = Content::Reading(now);
        }
        is_unread
    }
}

/// An item in the hands of this consumer. A claim is told by the transaction that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    /// Its claim is on the way.
    Claiming,
    Held(i64),
    /// It is on its way back to its place, to be claimed again at once: no later one is claimed before.
    Returning(i64),
}

/// What is to be done next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) read: Vec<String>,
    pub(super) claim: Vec<(String, Item)>,
    /// There will be more to do then, also if nothing happens.
    pub(super) again_at: Option<Instant>,
}

/// What the servers told of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Came,
    Went,
    Written,
}

impl Items {
    pub(super) fn new(strict: bool) -> Self {
        Items { strict, ..Items::default() }
    }

    /// The session is over, and with it what was claimed and what was told.
    pub(super) fn end_session(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        *self = Items { hidden, ..Items::new(self.strict) };
    }

    /// What was told may be outdated. The servers refuse what is done by it, but for what the items hold.
    pub(super) fn forget_contents(&mut self) {
        self.free.values_mut().for_each(|free| free.content = Content::Unread);
    }

    /// The queue was deleted: what comes now are other items, even if they have the same names.
    pub(super) fn start_over(&mut self) {
        (self.present, self.free, self.hidden) = Default::default();
        self.in_hand.retain(|_, hand| *hand == Hand::Claiming);
    }

    /// Takes over what was listed.
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
        // Whatever happened to it, what was read is outdated.
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

    /// Puts it among the free ones, or takes it away from there.
    fn sort(&mut self, name: &str, now: Instant) {
        let taken = self.claimed.contains(name) || self.in_hand.contains_key(name) || self.hidden.contains(name);
        if taken || !self.present.contains(name) {
            self.free.remove(name);
        } else if !self.free.contains_key(name) {
            self.free.insert(name.to_owned(), Free { content: Content::Unread, since: now });
        }
    }

    /// What is to be read and claimed, so that so many are claimed; so many more are read ahead if there are no other
    /// consumers. In order: none is claimed before an older one that is free, but for those that are left to others.
    pub(super) fn plan(&mut self, wanted: usize, ahead: usize, now: Instant) -> Steps {
        let mut steps = Steps::default();
        let claimable = match wanted {
            _ if self.is_alone() => {
                let first = self.free.iter_mut().take(wanted + ahead);
                steps.read = first.filter_map(|(name, free)| free.begin(now).then(|| name.clone())).collect();
                wanted
            }
            0 => 0,
            _ => self.take_turns(wanted, &mut steps, now),
        };
        if wanted == 0 {
            self.turn.rest();
        }
        self.claim_what_is_read(claimable, &mut steps);
        steps
    }

    /// Among other consumers: begins with as many as are wanted, but for those that are left to others. How many may be
    /// claimed.
    fn take_turns(&mut self, wanted: usize, steps: &mut Steps, now: Instant) -> usize {
        let strict = self.strict;
        // What was read once is claimed, though there may be older ones by now: a read costs as much as a claim.
        let is_begun = |free: &Free| !strict && !matches!(free.content, Content::Unread);
        let begun = self.free.values().take(MOST + wanted).filter(|free| is_begun(free)).count();
        let mut to_begin = wanted.saturating_sub(begun);
        // Others have as many on their way to the servers as this consumer has, by their speed.
        let at_once = (to_begin + begun + self.under_way()).max(1);
        let left_to_others = self.turn.leaves(at_once);
        for (place, (name, free)) in self.free.iter_mut().enumerate() {
            if to_begin == 0 {
                break;
            }
            if is_begun(free) {
                continue;
            }
            let left_to = left_to_others.saturating_sub(place).div_ceil(at_once);
            if let Some(due) = self.turn.due(left_to, free.since, now) {
                steps.again_at = Some(steps.again_at.map_or(due, |at| at.min(due)));
                if strict {
                    break;
                }
                continue;
            }
            to_begin -= 1;
            if free.begin(now) {
                steps.read.push(name.clone());
            }
        }
        if strict { wanted - to_begin } else { wanted }
    }

    /// In order, up to the first that is being read. Those that were not begun are left to others.
    fn claim_what_is_read(&mut self, most: usize, steps: &mut Steps) {
        let begun = self.free.iter().take(MOST + most).filter(|(_, free)| !matches!(free.content, Content::Unread));
        let read = begun.take(most).take_while(|(_, free)| matches!(free.content, Content::Read(_)));
        let names: Vec<String> = read.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(Free { content: Content::Read(item), .. }) = self.free.remove(&name) {
                self.in_hand.insert(name.clone(), Hand::Claiming);
                steps.claim.push((name, item));
            }
        }
    }

    /// How many claims are on their way.
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

    /// A claim was made, by this transaction.
    pub(super) fn note_own(&mut self, name: String, zxid: i64) {
        self.turn.note_own();
        self.in_hand.insert(name, Hand::Held(zxid));
    }

    /// Another consumer was faster.
    pub(super) fn note_miss(&mut self, name: &str, chance: f64, now: Instant) {
        self.note_unavailable(name, now);
        if self.claimed.contains(name) {
            self.turn.note_miss(chance, self.under_way());
        }
    }

    /// The servers say that it is not free. As a rule they have told why.
    pub(super) fn note_unavailable(&mut self, name: &str, now: Instant) {
        self.let_go(name, now);
        if self.free.contains_key(name) {
            self.hide(name, CONTRADICTED, now);
        }
    }

    /// This consumer has returned it, and knows what it holds.
    pub(super) fn note_returned(&mut self, name: &str, item: Item, now: Instant) {
        self.let_go(name, now);
        if let Some(free) = self.free.get_mut(name) {
            free.content = Content::Read(item);
        }
    }

    /// It is in this consumer's hands no more.
    pub(super) fn let_go(&mut self, name: &str, now: Instant) {
        self.in_hand.remove(name);
        self.sort(name, now);
    }

    /// The read failed, or the item was written since: it is to be read once more.
    pub(super) fn read_again(&mut self, name: &str, now: Instant) {
        self.free.remove(name);
        self.let_go(name, now);
    }

    /// Whether it is in this consumer's hands by this transaction. In an earlier session, or queue, it may have claimed
    /// an item of the same name.
    pub(super) fn is_in_hand(&self, name: &str, zxid: i64) -> bool {
        matches!(self.in_hand.get(name), Some(Hand::Held(by) | Hand::Returning(by)) if *by == zxid)
    }

    /// It is about to be free again.
    pub(super) fn note_returning(&mut self, name: &str, zxid: i64) {
        self.replace_hand(name, zxid, Hand::Returning(zxid));
    }

    /// It could not be returned.
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

    /// This consumer leaves it alone for so long.
    pub(super) fn hide(&mut self, name: &str, time: Duration, now: Instant) {
        self.hidden.insert(name, now.checked_add(time).unwrap_or(now + FOREVER));
        self.sort(name, now);
    }

    /// Those whose time has come are free again, at their places.
    pub(super) fn show_hidden(&mut self, now: Instant) {
        while let Some(name) = self.hidden.pop_due(now) {
            self.sort(&name, now);
        }
    }

    /// When the next of them is shown.
    pub(super) fn shown_at(&self) -> Option<Instant> {
        self.hidden.first()
    }
}

/// Names, each until a time.
#[derive(Debug, Default)]
struct Hidden {
    until: BTreeMap<String, Instant>,
    /// The same by their times.
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
