//! Which item is tried next.

use std::collections::VecDeque;

/// Several consumers start at random within so many of the first items, or so many times what each wants at once, so that they
/// do not all try the same ones.
const SPREAD: (usize, usize) = (64, 8);
/// So many items, or this part of all, are tried before the queue is listed again.
const BATCH: (usize, usize) = (64, 16);
/// With others at work a list is old sooner. A long one costs more, so more is made of it.
const BATCH_AMONG_OTHERS: (usize, usize) = (32, 64);
/// After so many items, or this part of all, that others were faster at, a list is too old.
const MOST_MISSES: (usize, usize) = (4, 64);

/// The items of a listing that are worth a try, in order.
#[derive(Debug, Default)]
pub(super) struct Heads {
    names: VecDeque<String>,
    /// Not all that were free are among them.
    partial: bool,
    misses: usize,
    hits: usize,
    most_misses: usize,
    /// On meeting another consumer: so many items are left to it. None where the order is everything, and on a short list.
    jump: usize,
    /// That was done, and nothing came of it yet.
    jumped: bool,
}

impl Heads {
    /// Of these that are free, in order; `start` is drawn from 0..1 where others are at work too, and none at all if the order
    /// is everything. So many are wanted at once.
    pub(super) fn of(mut free: Vec<String>, start: Option<f64>, wanted: usize) -> Self {
        let all = free.len();
        let part = |(least, part): (usize, usize)| least.max(all / part);
        let (from, most, jump, most_misses) = match start {
            Some(start) => {
                let spread = SPREAD.0.max(wanted * SPREAD.1);
                let from = (all.min(spread) as f64 * start) as usize;
                let most = part(BATCH_AMONG_OTHERS).max(wanted);
                (from, most, if most > SPREAD.0 { SPREAD.0 } else { 0 }, part(MOST_MISSES))
            }
            None => (0, part(BATCH), 0, MOST_MISSES.0),
        };
        free.drain(..from);
        free.truncate(most);
        let partial = free.len() < all;
        Heads { names: free.into(), partial, most_misses, jump, ..Heads::default() }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        self.names.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether there is more to be seen than was worth a try, or was tried in vain.
    pub(super) fn is_stale(&self) -> bool {
        self.partial || self.misses > 0
    }

    /// Nothing came of it, as others were faster.
    pub(super) fn was_in_vain(&self) -> bool {
        self.misses > 0 && self.hits == 0
    }

    pub(super) fn note_hit(&mut self) {
        self.hits += 1;
        self.jumped = false;
    }

    pub(super) fn note_miss(&mut self) {
        self.misses += 1;
        if self.misses >= self.most_misses {
            self.names.clear();
        } else if !std::mem::replace(&mut self.jumped, true) {
            // It is where we are, so it will take what comes next. What is left of that the next list shows.
            self.names.drain(..self.jump.min(self.names.len()));
        }
    }

    /// An item can be had again: it is tried at its place.
    pub(super) fn put_back(&mut self, name: &str) {
        if !self.names.is_empty() {
            let at = self.names.partition_point(|other| other.as_str() < name);
            self.names.insert(at, name.to_owned());
        }
    }

    /// It is too old.
    pub(super) fn discard(&mut self) {
        *self = Heads { partial: true, ..Heads::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("queue-{number:010}")).collect()
    }

    fn all(mut heads: Heads) -> Vec<String> {
        std::iter::from_fn(|| heads.next()).collect()
    }

    #[test]
    fn alone_a_consumer_starts_at_the_head_and_lists_once_a_batch() {
        assert_eq!(all(Heads::of(names(3), None, 1)), names(3));
        assert!(!Heads::of(names(64), None, 1).is_stale());
        let heads = Heads::of(names(100), None, 1);
        assert!(heads.is_stale());
        assert_eq!(all(heads), names(64));
        assert_eq!(all(Heads::of(names(16_000), None, 1)).len(), 1_000, "of a long list more is used");
    }

    #[test]
    fn among_others_it_starts_somewhere_among_the_first() {
        assert_eq!(all(Heads::of(names(200), Some(0.0), 1)), names(32));
        assert_eq!(all(Heads::of(names(200), Some(0.999), 1))[0], names(64)[63]);
        assert_eq!(all(Heads::of(names(2), Some(0.999), 1)), names(2)[1..]);
        assert_eq!(all(Heads::of(Vec::new(), Some(0.5), 1)), [""; 0]);
        let wide = Heads::of(names(1_000), Some(0.999), 50);
        assert_eq!(all(wide), names(1_000)[399..449], "whoever wants many at once keeps further away from others");
    }

    #[test]
    fn of_a_long_list_more_is_used_and_consumers_that_meet_leap_over_each_other() {
        let long = names(64 * 200);
        assert_eq!(all(Heads::of(long.clone(), Some(0.0), 1)).len(), 200);
        let mut heads = Heads::of(long.clone(), Some(0.0), 1);
        let tried: Vec<_> = std::iter::from_fn(|| heads.next()).take(3).collect();
        assert_eq!(tried, long[..3]);
        // Three were under way when the other one was met: that is one meeting.
        (0..3).for_each(|_| heads.note_miss());
        assert_eq!(heads.next().as_ref(), Some(&long[3 + SPREAD.0]));
        heads.note_hit();
        heads.note_miss();
        assert_eq!(heads.next().as_ref(), Some(&long[4 + 2 * SPREAD.0]), "another meeting");
        (0..200).for_each(|_| heads.note_miss());
        assert!(heads.is_empty() && heads.is_stale());
        let mut heads = Heads::of(long.clone(), None, 1);
        heads.note_miss();
        assert_eq!(heads.next().as_ref(), Some(&long[0]), "where the order is everything nothing is left out");
    }

    #[test]
    fn an_item_that_is_put_back_is_tried_at_its_place() {
        let mut heads = Heads::of(names(4), None, 1);
        let first = heads.next().expect("the first");
        heads.next();
        heads.put_back(&first);
        assert_eq!(all(heads), ["queue-0000000000", "queue-0000000002", "queue-0000000003"]);
        let mut heads = Heads::default();
        heads.put_back(&first);
        assert!(heads.is_empty(), "the next list shows it");
    }

    #[test]
    fn a_list_that_others_were_faster_at_is_given_up() {
        let mut heads = Heads::of(names(20), Some(0.0), 1);
        for _ in 0..MOST_MISSES.0 {
            assert!(heads.next().is_some());
            heads.note_miss();
        }
        assert!(heads.is_empty() && heads.is_stale() && heads.was_in_vain());
        heads.note_hit();
        assert!(!heads.was_in_vain());
    }
}
