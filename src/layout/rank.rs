//! The rank of a participant in an election, which the name of its node states before the base.
//!
//! ```text
//! <path>/_c_<uuid>-priority-0000000005-latch-<number>     it has the priority 5
//! <path>/_c_<uuid>-gives-way-0000000005-latch-<number>    the same, and it has resigned
//! ```
//!
//! Curator compares only what follows the base, so its members take such a node for any other. As the rank is in the
//! name, the list of the line shows the ranks of all, and a rank is gone with its node.

use super::line::LATCH;
use super::parts::NUMBER_BYTES;

/// What a name says before the priority of its participant.
const PRIORITY: &str = "priority";
/// The same, if the participant gives way.
const GIVES_WAY: &str = "gives-way";

/// The rank of a participant in an election, apart from its place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    /// A participant with a lower number is to lead before it.
    pub(crate) priority: u32,
    /// It has resigned, and goes before no other until it has led again.
    pub(crate) gives_way: bool,
}

impl Rank {
    /// Returns whether a participant of this rank goes before one of the `other` rank, whatever their places. As the
    /// number falls each time, no two can pass each other in turn.
    pub(crate) fn precedes(self, other: Rank) -> bool {
        self.priority < other.priority && !self.gives_way
    }
}

/// Returns whether the participant of a latch with this name goes before the one with the `other` name. Those without a
/// priority keep their places.
pub(crate) fn precedes(name: &str, other: &str) -> bool {
    rank_of(name).zip(rank_of(other)).is_some_and(|(rank, other)| rank.precedes(other))
}

/// Returns what the name of a node has before its number, after its UUID.
pub(crate) fn base_with(rank: Option<Rank>, base: &str) -> String {
    let Some(Rank { priority, gives_way }) = rank else { return base.to_owned() };
    let word = if gives_way { GIVES_WAY } else { PRIORITY };
    format!("{word}-{priority:010}-{base}")
}

/// Returns the rank that the name of a latch's node states.
pub(crate) fn rank_of(name: &str) -> Option<Rank> {
    let (before, digits) = name.rsplit_once(LATCH)?.0.strip_suffix('-')?.rsplit_once('-')?;
    let gives_way = match before {
        _ if before.ends_with(&format!("-{PRIORITY}")) => false,
        _ if before.ends_with(&format!("-{GIVES_WAY}")) => true,
        _ => return None,
    };
    let is_number = digits.len() == NUMBER_BYTES && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some(Rank { priority: digits.parse().ok().filter(|_| is_number)?, gives_way })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::line::{Number, number_of};

    fn name(rank: Option<Rank>) -> String {
        format!("_c_u-{}0000000012", base_with(rank, LATCH))
    }

    #[test]
    fn a_name_with_a_rank_is_in_the_line_and_states_it() {
        for (priority, gives_way) in [(0, false), (5, true), (u32::MAX, false)] {
            let rank = Rank { priority, gives_way };
            let name = name(Some(rank));
            assert_eq!(rank_of(&name), Some(rank), "{name}");
            assert_eq!(number_of(&name, &[LATCH]), Some(Number::Ordered(12)));
        }
        assert_eq!(base_with(None, LATCH), LATCH);
        let five = Rank { priority: 5, gives_way: false };
        assert_eq!(base_with(Some(five), LATCH), "priority-0000000005-latch-");
    }

    #[test]
    fn a_name_without_a_rank_or_with_a_malformed_one_states_none() {
        for before in ["", "5-", "priority-5-", "priority-00000000x5-", "priority-9999999999-", "-0000000005-"] {
            assert_eq!(rank_of(&format!("_c_u-{before}latch-0000000012")), None, "{before}");
        }
        assert_eq!(rank_of("_c_u-priority-0000000005-lock-0000000012"), None);
        assert_eq!(rank_of("_c_u-xpriority-0000000005-latch-0000000012"), None);
    }

    #[test]
    fn a_lower_number_goes_first_unless_it_gives_way() {
        let [one, two] = [1, 2].map(|priority| name(Some(Rank { priority, gives_way: false })));
        let [one_gives_way, two_gives_way] = [1, 2].map(|priority| name(Some(Rank { priority, gives_way: true })));
        let plain = name(None);
        for (first, other) in [(&one, &two), (&one, &two_gives_way)] {
            assert!(precedes(first, other) && !precedes(other, first), "{first} {other}");
        }
        let gave_way = [(&one_gives_way, &two), (&one_gives_way, &two_gives_way), (&two, &one_gives_way)];
        for (first, other) in gave_way.into_iter().chain([(&one, &one), (&one, &plain), (&plain, &two)]) {
            assert!(!precedes(first, other), "{first} {other}");
        }
    }
}
