//! The order of a line of sequential znodes.
//!
//! The server appends its directory's counter to the name of each contender's node, and the lowest number is first. Two
//! things make that more than a sort of the names:
//!
//! - The directory may hold other nodes. Only names that end in one of the line's bases and a number belong to the
//!   line.
//! - The counter is a signed 32-bit number. At 2147483647 it sticks, and inside a burst of creates it may turn
//!   negative. From there on the numbers do not tell the order. Such nodes come after all others and are ordered by
//!   the transaction that created them (`czxid`), which has to be read from the server.

use crate::layout::line::{Number, STUCK, number_of};

/// From here on the counter of the directory is nearly exhausted: the last 2^20 numbers before it sticks.
const NEAR_EXHAUSTION: u32 = STUCK + 1 - (1 << 20);

fn bases_of(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The nodes of one line as found in a listing, in no order yet.
#[derive(Debug)]
pub(crate) struct Listing {
    ordered: Vec<(u32, String)>,
    unresolved: Vec<String>,
}

impl Listing {
    /// Picks the nodes of the line out of the children of its directory.
    pub(crate) fn of(children: impl IntoIterator<Item = String>, bases: &[&str]) -> Self {
        let mut line = Self { ordered: Vec::new(), unresolved: Vec::new() };
        for name in children {
            match number_of(&name, bases) {
                Some(Number::Ordered(number)) => line.ordered.push((number, name)),
                Some(Number::Exhausted) => line.unresolved.push(name),
                None => {}
            }
        }
        line
    }

    /// Returns the names whose `czxid` must be read before the line can be ordered; nearly always none.
    pub(crate) fn unresolved(&self) -> &[String] {
        &self.unresolved
    }

    /// Returns the queue, if the numbers alone decide; otherwise the line itself, to be [resolved](Self::resolve).
    ///
    /// The caller cannot skip this check: a queue that lacks the unresolved nodes would let two lead.
    pub(crate) fn into_queue(self) -> Result<Queue, Self> {
        if self.unresolved.is_empty() { Ok(self.resolve(|_| None)) } else { Err(self) }
    }

    /// Orders the line. `czxid_of` is asked once for each unresolved name; `None` means that the node has
    /// vanished since the listing, and it is left out.
    pub(crate) fn resolve(self, mut czxid_of: impl FnMut(&str) -> Option<i64>) -> Queue {
        let near_exhaustion = self.is_near_exhaustion();
        let Self { mut ordered, unresolved } = self;
        ordered.sort_unstable();
        let listed = unresolved.len();
        let mut late: Vec<_> = unresolved.into_iter().filter_map(|name| Some((czxid_of(&name)?, name))).collect();
        late.sort_unstable();
        let some_vanished = late.len() < listed;
        let ordered = ordered.into_iter().map(|(_, name)| name);
        let late = late.into_iter().map(|(_, name)| name);
        Queue { names: ordered.chain(late).collect(), near_exhaustion, some_vanished }
    }

    fn is_near_exhaustion(&self) -> bool {
        !self.unresolved.is_empty() || self.ordered.iter().any(|&(number, _)| number >= NEAR_EXHAUSTION)
    }
}

/// What a contender waits for.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// The node directly ahead of its own.
    Alone,
    /// The node directly ahead, in a line with readers, whose bases these are: a writer ahead may turn into a reader.
    Writes(Vec<String>),
    /// The nearest writer ahead. These are the bases of readers.
    Reads(Vec<String>),
    /// No node. It holds as soon as its recipe admits it.
    Counted,
}

/// What a contender does at its place in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// It holds.
    Now,
    /// It waits for the node with this name, which is the `last`: when it is gone, the contender holds. Otherwise the
    /// line must be listed again then.
    After { name: &'a str, last: bool },
}

/// The names of a line, in order of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    names: Vec<String>,
    near_exhaustion: bool,
    some_vanished: bool,
}

impl Queue {
    /// Returns how many names are ahead of `name`, or `None` if it is not in the line.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// Returns the first of the line.
    pub(crate) fn head(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }

    /// Returns what the contender `name` does under this rule, or `None` if it is not in the line.
    pub(crate) fn turn_of(&self, name: &str, rule: &Rule) -> Option<Turn<'_>> {
        let ahead = &self.names[..self.position(name)?];
        let is_reader = |name: &str, readers: &[String]| number_of(name, &bases_of(readers)).is_some();
        let turn = match rule {
            // Its place in the order says nothing.
            Rule::Counted => return None,
            Rule::Alone => ahead.last().map(|before| (before, ahead.len() == 1)),
            Rule::Writes(readers) => {
                ahead.last().map(|before| (before, ahead.len() == 1 && is_reader(before, readers)))
            }
            Rule::Reads(readers) => {
                let mut writers = ahead.iter().rev().filter(|name| !is_reader(name, readers));
                writers.next().map(|nearest| (nearest, writers.next().is_none()))
            }
        };
        Some(turn.map_or(Turn::Now, |(name, last)| Turn::After { name, last }))
    }

    /// Returns whether the line may have changed in a way that matters under this rule: a node that has vanished since
    /// the listing may have turned into one that was not listed.
    pub(crate) fn is_outdated(&self, rule: &Rule) -> bool {
        self.some_vanished && matches!(rule, Rule::Writes(_))
    }

    /// Returns all names in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether the directory's counter is within 2^20 of its end, or past it. Then the directory should be
    /// deleted when it is empty, as a new one counts from zero.
    pub(crate) fn is_near_exhaustion(&self) -> bool {
        self.near_exhaustion
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const LOCK: &[&str] = &["lock-"];

    fn line(names: &[&str], bases: &[&str]) -> Listing {
        Listing::of(names.iter().map(|name| name.to_string()), bases)
    }

    fn queue(names: &[&str], bases: &[&str]) -> Queue {
        line(names, bases).into_queue().expect("numbers decide")
    }

    #[test]
    fn curator_names_are_ordered_by_number_whatever_their_uuid() {
        let first = "_c_f0000000-0000-4000-8000-000000000001-lock-0000000003";
        let second = "_c_00000000-0000-4000-8000-000000000002-lock-0000000007";
        let queue = queue(&[second, first], LOCK);
        assert_eq!(queue.names(), [first, second]);
        assert_eq!(queue.head(), Some(first));
        assert_eq!(queue.position(second), Some(1));
        assert_eq!(queue.turn_of(second, &Rule::Alone), Some(Turn::After { name: first, last: true }));
        assert_eq!(queue.turn_of(first, &Rule::Alone), Some(Turn::Now));
        assert!(!queue.is_near_exhaustion());
    }

    #[test]
    fn kazoo_names_count_when_asked_for() {
        let kazoo = "5fd1c4a7e9a84f5b9e5c1f0b4a2e8d11__lock__0000000001";
        let ours = "_c_u-lock-0000000002";
        assert_eq!(queue(&[ours, kazoo], &["lock-", "__lock__"]).names(), [kazoo, ours]);
        assert_eq!(queue(&[ours, kazoo], LOCK).names(), [ours]);
    }

    #[test]
    fn foreign_children_are_not_in_the_line() {
        let foreign = [
            "",
            "lock-",
            "lock--",
            "lock-12a",
            "lock-+1",
            "lock- 1",
            "lock-1 ",
            "lock-1-",
            "lock-1-2",
            "lock-٣",
            "latch-0000000000",
            "0000000000",
            "config",
        ];
        let mut all = foreign.to_vec();
        all.push("lock-0000000009");
        assert_eq!(queue(&all, LOCK).names(), ["lock-0000000009"]);
        let nobody = queue(&foreign, LOCK);
        assert_eq!((nobody.head(), nobody.position("config")), (None, None));
        assert_eq!(nobody.turn_of("config", &Rule::Alone), None);
    }

    #[test]
    fn numbers_decide_and_not_the_order_of_texts() {
        let names = ["lock-10", "lock-9", "a-lock-0000000011", "z-lock-0000000008"];
        assert_eq!(queue(&names, LOCK).names(), ["z-lock-0000000008", "lock-9", "lock-10", "a-lock-0000000011"]);
    }

    #[test]
    fn equal_numbers_are_ordered_by_name() {
        assert_eq!(queue(&["b-lock-1", "a-lock-1"], LOCK).names(), ["a-lock-1", "b-lock-1"]);
    }

    #[test]
    fn exhausted_numbers_come_last_by_czxid() {
        let names =
            ["a-lock--2147483648", "b-lock-2147483647", "c-lock-2147483646", "d-lock-2147483647", "e-lock-0000000001"];
        let line = line(&names, LOCK);
        assert_eq!(line.unresolved(), ["a-lock--2147483648", "b-lock-2147483647", "d-lock-2147483647"]);
        let line = line.into_queue().expect_err("czxids are needed");
        let queue = line.resolve(|name| match &name[..1] {
            "a" => Some(30),
            "b" => Some(40),
            _ => Some(20),
        });
        let order: Vec<_> = queue.names().iter().map(|name| &name[..1]).collect();
        assert_eq!(order, ["e", "c", "d", "a", "b"]);
        assert!(queue.is_near_exhaustion());
    }

    #[test]
    fn equal_czxids_are_ordered_by_name_and_the_vanished_are_left_out() {
        let names = ["b-lock-2147483647", "a-lock-2147483647", "gone-lock-2147483647"];
        let queue = line(&names, LOCK).resolve(|name| (!name.starts_with("gone")).then_some(7));
        assert_eq!(queue.names(), ["a-lock-2147483647", "b-lock-2147483647"]);
    }

    #[test]
    fn a_writer_lists_again_if_a_node_has_vanished_since_the_listing() {
        let writes = Rule::Writes(vec![READ.to_owned()]);
        let names = ["__WRIT__2147483647", "b__WRIT__2147483647"];
        let vanished = line(&names, BOTH).resolve(|name| name.starts_with('b').then_some(7));
        assert!(vanished.is_outdated(&writes));
        assert!(!vanished.is_outdated(&Rule::Reads(vec![READ.to_owned()])), "what it turns into is beside us");
        assert!(!vanished.is_outdated(&Rule::Alone));
        assert!(!line(&names, BOTH).resolve(|_| Some(7)).is_outdated(&writes));
    }

    const READ: &str = "__READ__";
    const BOTH: &[&str] = &["__WRIT__", READ];

    fn after(name: &str, last: bool) -> Option<Turn<'_>> {
        Some(Turn::After { name, last })
    }

    #[test]
    fn a_reader_waits_for_the_nearest_writer_and_a_writer_for_the_node_before_it() {
        let names = ["__READ__0", "__READ__1", "__WRIT__2", "__READ__3", "__WRIT__4", "__WRIT__5", "__READ__6"];
        let (queue, readers) = (queue(&names, BOTH), vec![READ.to_owned()]);
        let reads = Rule::Reads(readers.clone());
        assert_eq!(queue.turn_of("__READ__0", &reads), Some(Turn::Now));
        assert_eq!(queue.turn_of("__READ__1", &reads), Some(Turn::Now));
        assert_eq!(queue.turn_of("__READ__3", &reads), after("__WRIT__2", true), "the only writer ahead");
        assert_eq!(queue.turn_of("__READ__6", &reads), after("__WRIT__5", false), "others are ahead of that one");
        let writes = Rule::Writes(readers);
        assert_eq!(queue.turn_of("__WRIT__2", &writes), after("__READ__1", false));
        assert_eq!(queue.turn_of("__WRIT__4", &writes), after("__READ__3", false));
        assert_eq!(queue.turn_of("__WRIT__5", &writes), after("__WRIT__4", false));
        assert_eq!(queue.turn_of("__READ__9", &reads), None);
    }

    #[test]
    fn a_writer_behind_a_writer_lists_again_as_that_one_may_turn_into_a_reader() {
        let writes = Rule::Writes(vec![READ.to_owned()]);
        let behind_a_writer = queue(&["__WRIT__0", "__WRIT__1"], BOTH);
        assert_eq!(behind_a_writer.turn_of("__WRIT__1", &writes), after("__WRIT__0", false));
        let behind_a_reader = queue(&["__READ__0", "__WRIT__1"], BOTH);
        assert_eq!(behind_a_reader.turn_of("__WRIT__1", &writes), after("__READ__0", true));
        assert_eq!(behind_a_reader.turn_of("__READ__0", &writes), Some(Turn::Now));
    }

    #[test]
    fn exhaustion_is_announced_in_time() {
        assert!(!queue(&["lock-2146435071"], LOCK).is_near_exhaustion());
        assert!(queue(&["lock-0000000001", "lock-2146435072"], LOCK).is_near_exhaustion());
        assert!(line(&["lock--0000000007"], LOCK).resolve(|_| None).is_near_exhaustion());
        assert!(!queue(&[], LOCK).is_near_exhaustion());
    }

    /// Returns the names that a server hands out around the limit. It counts up, sticks at the end, and `wrapped`
    /// creates of a burst see the counter turned negative. The names are in creation order, with the transaction that
    /// made each of them.
    fn created(start: i64, count: usize, wrapped: &[bool]) -> Vec<(String, i64)> {
        let name = |i: usize| {
            let number = (start + i as i64).min(i64::from(i32::MAX));
            let past_end = number == i64::from(i32::MAX) && wrapped.get(i).copied().unwrap_or(false);
            let number = if past_end { i64::from(i32::MIN) + i as i64 } else { number };
            // The uuid runs against the creation order, so that a sort by name is a sort in the wrong
            // direction.
            (format!("_c_{:03}-lock-{number:010}", 999 - i), 100 + 2 * i as i64)
        };
        (0..count).map(name).collect()
    }

    fn ordered(names: Vec<String>, czxids: &HashMap<String, i64>) -> Queue {
        Listing::of(names, LOCK).resolve(|name| czxids.get(name).copied())
    }

    fn listing_and_permutation() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
        let name = "[ab]{0,2}(lock-|x)?(-?[0-9]{1,3}|214748364[5-9])?";
        prop::collection::btree_set(name, 0..30).prop_flat_map(|names| {
            let names: Vec<_> = names.into_iter().collect();
            (Just(names.clone()), Just(names).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn order_is_creation_order_also_across_the_limit(
            (start, wrapped, shuffled) in (
                prop_oneof![0..1000i64, (i64::from(i32::MAX) - 30)..=i64::from(i32::MAX)],
                prop::collection::vec(any::<bool>(), 0..40),
                Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(),
            )
        ) {
            let created = created(start, 40, &wrapped);
            let czxids: HashMap<_, _> = created.iter().cloned().collect();
            let listing = shuffled.iter().map(|&i| created[i].0.clone()).collect();
            let expected: Vec<_> = created.into_iter().map(|(name, _)| name).collect();
            let queue = ordered(listing, &czxids);
            prop_assert_eq!(queue.names(), &expected[..]);
            for (i, name) in expected.iter().enumerate() {
                prop_assert_eq!(queue.position(name), Some(i));
                let before = i.checked_sub(1).map(|before| expected[before].as_str());
                let turn = before.map_or(Turn::Now, |name| Turn::After { name, last: i == 1 });
                prop_assert_eq!(queue.turn_of(name, &Rule::Alone), Some(turn));
            }
        }

        #[test]
        fn any_listing_gives_one_total_order_whatever_its_own_order(
            (names, permuted) in listing_and_permutation(),
            zxids in prop::collection::vec(0..4i64, 30),
        ) {
            let czxids: HashMap<_, _> = names.iter().cloned().zip(zxids).collect();
            let members = names.iter().filter(|name| number_of(name, LOCK).is_some()).count();
            let queue = ordered(names, &czxids);
            prop_assert_eq!(queue.names().len(), members);
            prop_assert_eq!(&queue, &ordered(permuted, &czxids));
            let key = |name: &String| match number_of(name, LOCK) {
                Some(Number::Ordered(number)) => (0, i64::from(number), name.clone()),
                _ => (1, czxids[name], name.clone()),
            };
            prop_assert!(queue.names().windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
        }

        #[test]
        fn padded_numbers_sort_as_texts_do(numbers in prop::collection::btree_set(0..STUCK, 0..50)) {
            let names = numbers.iter().rev().map(|number| format!("lock-{number:010}"));
            let mut expected: Vec<_> = names.collect();
            let queue = Listing::of(expected.clone(), LOCK).into_queue().expect("numbers decide");
            expected.sort();
            prop_assert_eq!(queue.names(), &expected[..]);
        }
    }
}
