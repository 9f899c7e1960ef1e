//! Which items are read and claimed next: decided here, without any request.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::claim::Item;

/// So many items of a listing, or this part of it, are used before the next listing.
const ALONE: (usize, usize) = (64, 16);
/// Among other consumers a listing is outdated sooner: so many times what all of them work on, or this part of it.
const AMONG_OTHERS: (usize, usize) = (16, 64);

/// The items that this consumer may claim, by name and so in the order of the queue.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    items: BTreeMap<String, Known>,
    /// There were more in the queue than are here.
    partial: bool,
    turns: Turns,
}

/// Others are not believed to take more than this, times what they hold, for each of ours.
const MOST_AHEAD: f64 = 3.0;
/// Others that take fewer items than this for each of ours are none.
const SLOWEST: f64 = 0.05;

/// Consumers that compete take turns: after each item that this one claims, as many are left to the others as they take
/// meanwhile. What was left is claimed after the next listing, if it is still there.
#[derive(Debug, Default)]
struct Turns {
    /// What the latest listing showed as free.
    listed: Vec<String>,
    /// How many of these this consumer has claimed.
    claimed: usize,
    /// How many items the others take while this consumer takes one.
    rate: f64,
    /// What is left to the others before the next claim: the whole items of it.
    left: f64,
}

/// What is known of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// That it is in the queue.
    Unread,
    /// It is being read.
    Reading,
    /// What it held then.
    Read(Item, Instant),
}

/// What is to be done next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) read: Vec<String>,
    pub(super) claim: Vec<(String, Item)>,
    /// There are fewer candidates than wanted.
    pub(super) list: bool,
}

impl Candidates {
    /// Takes over a listing of free items, in order. This consumer works on `ours` items, and others hold `theirs`.
    pub(super) fn renew(&mut self, free: Vec<String>, ours: usize, theirs: usize) {
        let (ours, all) = (ours.max(1), free.len());
        self.turns.learn(&free, theirs as f64 / ours as f64);
        let round = (ours as f64 * (1.0 + self.turns.rate)).ceil() as usize;
        let (least, part) = if self.turns.rate == 0.0 { ALONE } else { (AMONG_OTHERS.0 * round, AMONG_OTHERS.1) };
        let mut known = std::mem::take(&mut self.items);
        let chosen = free.into_iter().take(least.max(all / part)).map(|name| {
            let known = known.remove(&name).unwrap_or(Known::Unread);
            (name, known)
        });
        self.items = chosen.collect();
        self.partial = self.items.len() < all;
        self.turns.listed = self.items.keys().cloned().collect();
    }

    /// The first so many are claimed, in order, as soon as each is read; so many more are read ahead.
    pub(super) fn plan(&mut self, wanted: usize, ahead: usize) -> Steps {
        let mut steps = Steps::default();
        while steps.claim.len() < wanted
            && self.leave_to_others()
            && let Some(first) = self.items.first_entry()
            && matches!(first.get(), Known::Read(..))
        {
            if let (name, Known::Read(item, _)) = first.remove_entry() {
                steps.claim.push((name, item));
                self.turns.count();
            }
        }
        let left = wanted - steps.claim.len();
        for (name, known) in self.items.iter_mut().take(left + ahead) {
            if *known == Known::Unread {
                *known = Known::Reading;
                steps.read.push(name.clone());
            }
        }
        steps.list = self.items.len() < left;
        steps
    }

    /// The turn of the others: what comes next is not for this consumer. Whether anything is left after it.
    fn leave_to_others(&mut self) -> bool {
        while self.turns.left >= 1.0 && self.items.pop_first().is_some() {
            self.turns.left -= 1.0;
            self.partial = true;
        }
        !self.items.is_empty()
    }

    /// Another consumer was faster: this is its turn, and the next item is for this consumer.
    pub(super) fn note_miss(&mut self) {
        self.turns.claimed = self.turns.claimed.saturating_sub(1);
        self.turns.left = 0.0;
    }

    /// It was read.
    pub(super) fn read(&mut self, name: &str, item: Item) {
        if let Some(known @ Known::Reading) = self.items.get_mut(name) {
            *known = Known::Read(item, Instant::now());
        }
    }

    /// What was read before `limit` is read again; of the first so many candidates, as no other is read.
    pub(super) fn forget_before(&mut self, limit: Instant, candidates: usize) {
        for known in self.items.values_mut().take(candidates) {
            if matches!(known, Known::Read(_, at) if *at < limit) {
                *known = Known::Unread;
            }
        }
    }

    /// It is known to be free.
    pub(super) fn insert(&mut self, name: String, item: Option<Item>) {
        self.items.insert(name, item.map_or(Known::Unread, |item| Known::Read(item, Instant::now())));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.items.remove(name);
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.partial = true;
    }

    /// How many items others take while this consumer takes one.
    pub(super) fn rate_of_others(&self) -> f64 {
        self.turns.rate
    }

    /// The order is everything: nothing is left to the others.
    pub(super) fn take_no_turns(&mut self) {
        self.turns.rate = 0.0;
    }

    pub(super) fn is_partial(&self) -> bool {
        self.partial
    }
}

impl Turns {
    fn count(&mut self) {
        self.claimed += 1;
        self.left += self.rate;
    }

    /// By what is gone since the latest listing, or else by what the others hold for each of ours.
    fn learn(&mut self, free: &[String], held: f64) {
        let taken = self.listed.iter().filter(|name| free.binary_search(name).is_err()).count();
        let (ours, theirs) = (self.claimed as f64, taken.saturating_sub(self.claimed) as f64);
        self.rate = match (self.claimed, self.rate > 0.0) {
            (0, _) => self.rate.max(held),
            (_, false) => (theirs / ours).max(held),
            (_, true) => f64::midpoint(self.rate, theirs / ours),
        };
        // Consumers that were fast and are gone must not be waited for.
        self.rate = self.rate.min(MOST_AHEAD * held.max(1.0));
        if self.rate < SLOWEST {
            self.rate = held;
        }
        (self.claimed, self.left) = (0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("queue-{number:010}")).collect()
    }

    fn item() -> Item {
        Item { data: vec![1], version: 3 }
    }

    fn candidates(count: usize, ours: usize, theirs: usize) -> Candidates {
        let mut candidates = Candidates::default();
        candidates.renew(names(count), ours, theirs);
        candidates
    }

    fn all(candidates: &Candidates) -> Vec<String> {
        candidates.items.keys().cloned().collect()
    }

    #[test]
    fn an_item_is_read_then_claimed_and_the_next_is_read_ahead() {
        let mut candidates = candidates(5, 1, 0);
        let first = candidates.plan(1, 1);
        assert_eq!((first.read, first.claim.len(), first.list), (names(2), 0, false));
        assert_eq!(candidates.plan(1, 1), Steps::default(), "both are being read");
        candidates.read(&names(1)[0], item());
        let next = candidates.plan(1, 1);
        assert_eq!(next.claim, [(names(1)[0].clone(), item())]);
        assert_eq!(next.read, [] as [String; 0], "the next one is being read already");
    }

    #[test]
    fn no_item_is_claimed_before_an_older_one() {
        let mut candidates = candidates(3, 1, 0);
        candidates.plan(2, 0);
        candidates.read(&names(2)[1], item());
        assert_eq!(candidates.plan(2, 0).claim, []);
        candidates.read(&names(1)[0], item());
        let claimed: Vec<_> = candidates.plan(2, 0).claim.into_iter().map(|(name, _)| name).collect();
        assert_eq!(claimed, names(2));
    }

    #[test]
    fn a_listing_is_asked_for_when_there_is_less_than_wanted() {
        assert!(candidates(0, 1, 0).plan(1, 0).list);
        assert!(!candidates(1, 1, 0).plan(1, 5).list, "what is read ahead needs no listing");
        assert!(candidates(1, 1, 0).plan(2, 0).list);
    }

    #[test]
    fn what_a_listing_is_good_for() {
        assert_eq!(all(&candidates(100, 1, 0)), names(64));
        assert!(candidates(100, 1, 0).is_partial() && !candidates(64, 1, 0).is_partial());
        assert_eq!(all(&candidates(16_000, 1, 0)).len(), 1_000, "of a long listing more is used");
    }

    #[test]
    fn among_others_as_many_are_left_to_them_as_they_hold() {
        let every_fourth: Vec<_> = names(64).into_iter().step_by(4).collect();
        assert_eq!(claimed_one_by_one(&mut candidates(200, 1, 3)), every_fourth);
        let two_of_three: Vec<_> = [0, 1, 3, 4, 6, 7].map(|at| names(8)[at].clone()).into();
        assert_eq!(claimed_one_by_one(&mut candidates(8, 2, 1)), two_of_three);
    }

    #[test]
    fn it_is_learned_how_fast_the_others_are() {
        let mut candidates = candidates(100, 1, 1);
        for _ in 0..4 {
            claimed(&mut candidates);
        }
        // Sixteen are gone: for each of ours the others took three.
        candidates.renew(names(100)[16..].to_vec(), 1, 1);
        let next: Vec<_> = (0..3).filter_map(|_| claimed(&mut candidates)).collect();
        // Half-way between the one that was believed and the three that were seen.
        assert_eq!(next, [16, 19, 22].map(|at| names(100)[at].clone()));
    }

    #[test]
    fn after_a_miss_the_next_item_is_tried() {
        let mut candidates = candidates(9, 1, 2);
        let tries: Vec<_> = (0..4)
            .map(|at| {
                let tried = claimed(&mut candidates).expect("a candidate");
                if at < 2 {
                    candidates.note_miss();
                }
                tried
            })
            .collect();
        let expected = [0, 1, 2, 5].map(|at| names(9)[at].clone());
        assert_eq!(tries, expected);
    }

    /// Claims the next.
    fn claimed(candidates: &mut Candidates) -> Option<String> {
        let read = candidates.plan(1, 0);
        for name in &read.read {
            candidates.read(name, item());
        }
        let steps = if read.claim.is_empty() { candidates.plan(1, 0) } else { read };
        steps.claim.into_iter().next().map(|(name, _)| name)
    }

    fn claimed_one_by_one(candidates: &mut Candidates) -> Vec<String> {
        std::iter::from_fn(|| claimed(candidates)).collect()
    }

    #[test]
    fn what_was_read_long_ago_is_read_again() {
        let mut candidates = candidates(1, 1, 0);
        candidates.plan(1, 0);
        candidates.read(&names(1)[0], item());
        candidates.forget_before(Instant::now() + std::time::Duration::from_secs(1), 1);
        let next = candidates.plan(1, 0);
        assert_eq!((next.read, next.claim), (names(1), vec![]));
    }

    #[test]
    fn a_listing_keeps_what_was_read() {
        let mut candidates = candidates(3, 1, 0);
        candidates.plan(1, 2);
        candidates.read(&names(2)[1], item());
        candidates.renew(names(4)[1..].to_vec(), 1, 0);
        let next = candidates.plan(1, 3);
        assert_eq!(next.claim, [(names(2)[1].clone(), item())]);
        assert_eq!(next.read, names(4)[3..], "the third is being read since before");
    }

    #[test]
    fn an_item_that_is_returned_is_the_next_again() {
        let mut candidates = candidates(3, 1, 0);
        candidates.remove(&names(1)[0]);
        candidates.insert(names(1)[0].clone(), Some(item()));
        assert_eq!(candidates.plan(1, 0).claim, [(names(1)[0].clone(), item())]);
    }

    proptest! {
        #[test]
        fn as_many_as_wanted_in_order_and_none_twice(
            count in 0usize..40, ours in 0usize..5, theirs in 0usize..5,
            wanted in prop::collection::vec((0usize..4, 0usize..4), 1..40),
        ) {
            let mut candidates = candidates(count, ours, theirs);
            let mut claimed = Vec::new();
            for (wanted, ahead) in wanted {
                let steps = candidates.plan(wanted, ahead);
                prop_assert!(steps.claim.len() <= wanted);
                prop_assert_eq!(steps.list, candidates.items.len() < wanted - steps.claim.len());
                prop_assert!(steps.read.len() <= wanted - steps.claim.len() + ahead);
                claimed.extend(steps.claim.into_iter().map(|(name, _)| name));
                for name in steps.read {
                    candidates.read(&name, item());
                }
            }
            prop_assert!(claimed.is_sorted_by(|one, next| one < next), "{:?}", claimed);
        }

        #[test]
        fn consumers_that_see_the_same_and_hold_the_same_choose_different_items(count in 0usize..200, consumers in 2usize..5) {
            // Each lists after the one before has claimed its first.
            let mut free = names(count);
            let mut firsts = Vec::new();
            for _ in 0..consumers {
                let mut candidates = Candidates::default();
                candidates.renew(free.clone(), 1, consumers - 1);
                if let Some(first) = all(&candidates).first() {
                    firsts.push(first.clone());
                    free.retain(|name| name != first);
                }
            }
            prop_assert_eq!(firsts, names(count.min(consumers)));
        }
    }
}
