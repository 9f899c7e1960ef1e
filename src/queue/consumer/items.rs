//! What a consumer knows of the items of a queue, and which it reads and claims next: decided here, without any request.

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
    /// Those that this consumer has claimed in this session, or is about to: by the transaction of the claim, once it is made.
    in_hand: BTreeMap<String, Option<i64>>,
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
    pub(super) fn begin_anew(&mut self) {
        (self.present, self.free, self.hidden) = Default::default();
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

    /// What is to be read and claimed, so that so many are claimed; so many more are read ahead if there are no other consumers.
    /// In order: none is claimed before an older one that is free, but for those that are left to others.
    pub(super) fn plan(&mut self, wanted: usize, ahead: usize, now: Instant) -> Steps {
        let mut steps = Steps::default();
        let is_alone = self.is_alone();
        if wanted == 0 {
            self.turn.rest();
        }
        // Among others, what was read once is claimed, though there may be older ones by now: a read costs as much as a claim.
        let may_choose = !is_alone && !self.strict;
        let is_chosen = |free: &Free| may_choose && !matches!(free.content, Content::Unread);
        let chosen = self.free.values().take(MOST + wanted).filter(|free| is_chosen(free)).count();
        let mut to_choose = wanted.saturating_sub(chosen);
        // Others have as many on their way to the servers as this consumer has, by their speed.
        let at_once = (to_choose + chosen + self.under_way()).max(1);
        let left_to_others = self.turn.leaves(at_once);
        let (mut wanted, mut ahead) = (wanted, if is_alone { ahead } else { 0 });
        let (mut claim, mut all_read) = (Vec::new(), true);
        for (place, (name, free)) in self.free.iter_mut().enumerate() {
            if wanted == 0 && ahead == 0 {
                break;
            }
            let is_wanted = wanted > 0;
            if is_wanted && !is_chosen(free) {
                if to_choose == 0 {
                    continue;
                }
                if let Some(due) =
                    self.turn.due(left_to_others.saturating_sub(place).div_ceil(at_once), free.since, now)
                {
                    steps.again_at = Some(steps.again_at.map_or(due, |at| at.min(due)));
                    if self.strict {
                        break;
                    }
                    continue;
                }
                to_choose = to_choose.saturating_sub(1);
            }
            *(if is_wanted { &mut wanted } else { &mut ahead }) -= 1;
            match free.content {
                Content::Read(_) if is_wanted && all_read => claim.push(name.clone()),
                Content::Read(_) => {}
                Content::Reading(_) => all_read = false,
                Content::Unread => {
                    free.content = Content::Reading(now);
                    steps.read.push(name.clone());
                    all_read = false;
                }
            }
        }
        for name in claim {
            if let Some(Free { content: Content::Read(item), .. }) = self.free.remove(&name) {
                self.in_hand.insert(name.clone(), None);
                steps.claim.push((name, item));
            }
        }
        steps
    }

    /// How many claims are on their way.
    fn under_way(&self) -> usize {
        self.in_hand.values().filter(|zxid| zxid.is_none()).count()
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

    /// A claim was made, by this transaction.
    pub(super) fn note_own(&mut self, name: String, zxid: i64) {
        self.turn.note_own();
        self.in_hand.insert(name, Some(zxid));
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

    /// It was read in vain, or was written since: the next read shows how it is.
    pub(super) fn read_again(&mut self, name: &str, now: Instant) {
        self.free.remove(name);
        self.let_go(name, now);
    }

    /// Whether it is in this consumer's hands by this transaction. In an earlier session it may have claimed an item of the same
    /// name.
    pub(super) fn is_in_hand(&self, name: &str, zxid: i64) -> bool {
        self.in_hand.get(name) == Some(&Some(zxid))
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
