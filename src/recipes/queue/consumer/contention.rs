//! An estimate of how many other consumers claim items at the same time.
//!
//! Claims in flight to the servers cannot be seen. If all consumers tried the oldest item, most of them would be too
//! late, each time after a useless read and claim. So a consumer counts the claims of others for each claim of its own,
//! and expects as many before its next one: it reserves the oldest items for them. As a result, consumers of equal
//! speed take turns. A consumer waits no longer than a [slot](ContentionEstimate::slot) for an expected claim that does
//! not come.

use std::time::Duration;

use tokio::time::Instant;

/// The most claims of others that are ever expected.
pub(super) const MOST_EXPECTED: usize = 1_024;
/// The factor by which the counts decay with each claim of this consumer: about the last 32 count.
const DECAY: f64 = 31.0 / 32.0;
/// The longest wait for others, however many they are.
const LONGEST: Duration = Duration::from_secs(1);
/// The bounds of a slot.
const SLOT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

#[derive(Debug, Default)]
pub(super) struct ContentionEstimate {
    /// The decaying number of this consumer's claims.
    ours: f64,
    /// The decaying number of others' claims in the same period.
    theirs: f64,
    /// The number of others' claims since the last one of this consumer, or since it drew its place.
    others_since: usize,
    /// The place drawn after others were faster: the number of others' claims to wait for, instead of the usual number.
    drawn: Option<usize>,
    /// How many other consumers are assumed to have been too late at the same time, all of which draw a place. It grows
    /// each time this consumer is too late.
    rivals: usize,
    /// How many claims were in flight at the last draw and have not been answered. If they are too late, that is no
    /// reason to draw again.
    expected_misses: usize,
    /// When the wait for the next claim began.
    waiting_since: Option<Instant>,
    /// Whether this consumer waited for claims that did not come.
    waited: bool,
    /// The time within which an expected claim usually comes: as long as a read and a claim of this consumer take.
    slot: Duration,
}

impl ContentionEstimate {
    /// Records that another consumer has claimed an item.
    pub(super) fn note_other(&mut self) {
        self.theirs += 1.0;
        self.others_since += 1;
        self.waiting_since = None;
    }

    /// Records that this consumer has claimed an item.
    pub(super) fn note_own(&mut self) {
        if std::mem::take(&mut self.waited) && self.others_since == 0 {
            // The expected consumers have left.
            self.theirs /= 2.0;
        }
        self.ours = self.ours * DECAY + 1.0;
        self.theirs *= DECAY;
        self.rivals /= 2;
        self.expected_misses = self.expected_misses.saturating_sub(1);
        (self.others_since, self.drawn, self.waiting_since) = (0, None, None);
    }

    /// Records that another consumer was faster, while `under_way` other claims of this one are in flight. `chance`,
    /// from 0 to 1, spreads the consumers that were all too late.
    pub(super) fn note_miss(&mut self, chance: f64, under_way: usize) {
        self.theirs += 1.0;
        if self.expected_misses > 0 {
            self.expected_misses -= 1;
            return;
        }
        self.rivals = (2 * self.rivals + 1).min(MOST_EXPECTED);
        let place = (chance * (self.rivals + 1) as f64) as usize;
        self.drawn = Some((place * (under_way + 1)).min(MOST_EXPECTED));
        (self.others_since, self.waiting_since, self.expected_misses) = (0, None, under_way);
    }

    /// Records that a request was answered after this time.
    pub(super) fn note_answer(&mut self, time: Duration) {
        self.slot = time * 2;
    }

    /// Records that no item is wanted.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting_since = None;
    }

    /// Returns how many of the oldest items are reserved for others while `wanted` items are wanted or in flight.
    pub(super) fn reserved_for_others(&self, wanted: usize) -> usize {
        let usual = || (self.usual() * wanted as f64).round() as usize;
        self.drawn.unwrap_or_else(usual).min(MOST_EXPECTED).saturating_sub(self.others_since)
    }

    /// Returns how many claims of others there are for each claim of this consumer.
    fn usual(&self) -> f64 {
        self.theirs / self.ours.max(1.0)
    }

    /// Returns when this consumer may claim an item that has been free since `free_since` and is reserved for
    /// `reserved_for` others, each of which claims as many items at once as this one. Returns `None` if that is now.
    pub(super) fn due(&mut self, reserved_for: usize, free_since: Instant, now: Instant) -> Option<Instant> {
        let waiting_since = *self.waiting_since.get_or_insert(now);
        if reserved_for == 0 {
            return None;
        }
        let wait = self.slot.clamp(SLOT.0, SLOT.1) * u32::try_from(reserved_for).unwrap_or(u32::MAX);
        let due = waiting_since.max(free_since) + wait.min(LONGEST);
        self.waited |= due <= now;
        (due > now).then_some(due)
    }

    /// Returns whether other consumers claimed items recently.
    pub(super) fn is_contended(&self) -> bool {
        self.others_since > 0 || self.drawn.is_some() || self.usual() >= 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a round in which each consumer tries to claim `wanted` items, behind those that it reserves. Then all
    /// learn of the claims, in order. Returns how many claims were too late.
    fn round(estimates: &mut [ContentionEstimate], wanted: usize) -> usize {
        let firsts: Vec<usize> = estimates.iter().map(|estimate| estimate.reserved_for_others(wanted)).collect();
        let (mut claimed, mut missed) = (Vec::new(), 0);
        for (me, first) in firsts.iter().enumerate() {
            for (nth, place) in (*first..first + wanted).enumerate() {
                if claimed.contains(&place) {
                    missed += 1;
                    estimates[me].note_miss(me as f64 / firsts.len() as f64, wanted - nth - 1);
                    continue;
                }
                claimed.push(place);
                estimates[me].note_own();
                estimates
                    .iter_mut()
                    .enumerate()
                    .filter(|(other, _)| *other != me)
                    .for_each(|(_, estimate)| estimate.note_other());
            }
        }
        missed
    }

    #[test]
    fn consumers_of_equal_speed_come_to_take_turns() {
        for (consumers, wanted) in [(2, 1), (3, 1), (4, 1), (8, 1), (2, 8), (4, 8)] {
            let mut estimates: Vec<ContentionEstimate> =
                (0..consumers).map(|_| ContentionEstimate::default()).collect();
            for _ in 0..100 {
                round(&mut estimates, wanted);
            }
            let missed: usize = (0..100).map(|_| round(&mut estimates, wanted)).sum();
            let all = consumers * wanted * 100;
            assert!(missed * 4 < all, "{consumers} consumers, {wanted} at a time: {missed} of {all} too late");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_does_not_come_is_waited_for_no_longer_than_a_slot() {
        let mut estimate = ContentionEstimate::default();
        estimate.note_answer(Duration::from_millis(2));
        estimate.note_miss(0.99, 0);
        estimate.note_miss(0.99, 0);
        let now = Instant::now();
        assert_eq!(estimate.reserved_for_others(1), 3, "the last of four");
        assert_eq!(estimate.due(3, now, now), Some(now + Duration::from_millis(12)));
        assert_eq!(estimate.due(1, now, now), Some(now + Duration::from_millis(4)));
        assert_eq!(estimate.due(0, now, now), None);
        estimate.note_other();
        assert_eq!(estimate.reserved_for_others(1), 2);
        assert_eq!(estimate.due(2, now, now + Duration::from_millis(1)), Some(now + Duration::from_millis(9)));
        assert_eq!(estimate.due(2, now, now + Duration::from_millis(9)), None);
    }

    #[test]
    fn claims_that_were_under_way_together_are_one_reason_to_draw() {
        let mut estimate = ContentionEstimate::default();
        (0..32).rev().for_each(|under_way| estimate.note_miss(0.99, under_way));
        assert_eq!((estimate.rivals, estimate.drawn), (1, Some(32)), "one place of 32 claims");
        estimate.note_miss(0.99, 0);
        assert_eq!((estimate.rivals, estimate.drawn), (3, Some(3)));
    }

    #[test]
    fn a_consumer_that_is_alone_expects_nothing_and_forgets_others_that_do_not_come() {
        let (mut estimate, now) = (ContentionEstimate::default(), Instant::now());
        (0..9).for_each(|_| estimate.note_own());
        assert!(estimate.reserved_for_others(32) == 0 && !estimate.is_contended());
        (0..900).for_each(|_| estimate.note_other());
        estimate.note_own();
        assert!(estimate.reserved_for_others(1) > 50);
        for _ in 0..10 {
            estimate.due(1, now, now);
            estimate.due(1, now, now + LONGEST);
            estimate.note_own();
        }
        assert!(estimate.reserved_for_others(1) == 0 && !estimate.is_contended(), "{estimate:?}");
    }

    #[test]
    fn however_many_others_there_are_the_wait_has_an_end() {
        let (mut estimate, now) = (ContentionEstimate::default(), Instant::now());
        estimate.note_answer(Duration::from_secs(9));
        (0..99).for_each(|_| estimate.note_miss(0.999, 9));
        let due = estimate.due(estimate.reserved_for_others(1).max(1), now, now).expect("it has to wait");
        assert!(due <= now + LONGEST);
    }
}
