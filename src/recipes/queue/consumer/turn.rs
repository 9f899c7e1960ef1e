//! The turns of several consumers that claim at the same time.
//!
//! Claims that are on their way to the servers cannot be seen. If all consumers tried the oldest item, most of them
//! would be too late, each time after a useless read and claim. So a consumer counts how many claims of others there
//! are for each of its own, and expects that many before its next one. As a result, consumers of equal speed take
//! turns. A consumer waits no longer than a [slot](Turn::slot) for an expected claim that does not come.

use std::time::Duration;

use tokio::time::Instant;

/// The most claims of others that are ever expected.
pub(super) const MOST: usize = 1_024;
/// The factor by which the counts decay with each claim of this consumer: about the last 32 count.
const FADES: f64 = 31.0 / 32.0;
/// The longest wait for others, however many they are.
const LONGEST: Duration = Duration::from_secs(1);
/// The bounds of a slot.
const SLOT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The decaying number of this consumer's claims.
    ours: f64,
    /// The decaying number of others' claims in the same time.
    theirs: f64,
    /// The number of claims of others since the last one of this consumer, or since it drew its turn.
    since: usize,
    /// Set after others were faster: the number of others' claims to wait for, instead of the usual number.
    drawn: Option<usize>,
    /// The supposed number of consumers that were too late at the same time, minus one, among which this one draws. It
    /// grows each time this consumer is too late.
    contention: usize,
    /// The number of claims that were under way at the last draw. Their failures are no reason to draw again.
    outdated: usize,
    /// When the wait for the next claim began.
    began: Option<Instant>,
    /// Whether this consumer waited for claims that did not come.
    waited: bool,
    /// The time within which an expected claim usually comes: as long as a read and a claim of this consumer take.
    slot: Duration,
}

impl Turn {
    /// Records that another consumer has claimed an item.
    pub(super) fn note_other(&mut self) {
        self.theirs += 1.0;
        self.since += 1;
        self.began = None;
    }

    /// Records that this consumer has claimed an item.
    pub(super) fn note_own(&mut self) {
        if std::mem::take(&mut self.waited) && self.since == 0 {
            // The expected consumers have left.
            self.theirs /= 2.0;
        }
        self.ours = self.ours * FADES + 1.0;
        self.theirs *= FADES;
        self.contention /= 2;
        self.outdated = self.outdated.saturating_sub(1);
        (self.since, self.drawn, self.began) = (0, None, None);
    }

    /// Records that another consumer was faster, while `under_way` claims are still under way. `chance`, from 0 to 1,
    /// spreads the consumers that were all too late.
    pub(super) fn note_miss(&mut self, chance: f64, under_way: usize) {
        self.theirs += 1.0;
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        self.contention = (2 * self.contention + 1).min(MOST);
        let turns = (chance * (self.contention + 1) as f64) as usize;
        self.drawn = Some((turns * (under_way + 1)).min(MOST));
        (self.since, self.began, self.outdated) = (0, None, under_way);
    }

    /// Records that a request was answered after this time.
    pub(super) fn note_answer(&mut self, time: Duration) {
        self.slot = time * 2;
    }

    /// Records that no item is wanted.
    pub(super) fn rest(&mut self) {
        self.began = None;
    }

    /// Returns how many of the oldest items are left to others, if `wanted` items are wanted or on their way.
    pub(super) fn leaves(&self, wanted: usize) -> usize {
        let usual = || (self.usual() * wanted as f64).round() as usize;
        self.drawn.unwrap_or_else(usual).min(MOST).saturating_sub(self.since)
    }

    /// Returns how many claims of others there are for each claim of this consumer.
    fn usual(&self) -> f64 {
        self.theirs / self.ours.max(1.0)
    }

    /// Returns when this consumer may claim an item that is free since `free_since` and that is left to `left_to`
    /// others, each of which claims as many items at once as this one. `None` if it may claim the item now.
    pub(super) fn due(&mut self, left_to: usize, free_since: Instant, now: Instant) -> Option<Instant> {
        let began = *self.began.get_or_insert(now);
        if left_to == 0 {
            return None;
        }
        let wait = self.slot.clamp(SLOT.0, SLOT.1) * u32::try_from(left_to).unwrap_or(u32::MAX);
        let due = began.max(free_since) + wait.min(LONGEST);
        self.waited |= due <= now;
        (due > now).then_some(due)
    }

    /// Returns whether other consumers claimed items recently.
    pub(super) fn is_contended(&self) -> bool {
        self.since > 0 || self.drawn.is_some() || self.usual() >= 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a round in which each consumer tries to claim `wanted` items, at the places that its turn tells. Then all
    /// learn of the claims, in order. Returns how many claims were too late.
    fn round(turns: &mut [Turn], wanted: usize) -> usize {
        let firsts: Vec<usize> = turns.iter().map(|turn| turn.leaves(wanted)).collect();
        let (mut claimed, mut missed) = (Vec::new(), 0);
        for (me, first) in firsts.iter().enumerate() {
            for (nth, place) in (*first..first + wanted).enumerate() {
                if claimed.contains(&place) {
                    missed += 1;
                    turns[me].note_miss(me as f64 / firsts.len() as f64, wanted - nth - 1);
                    continue;
                }
                claimed.push(place);
                turns[me].note_own();
                turns.iter_mut().enumerate().filter(|(other, _)| *other != me).for_each(|(_, turn)| turn.note_other());
            }
        }
        missed
    }

    #[test]
    fn consumers_of_equal_speed_come_to_take_turns() {
        for (consumers, wanted) in [(2, 1), (3, 1), (4, 1), (8, 1), (2, 8), (4, 8)] {
            let mut turns: Vec<Turn> = (0..consumers).map(|_| Turn::default()).collect();
            for _ in 0..100 {
                round(&mut turns, wanted);
            }
            let missed: usize = (0..100).map(|_| round(&mut turns, wanted)).sum();
            let all = consumers * wanted * 100;
            assert!(missed * 4 < all, "{consumers} consumers, {wanted} at a time: {missed} of {all} too late");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_does_not_come_is_waited_for_no_longer_than_a_slot() {
        let mut turn = Turn::default();
        turn.note_answer(Duration::from_millis(2));
        turn.note_miss(0.99, 0);
        turn.note_miss(0.99, 0);
        let now = Instant::now();
        assert_eq!(turn.leaves(1), 3, "the last of four");
        assert_eq!(turn.due(3, now, now), Some(now + Duration::from_millis(12)));
        assert_eq!(turn.due(1, now, now), Some(now + Duration::from_millis(4)));
        assert_eq!(turn.due(0, now, now), None);
        turn.note_other();
        assert_eq!(turn.leaves(1), 2);
        assert_eq!(turn.due(2, now, now + Duration::from_millis(1)), Some(now + Duration::from_millis(9)));
        assert_eq!(turn.due(2, now, now + Duration::from_millis(9)), None);
    }

    #[test]
    fn claims_that_were_under_way_together_are_one_reason_to_draw() {
        let mut turn = Turn::default();
        (0..32).rev().for_each(|under_way| turn.note_miss(0.99, under_way));
        assert_eq!((turn.contention, turn.drawn), (1, Some(32)), "one turn of a hand of 32");
        turn.note_miss(0.99, 0);
        assert_eq!((turn.contention, turn.drawn), (3, Some(3)));
    }

    #[test]
    fn a_consumer_that_is_alone_expects_nothing_and_forgets_others_that_do_not_come() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        (0..9).for_each(|_| turn.note_own());
        assert!(turn.leaves(32) == 0 && !turn.is_contended());
        (0..900).for_each(|_| turn.note_other());
        turn.note_own();
        assert!(turn.leaves(1) > 50);
        for _ in 0..10 {
            turn.due(1, now, now);
            turn.due(1, now, now + LONGEST);
            turn.note_own();
        }
        assert!(turn.leaves(1) == 0 && !turn.is_contended(), "{turn:?}");
    }

    #[test]
    fn however_many_others_there_are_the_wait_has_an_end() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        turn.note_answer(Duration::from_secs(9));
        (0..99).for_each(|_| turn.note_miss(0.999, 9));
        let due = turn.due(turn.leaves(1).max(1), now, now).expect("it has to wait");
        assert!(due <= now + LONGEST);
    }
}
