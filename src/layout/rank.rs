//! The rank of a participant in an election, which the name of its node states before the base.
//!
//! ```text
//! <path>/_c_<uuid>-priority-0000000005-latch-<number>     it has the priority 5
//! <path>/_c_<uuid>-gives-way-0000000005-latch-<number>    the same, and it has resigned
//! <path>/_c_<uuid>-gives-way-0000000005-to-0000000007-latch-<number>
//!                                                         it has made room for the one with the number 7
//! ```
//!
//! Curator compares only what follows the base, so its members take such a node for any other. As the rank is in the
//! name, the list of the line shows the ranks of all, and a rank is gone with its node.

use super::line::{LATCH, Number, number_of};
use super::parts::NUMBER_BYTES;

/// What a name says before the priority of its participant.
const PRIORITY: &str = "priority";
/// The same, if the participant gives way.
const GIVES_WAY: &str = "gives-way";
/// What a name says before the number of the participant to which it gives way.
const TO: &str = "-to-";

/// To whom a participant gives way, until it has led again: it goes before none of them, whatever its priority. The
/// greater of two is for all of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GivesWay {
    /// To none: it has not resigned.
    ToNone,
    /// To the participant whose node has this number, which a transfer has chosen, and to those before it. Once they
    /// have left their places, their numbers are greater.
    To(u32),
    /// To all: it has resigned, and none was chosen.
    ToAll,
}

impl GivesWay {
    /// Returns what one does that makes room for the participant with this name.
    pub(crate) fn to(chosen: &str) -> Self {
        match number_of(chosen, &[LATCH]) {
            Some(Number::Ordered(number)) => GivesWay::To(number),
            // Its name does not tell it from others.
            _ => GivesWay::ToAll,
        }
    }
}

/// The rank of a participant in an election, apart from its place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    /// A participant with a lower number is to lead before it.
    pub(crate) priority: u32,
    pub(crate) gives_way: GivesWay,
}

impl Rank {
    /// Returns what the name of a node states between its UUID and its base.
    pub(crate) fn label(self) -> String {
        let Rank { priority, gives_way } = self;
        match gives_way {
            GivesWay::ToNone => format!("{PRIORITY}-{priority:010}-"),
            GivesWay::To(number) => format!("{GIVES_WAY}-{priority:010}{TO}{number:010}-"),
            GivesWay::ToAll => format!("{GIVES_WAY}-{priority:010}-"),
        }
    }

    /// Returns the rank that the name of a latch's node states.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let label = name.rsplit_once(LATCH)?.0.strip_suffix('-')?;
        let (label, chosen) = match label.rsplit_once(TO) {
            Some((label, number)) => (label, Some(digits(number)?)),
            None => (label, None),
        };
        let (word, priority) = label.rsplit_once('-')?;
        let gives_way = match chosen {
            None if word.ends_with(&format!("-{PRIORITY}")) => GivesWay::ToNone,
            _ if word.ends_with(&format!("-{GIVES_WAY}")) => chosen.map_or(GivesWay::ToAll, GivesWay::To),
            _ => return None,
        };
        Some(Rank { priority: digits(priority)?, gives_way })
    }
}

/// Returns the number that these ten digits state.
pub(super) fn digits(text: &str) -> Option<u32> {
    let is_number = text.len() == NUMBER_BYTES && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns whether the participant of a latch with this name goes before the one with the `other` name, whatever their
/// places. As the priority falls each time, no two can pass each other in turn. Those without one keep their places.
pub(crate) fn precedes(name: &str, other: &str) -> bool {
    let (Some(rank), Some(than)) = (Rank::of(name), Rank::of(other)) else { return false };
    rank.priority < than.priority && !gives_way_to(name, rank, other)
}

/// Returns whether the participant with this name gives way to one in this line.
pub(crate) fn gives_way(name: &str, line: &[impl AsRef<str>]) -> bool {
    Rank::of(name).is_some_and(|rank| line.iter().any(|other| gives_way_to(name, rank, other.as_ref())))
}

fn gives_way_to(name: &str, rank: Rank, other: &str) -> bool {
    match rank.gives_way {
        GivesWay::ToNone => false,
        // It entered after the chosen one, unless the directory was deleted and counts from 0 again.
        GivesWay::To(chosen) => is_up_to(chosen, other) && !is_up_to(chosen, name),
        GivesWay::ToAll => true,
    }
}

/// Returns whether the participant with this name is the one with the `chosen` number, or before that.
fn is_up_to(chosen: u32, name: &str) -> bool {
    matches!(number_of(name, &[LATCH]), Some(Number::Ordered(number)) if number <= chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(rank: Option<Rank>, number: u32) -> String {
        format!("_c_u-{}latch-{number:010}", rank.map(Rank::label).unwrap_or_default())
    }

    #[test]
    fn a_name_with_a_rank_is_in_the_line_and_states_it() {
        let marks = [GivesWay::ToNone, GivesWay::To(7), GivesWay::ToAll];
        for (priority, gives_way) in [0, 5, u32::MAX].into_iter().zip(marks) {
            let rank = Rank { priority, gives_way };
            let name = name(Some(rank), 12);
            assert_eq!(Rank::of(&name), Some(rank), "{name}");
            assert_eq!(number_of(&name, &[LATCH]), Some(Number::Ordered(12)));
        }
        assert_eq!(Rank { priority: 5, gives_way: GivesWay::ToNone }.label(), "priority-0000000005-");
        assert_eq!(Rank { priority: 5, gives_way: GivesWay::To(7) }.label(), "gives-way-0000000005-to-0000000007-");
    }

    #[test]
    fn a_name_without_a_rank_or_with_a_malformed_one_states_none() {
        let malformed = ["priority-00000000x5-", "priority-9999999999-", "-0000000005-", "gives-way-0000000005-to-7-"];
        for before in ["", "5-", "priority-5-", "priority-0000000005-to-0000000007-"].iter().chain(&malformed) {
            assert_eq!(Rank::of(&format!("_c_u-{before}latch-0000000012")), None, "{before}");
        }
        assert_eq!(Rank::of("_c_u-priority-0000000005-lock-0000000012"), None);
        assert_eq!(Rank::of("_c_u-xpriority-0000000005-latch-0000000012"), None);
    }

    #[test]
    fn a_lower_number_goes_first_unless_it_gives_way() {
        let ranked = |number, priority, gives_way| name(Some(Rank { priority, gives_way }), number);
        let [one, two] = [1, 2].map(|priority| ranked(priority, priority, GivesWay::ToNone));
        let [one_to_all, two_to_all] = [1, 2].map(|priority| ranked(3, priority, GivesWay::ToAll));
        let (one_to_two, two_to_one) = (ranked(4, 1, GivesWay::to(&two)), ranked(4, 2, GivesWay::to(&one)));
        let (three, plain) = (ranked(5, 3, GivesWay::ToNone), name(None, 6));
        for (first, other) in [(&one, &two), (&one, &two_to_all), (&one, &two_to_one), (&one_to_two, &three)] {
            assert!(precedes(first, other) && !precedes(other, first), "{first} {other}");
        }
        let gave_way = [(&one_to_all, &two), (&one_to_two, &two), (&one_to_all, &two_to_all), (&two, &one_to_all)];
        for (first, other) in gave_way.into_iter().chain([(&one, &one), (&one, &plain), (&plain, &two)]) {
            assert!(!precedes(first, other), "{first} {other}");
        }
    }

    #[test]
    fn one_that_made_room_gives_way_while_the_chosen_one_or_one_before_it_has_the_same_node() {
        let mark = |chosen: &str, number| name(Some(Rank { priority: 1, gives_way: GivesWay::to(chosen) }), number);
        let [before, chosen, other] = [6, 7, 9].map(|number| name(None, number));
        let made_room = mark(&chosen, 8);
        for (line, expected) in [([&chosen, &other], true), ([&before, &other], true), ([&made_room, &other], false)] {
            assert_eq!(gives_way(&made_room, &line), expected, "{line:?}");
        }
        // The directory was deleted, and counts from 0 again.
        assert!(!gives_way(&mark(&chosen, 3), &[&before, &chosen]));
        // The counter of the directory was exhausted.
        assert!(gives_way(&mark("_c_u-latch--2147483648", 8), &[&other]));
        assert!(!gives_way(&chosen, &[&chosen]) && !gives_way(&other, &[&chosen]));
    }

    #[test]
    fn the_greater_of_two_is_for_all_of_both() {
        assert!(GivesWay::ToNone < GivesWay::To(0) && GivesWay::To(7) < GivesWay::To(9));
        assert!(GivesWay::To(u32::MAX) < GivesWay::ToAll);
    }
}
