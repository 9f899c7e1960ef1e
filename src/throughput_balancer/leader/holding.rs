//! What one member may be applying, as far as the leader knows.

use std::collections::VecDeque;

use crate::throughput_balancer::record::{Decision, Record};

/// The shares that a member was given and has not acknowledged to have left behind. It may be applying any of them.
#[derive(Debug)]
pub(super) struct Holding {
    /// The largest share from before the first of `given`; 0 once one of those is acknowledged.
    before: u64,
    /// Oldest first. If the member has acknowledged one of them, it is the first.
    given: VecDeque<(Decision, u64)>,
}

impl Holding {
    /// As the record and the acknowledgement tell it.
    pub(super) fn read(record: &Record, ack: Decision) -> Self {
        let mut holding = Holding { before: record.ceiling, given: VecDeque::new() };
        holding.gave(record.decision(), record.throughput);
        holding.acknowledged(ack);
        holding
    }

    /// Of a member whose record was never seen.
    pub(super) fn anything() -> Self {
        Holding { before: u64::MAX, given: VecDeque::new() }
    }

    /// The largest share that the member may be applying.
    pub(super) fn most(&self) -> u64 {
        self.given.iter().map(|(_, throughput)| *throughput).fold(self.before, u64::max)
    }

    /// Whether an acknowledgement is awaited.
    pub(super) fn is_above(&self, throughput: u64) -> bool {
        self.most() > throughput
    }

    /// Notes that the member was given a share.
    pub(super) fn gave(&mut self, decision: Decision, throughput: u64) {
        if throughput >= self.most() {
            // There is nothing larger to fall back from.
            (self.before, self.given) = (0, VecDeque::new());
        }
        self.given.push_back((decision, throughput));
    }

    /// Notes that the member follows everything up to `ack`. It may have followed one decision while the next was written, so
    /// this need not be the newest.
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

    #[test]
    fn a_record_without_an_acknowledgement_holds_its_ceiling() {
        let record = Record::new("a", 9).next(4, 9, decision(2));
        assert_eq!(Holding::read(&record, decision(1)).most(), 9);
        assert_eq!(Holding::read(&record, decision(2)).most(), 4);
        assert_eq!(Holding::read(&Record::new("a", 9), Decision::default()).most(), 9, "a new member");
    }

    #[test]
    fn each_acknowledgement_frees_what_was_given_before_it() {
        let mut holding = Holding::read(&Record::new("a", 9), Decision::default());
        for (sequence, throughput) in [(1, 7), (2, 5), (3, 6), (4, 2)] {
            holding.gave(decision(sequence), throughput);
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
        let mut holding = Holding::read(&Record::new("a", 9), Decision::default());
        holding.gave(decision(1), 5);
        holding.gave(decision(2), 9);
        assert!(!holding.is_above(9));
        holding.gave(decision(3), 4);
        holding.acknowledged(decision(1));
        assert_eq!(holding.most(), 9, "an acknowledgement that comes late frees nothing");
    }
}
