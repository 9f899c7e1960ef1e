//! What one member may be applying, as far as the leader knows.

use std::collections::VecDeque;

use crate::layout::throughput_balancer::Decision;
use crate::throughput_balancer::record::Record;

/// At most this many shares are kept separately. Of older ones, only the largest is kept.
const MOST_GIVEN: usize = 64;

/// An unknown amount. No record contains as much.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What several members hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// The sum of all that is known.
    pub(super) known: u64,
    /// Whether one of them may be applying anything.
    pub(super) is_unknown: bool,
}

impl FromIterator<u64> for Held {
    fn from_iter<T: IntoIterator<Item = u64>>(all: T) -> Self {
        all.into_iter().fold(Held::default(), |sum, held| match held {
            UNKNOWN => Held { is_unknown: true, ..sum },
            held => Held { known: sum.known.saturating_add(held), ..sum },
        })
    }
}

/// The shares that a member was given and that it may still be applying, as far as its acknowledgements show.
#[derive(Debug)]
pub(super) struct Holding {
    /// The largest share from before the first one in `given`; 0 once one of those is acknowledged.
    before: u64,
    /// Oldest first. If the member has acknowledged one of them, it is the first.
    given: VecDeque<(Decision, u64)>,
}

impl Holding {
    /// Reads what is held from the record and the acknowledgement, if there is one.
    pub(super) fn read(record: &Record, ack: Option<Decision>) -> Self {
        let mut holding = Holding { before: record.ceiling, given: VecDeque::new() };
        holding.add(record);
        if let Some(ack) = ack {
            holding.acknowledged(ack);
        }
        holding
    }

    /// Returns the holding of a member whose record was never seen.
    pub(super) fn unknown() -> Self {
        Holding { before: UNKNOWN, given: VecDeque::new() }
    }

    /// Returns the largest share that the member may be applying.
    pub(super) fn most(&self) -> u64 {
        self.given.iter().map(|(_, throughput)| *throughput).fold(self.before, u64::max)
    }

    /// Returns whether the member may be applying more than this.
    pub(super) fn is_above(&self, throughput: u64) -> bool {
        self.most() > throughput
    }

    /// Records that the member was given this record.
    pub(super) fn add(&mut self, record: &Record) {
        if record.throughput >= self.most() {
            // The member holds nothing larger.
            (self.before, self.given) = (0, VecDeque::new());
        }
        self.given.push_back((record.decision(), record.throughput));
        if self.given.len() > MOST_GIVEN {
            let oldest = self.given.pop_front().map_or(0, |(_, throughput)| throughput);
            self.before = self.before.max(oldest);
        }
    }

    /// Records that the member follows everything up to `ack`. This need not be the newest decision: the member may
    /// have applied one decision while the next one was written.
    pub(super) fn acknowledged(&mut self, ack: Decision) {
        if let Some(reached) = self.given.iter().rposition(|(decision, _)| *decision <= ack) {
            self.before = 0;
            self.given.drain(..reached);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(sequence: u64) -> Decision {
        Decision { epoch: 1, sequence }
    }

    /// A new member with a share of 9.
    fn new() -> Holding {
        Holding::read(&Record::new("a", 9), Some(Decision::default()))
    }

    fn give(holding: &mut Holding, sequence: u64, throughput: u64) {
        let ceiling = holding.most().max(throughput);
        holding.add(&Record::new("a", 9).next(throughput, ceiling, decision(sequence)));
    }

    #[test]
    fn a_record_without_its_acknowledgement_holds_its_ceiling() {
        let record = Record::new("a", 9).next(4, 9, decision(2));
        assert_eq!(Holding::read(&record, None).most(), 9);
        assert_eq!(Holding::read(&record, Some(decision(1))).most(), 9);
        assert_eq!(Holding::read(&record, Some(decision(2))).most(), 4);
        assert_eq!(new().most(), 9);
    }

    #[test]
    fn each_acknowledgement_frees_what_was_given_before_it() {
        let mut holding = new();
        for (sequence, throughput) in [(1, 7), (2, 5), (3, 6), (4, 2)] {
            give(&mut holding, sequence, throughput);
        }
        let mut held = vec![holding.most()];
        for sequence in 1..=4 {
            holding.acknowledged(decision(sequence));
            held.push(holding.most());
        }
        assert_eq!(held, [9, 7, 6, 6, 2]);
        assert!(!holding.is_above(2));
    }

    #[test]
    fn a_raise_above_everything_awaits_no_acknowledgement() {
        let mut holding = new();
        give(&mut holding, 1, 5);
        give(&mut holding, 2, 9);
        assert!(!holding.is_above(9));
        give(&mut holding, 3, 4);
        holding.acknowledged(decision(1));
        assert_eq!(holding.most(), 9, "an acknowledgement that comes late frees nothing");
    }

    /// Earlier versions could write a lowered share that way.
    #[test]
    fn a_record_whose_ceiling_is_its_share_awaits_none_either() {
        let record = Record::new("a", 9).next(4, 4, decision(1));
        assert_eq!(Holding::read(&record, None).most(), 4);
        assert_eq!(Holding::read(&record, Some(Decision::default())).most(), 4);
    }

    #[test]
    fn of_many_shares_none_is_forgotten_that_may_be_applied() {
        let mut holding = new();
        for sequence in 1..=1_000 {
            give(&mut holding, sequence, 8 - sequence % 2);
        }
        assert!(holding.given.len() <= MOST_GIVEN);
        assert_eq!(holding.most(), 9);
        holding.acknowledged(decision(999));
        assert_eq!(holding.most(), 8);
    }
}
