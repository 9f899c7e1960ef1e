//! Which item is tried next.

use std::collections::VecDeque;

/// Several consumers start at random within so many of the first items, so that they do not all try the same ones.
const SPREAD: usize = 64;
/// So many items, or this part of all, are tried before the queue is listed again.
const BATCH: (usize, usize) = (64, 16);
/// With others at work a list is old sooner.
const BATCH_AMONG_OTHERS: usize = 32;
/// After so many items of a list that others were faster at, it is too old.
const MOST_MISSES: usize = 4;

/// The items of a listing that are worth a try, in order.
#[derive(Debug, Default)]
pub(super) struct Heads {
    names: VecDeque<String>,
    /// Not all that were free are among them.
    partial: bool,
    misses: usize,
    hits: usize,
}

impl Heads {
    /// Of these that are free, in order; `start` is drawn from 0..1 where others are at work too, and none at all if the order
    /// is everything.
    pub(super) fn of(mut free: Vec<String>, start: Option<f64>) -> Self {
        let all = free.len();
        let (from, most) = match start {
            Some(start) => ((all.min(SPREAD) as f64 * start) as usize, BATCH_AMONG_OTHERS),
            None => (0, BATCH.0.max(all / BATCH.1)),
        };
        free.drain(..from);
        free.truncate(most);
        Heads { partial: free.len() < all, names: free.into(), misses: 0, hits: 0 }
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
    }

    pub(super) fn note_miss(&mut self) {
        self.misses += 1;
        if self.misses >= MOST_MISSES {
            self.names.clear();
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
        assert_eq!(all(Heads::of(names(3), None)), names(3));
        assert!(!Heads::of(names(64), None).is_stale());
        let heads = Heads::of(names(100), None);
        assert!(heads.is_stale());
        assert_eq!(all(heads), names(64));
        assert_eq!(all(Heads::of(names(16_000), None)).len(), 1_000, "of a long list more is used");
    }

    #[test]
    fn among_others_it_starts_somewhere_among_the_first() {
        assert_eq!(all(Heads::of(names(200), Some(0.0))), names(32));
        assert_eq!(all(Heads::of(names(200), Some(0.999)))[0], names(64)[63]);
        assert_eq!(all(Heads::of(names(2), Some(0.999))), names(2)[1..]);
        assert_eq!(all(Heads::of(Vec::new(), Some(0.5))), [""; 0]);
    }

    #[test]
    fn an_item_that_is_put_back_is_tried_at_its_place() {
        let mut heads = Heads::of(names(4), None);
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
        let mut heads = Heads::of(names(20), Some(0.0));
        for _ in 0..MOST_MISSES {
            assert!(heads.next().is_some());
            heads.note_miss();
        }
        assert!(heads.is_empty() && heads.is_stale() && heads.was_in_vain());
        heads.note_hit();
        assert!(!heads.was_in_vain());
    }
}
