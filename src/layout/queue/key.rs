//! What the name of an item says besides its number, as Curator's queues write it between the base and the number.
//!
//! | Curator's class | the name | where |
//! |---|---|---|
//! | `DistributedQueue` | `queue-N` | `makeItemPath` |
//! | `DistributedPriorityQueue` | `queue-1000000FFN` | `priorityToString` |
//! | `DistributedDelayQueue` | `queue-\|19F9A4A7A00\|N` | `epochToString`, `getEpoch` |
//! | `DistributedIdQueue` | `queue-\|order-7\|N` | `makeIdPath`, `fixId`, `parseId` |
//!
//! `N` are the ten digits that the server appends. Priorities and times are hexadecimal, with capitals, and padded to
//! eight digits. A priority follows a 1, or a 0 if it is negative, and then is its two's complement. A time is in
//! milliseconds since 1970. In an id `_` replaces `/` and `|`.

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;

use crate::layout::parts::{NUMBER_BYTES, before_number};

/// The prefix of the names of items, the same as Curator's.
pub(super) const BASE: &str = "queue-";
const MARK: char = '|';
/// What Curator writes for the characters of an id that a name cannot have.
const REPLACEMENT: &str = "_";
/// The length of a priority: a sign and hexadecimal digits.
const PRIORITY_BYTES: usize = 9;
/// How many hexadecimal digits a time has. What is shorter, or has one more, is an id.
const TIME_DIGITS: usize = 11;
/// The first and the last time of so many digits, in 2004 and in 2527.
pub(crate) const TIMES: RangeInclusive<i64> = 0x100_0000_0000..=0xfff_ffff_ffff;
/// How many digits a time has that is never reached, such as Java's `Long.MAX_VALUE`: it is after 10889. An item with
/// so many digits and letters is in no format, because it must not be delivered at once.
const NEVER_DIGITS: RangeInclusive<usize> = 13..=16;
/// The priority of an item without one: the middle of the range.
const USUAL_PRIORITY: i32 = 0;

/// What the name of an item says besides its number: at most one of these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Key {
    /// Nothing, as in Curator's `DistributedQueue`.
    #[default]
    None,
    /// Items with lower priorities come first, as in Curator's `DistributedPriorityQueue`.
    Priority(i32),
    /// The item is not delivered before this time, in milliseconds since 1970, as in Curator's
    /// `DistributedDelayQueue`.
    Time(i64),
    /// The item can be removed by this id, as in Curator's `DistributedIdQueue`.
    Id(String),
}

impl Key {
    /// Returns the key of an item with this name. Returns `None` if no queue of Curator has items with such names.
    pub(crate) fn of(name: &str) -> Option<Key> {
        Key::parse(between(name)?)
    }

    fn parse(between: &str) -> Option<Key> {
        if between.is_empty() {
            return Some(Key::None);
        }
        if let Some(marked) = between.strip_prefix(MARK) {
            // Curator takes what is between the first two marks for the id, and what is between the last two for the
            // time. It writes only two.
            let marked = marked.strip_suffix(MARK)?.split(MARK).next().filter(|marked| !marked.is_empty())?;
            if is_never(marked) {
                return None;
            }
            return Some(time_of(marked).map_or_else(|| Key::Id(marked.to_owned()), Key::Time));
        }
        priority_of(between).map(Key::Priority)
    }

    /// Returns the key of an id, which is changed as by Curator: a name has neither slashes nor marks.
    pub(crate) fn of_id(id: &str) -> Key {
        Key::Id(id.replace(['/', MARK], REPLACEMENT))
    }

    /// Returns whether this is an id whose name would be taken for that of a delayed item.
    pub(crate) fn looks_like_a_time(&self) -> bool {
        matches!(self, Key::Id(id) if time_of(id).is_some() || is_never(id))
    }

    /// Returns whether an item of this name was put with this id, even if the id looks like a time.
    pub(crate) fn is_id_of(&self, name: &str) -> bool {
        matches!(self, Key::Id(_)) && between(name).is_some_and(|between| between == self.to_string())
    }

    /// Returns the key for a copy of the item that is not delayed.
    pub(crate) fn without_time(self) -> Key {
        match self {
            Key::Time(_) => Key::None,
            key => key,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::None => Ok(()),
            Key::Priority(priority) => write!(f, "{}{priority:08X}", u8::from(*priority >= 0)),
            Key::Time(millis) => write!(f, "{MARK}{millis:08X}{MARK}"),
            Key::Id(id) => write!(f, "{MARK}{id}{MARK}"),
        }
    }
}

fn time_of(digits: &str) -> Option<i64> {
    let is_time = digits.len() == TIME_DIGITS && !digits.starts_with('0') && digits.bytes().all(is_digit);
    is_time.then(|| i64::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns whether these are the digits of a time that is never reached. Decimal digits alone are an id, as those of
/// goods and orders are.
fn is_never(digits: &str) -> bool {
    let is_time = NEVER_DIGITS.contains(&digits.len()) && !digits.starts_with('0') && digits.bytes().all(is_digit);
    is_time && i64::from_str_radix(digits, 16).is_ok() && digits.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn priority_of(between: &str) -> Option<i32> {
    if between.len() != PRIORITY_BYTES || !between.bytes().all(is_digit) {
        return None;
    }
    let priority = u32::from_str_radix(between.get(1..)?, 16).ok()?.cast_signed();
    (Key::Priority(priority).to_string() == between).then_some(priority)
}

/// Returns whether it is a hexadecimal digit as Java writes them.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

/// Returns the part between the base and the number in the name of an item.
pub(super) fn between(name: &str) -> Option<&str> {
    before_number(name.strip_prefix(BASE)?)
}

/// The place of an item in its queue. The order is by priority; then items with a time come first, by their times;
/// then by number. Each of Curator's queues has this order among its own items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    priority: i32,
    time: i64,
    number: u64,
    name: String,
}

impl Place {
    /// Returns the place of the item of this name.
    pub(crate) fn of(name: &str) -> Self {
        let (priority, time) = match Key::of(name) {
            Some(Key::Priority(priority)) => (priority, i64::MAX),
            Some(Key::Time(time)) => (USUAL_PRIORITY, time),
            _ => (USUAL_PRIORITY, i64::MAX),
        };
        let digits = name.len().checked_sub(NUMBER_BYTES).and_then(|at| name.get(at..));
        let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
        Place { priority, time, number, name: name.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = |place: &Place| (place.priority, place.time, place.number);
        order(self).cmp(&order(other)).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(key: &Key, number: u32) -> String {
        format!("{BASE}{key}{number:010}")
    }

    /// As Curator 5.9.1 wrote them.
    #[test]
    fn golden_vectors() {
        let vectors = [
            (Key::None, 0, "queue-0000000000"),
            (Key::Priority(0), 0, "queue-1000000000000000000"),
            (Key::Priority(1), 1, "queue-1000000010000000001"),
            (Key::Priority(255), 2, "queue-1000000FF0000000002"),
            (Key::Priority(-1), 3, "queue-0FFFFFFFF0000000003"),
            (Key::Priority(i32::MIN), 4, "queue-0800000000000000004"),
            (Key::Priority(i32::MAX), 5, "queue-17FFFFFFF0000000005"),
            (Key::Time(1_785_000_000_000), 1, "queue-|19F9A4A7A00|0000000001"),
            (Key::of_id("my/i|d"), 0, "queue-|my_i_d|0000000000"),
        ];
        for (key, number, expected) in vectors {
            assert_eq!(name(&key, number), expected);
            assert_eq!(Key::of(expected), Some(key));
        }
        assert_eq!(Key::Time(1).to_string(), "|00000001|");
    }

    #[test]
    fn what_is_marked_is_a_time_only_if_it_can_be_none_but_one_of_our_days() {
        let key = |between: &str| Key::of(&format!("queue-{between}0000000001"));
        assert_eq!(
            [*TIMES.start(), *TIMES.end()].map(|time| key(&Key::Time(time).to_string())),
            [Some(Key::Time(*TIMES.start())), Some(Key::Time(*TIMES.end()))]
        );
        for id in [
            "00000001",
            "19f9a4a7a00",
            "-19F9A4A7A0",
            "09F9A4A7A00",
            "user-7",
            "FFFFFFFFFF",
            "100000000042",
            "FFFFFFFFFFFF",
        ] {
            assert_eq!(key(&format!("|{id}|")), Some(Key::Id(id.to_owned())));
            assert!(!Key::of_id(id).looks_like_a_time());
        }
        for id in ["8FFFFFFFFFFFFFFF", "1785000000000", "4006381333931", "1234567890123456", "1234567890123456F"] {
            assert_eq!(key(&format!("|{id}|")), Some(Key::Id(id.to_owned())));
        }
        for never in ["7FFFFFFFFFFFFFFF", "1000000000000F"] {
            assert_eq!(key(&format!("|{never}|")), None, "{never}");
            assert!(Key::of_id(never).looks_like_a_time());
        }
        assert!(Key::of_id("10000000042").looks_like_a_time());
        assert!(Key::of_id("10000000042").is_id_of("queue-|10000000042|0000000001"));
        assert!(!Key::of_id("1").is_id_of("queue-0000000001") && !Key::Time(1).is_id_of("queue-|00000001|0000000001"));
        assert_eq!(key("|a|b|"), Some(Key::Id("a".to_owned())));
        for other in ["||", "|", "|a", "a|", "x", "100000005x", "200000005", "0000000FF", "1FFFFFFFF", "1000000ff"] {
            assert_eq!(key(other), None, "{other}");
        }
        for other in ["queue-", "queue-1", "entry-0000000001", "queue-0000000001x"] {
            assert_eq!(Key::of(other), None, "{other}");
        }
    }

    #[test]
    fn the_order_is_by_priority_then_by_time_then_by_number() {
        let in_order = [
            name(&Key::Priority(i32::MIN), 9),
            name(&Key::Priority(-1), 3),
            name(&Key::Time(*TIMES.start()), 8),
            name(&Key::Time(1_785_000_000_000), 1),
            name(&Key::Time(1_785_000_000_000), 5),
            name(&Key::None, 0),
            name(&Key::of_id("z"), 2),
            name(&Key::Priority(0), 4),
            name(&Key::of_id("a"), 6),
            name(&Key::Priority(1), 7),
        ];
        let mut names = in_order.to_vec();
        names.reverse();
        names.sort_by_key(|name| Place::of(name));
        assert_eq!(names, in_order);
    }

    fn keys() -> impl Strategy<Value = Key> {
        prop_oneof![
            Just(Key::None),
            any::<i32>().prop_map(Key::Priority),
            TIMES.prop_map(Key::Time),
            "[a-z0-9 /|.-]{1,20}".prop_map(|id| Key::of_id(&id)),
        ]
    }

    proptest! {
        #[test]
        fn a_key_is_read_as_it_was_written(key in keys(), number in any::<u32>()) {
            prop_assume!(!key.looks_like_a_time());
            prop_assert_eq!(Key::of(&name(&key, number % 1_000_000_000)), Some(key));
        }

        /// Curator's consumers sort these names as text.
        #[test]
        fn priorities_have_the_order_of_their_text(one in any::<(i32, u32)>(), other in any::<(i32, u32)>()) {
            let [one, other] = [one, other].map(|(priority, number)| name(&Key::Priority(priority), number % 1_000));
            prop_assert_eq!(Place::of(&one).cmp(&Place::of(&other)), one.cmp(&other));
        }

        #[test]
        fn any_name_is_judged_without_a_panic(name in ".{0,30}", between in "[0-9A-F|]{0,20}") {
            let _ = (Key::of(&name), Place::of(&name), Key::of(&format!("queue-{between}0000000000")));
        }
    }
}
