//! The order of one line, kept from change to change, and who is granted next.
//!
//! The rule is that of [`Line`](super::super::Line): a test compares both.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use super::super::role::{Role, bases};
use crate::layout::line::{Number, number_of};

/// The place in the order: numbers first, then, beyond the end of the counter, transactions. A writer comes before the
/// reader with its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_exhausted: bool,
    number: i64,
    reads: bool,
    name: String,
}

/// A node of the line.
#[derive(Debug)]
struct Entry {
    role: Role,
    session: Option<i64>,
    is_granted: bool,
}

/// The nodes of a line in order.
#[derive(Debug, Default)]
pub(super) struct Order {
    entries: BTreeMap<Key, Entry>,
    /// Those of each role, and those of them that were not granted: a line may have thousands of readers, and is not
    /// walked for each that comes or goes.
    roles: [BTreeSet<Key>; Role::ALL.len()],
    waiting: [BTreeSet<Key>; Role::ALL.len()],
    /// The readers that were not granted, by their sessions.
    readers: BTreeSet<(i64, Key)>,
    /// How many of each role were granted.
    granted: [usize; Role::ALL.len()],
}

/// A node that holds from now on, and the nodes that hold already although they exclude it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) session: Option<i64>,
    pub(super) overtaken: Vec<String>,
}

impl Order {
    /// Adds a node, unless its name is not one of a line.
    pub(super) fn insert(&mut self, name: &str, session: Option<i64>, czxid: i64) {
        if let (Some(role), Some(key)) = (Role::of(name), key(name, czxid)) {
            self.roles[index(role)].insert(key.clone());
            self.wait(&key, role, session);
            self.entries.insert(key, Entry { role, session, is_granted: false });
        }
    }

    fn wait(&mut self, key: &Key, role: Role, session: Option<i64>) {
        self.waiting[index(role)].insert(key.clone());
        if let (Role::Reader, Some(session)) = (role, session) {
            self.readers.insert((session, key.clone()));
        }
    }

    fn stop_waiting(&mut self, key: &Key, role: Role, session: Option<i64>) {
        self.waiting[index(role)].remove(key);
        if let (Role::Reader, Some(session)) = (role, session) {
            self.readers.remove(&(session, key.clone()));
        }
    }

    pub(super) fn remove(&mut self, name: &str, czxid: i64) {
        let Some(key) = key(name, czxid) else { return };
        if let Some(entry) = self.entries.remove(&key) {
            self.roles[index(entry.role)].remove(&key);
            self.stop_waiting(&key, entry.role, entry.session);
            self.granted[index(entry.role)] -= usize::from(entry.is_granted);
        }
    }

    /// Takes back all that was granted, because nodes were not known.
    pub(super) fn reset(&mut self) {
        for (key, entry) in std::mem::take(&mut self.entries) {
            self.wait(&key, entry.role, entry.session);
            self.entries.insert(key, Entry { is_granted: false, ..entry });
        }
        self.granted = Default::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the first of the line: its name and its session.
    pub(super) fn head(&self) -> Option<(&str, Option<i64>)> {
        self.entries.first_key_value().map(|(key, entry)| (key.name.as_str(), entry.session))
    }

    /// Grants all whose turn it is, and returns those who did not hold before. What was granted stays granted: a holder
    /// does not look at the line again.
    pub(super) fn grant(&mut self) -> Vec<Granted> {
        let mut granted = Vec::new();
        for key in self.turns() {
            let Some(entry) = self.entries.get(&key) else { continue };
            let (role, session) = (entry.role, entry.session);
            let overtaken = self.overtaken(&key, role, session);
            granted.push(Granted { name: key.name.clone(), role, session, overtaken });
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.is_granted = true;
                self.granted[index(role)] += 1;
            }
            self.stop_waiting(&key, role, session);
        }
        granted
    }

    /// Returns those behind a place that hold although they exclude it.
    fn overtaken(&self, key: &Key, role: Role, session: Option<i64>) -> Vec<String> {
        let excludes = |one: Role| one.excludes(role) && self.granted[index(one)] > 0;
        if !Role::ALL.into_iter().any(excludes) {
            return Vec::new();
        }
        let behind = self.entries.range((Excluded(key), Unbounded));
        let holds = behind.filter(|(_, one)| {
            // The lock of one session is downgraded from a writer to a reader behind it.
            let is_own = session.is_some() && session == one.session && one.role == Role::Reader;
            one.is_granted && one.role.excludes(role) && !is_own
        });
        holds.map(|(other, _)| other.name.clone()).collect()
    }

    /// Returns the places whose turn it is by the rule of the line, and which do not hold yet.
    fn turns(&self) -> Vec<Key> {
        let mut turns: BTreeSet<&Key> = BTreeSet::new();
        for role in Role::ALL {
            let excludes = Role::ALL.into_iter().filter(|before| before.excludes(role));
            // It holds unless one that excludes it is before it.
            let waiting = &self.waiting[index(role)];
            match excludes.filter_map(|before| self.roles[index(before)].first()).min() {
                Some(first) => turns.extend(waiting.range(..=first)),
                None => turns.extend(waiting),
            }
        }
        turns.extend(self.own_readers());
        turns.into_iter().cloned().collect()
    }

    /// Returns those behind a writer that holds, of its own session: in Curator a thread that holds the write lock may
    /// also acquire the read lock.
    fn own_readers(&self) -> impl Iterator<Item = &Key> {
        let excludes = Role::ALL.into_iter().filter(|before| before.excludes(Role::Writer));
        let first = excludes.filter_map(|before| self.roles[index(before)].first()).min();
        let writer =
            self.roles[index(Role::Writer)].first().filter(|writer| first.is_none_or(|first| *writer <= first));
        let own = writer.and_then(|writer| Some((self.entries.get(writer)?.session?, writer)));
        own.into_iter().flat_map(|(session, writer)| {
            let behind = self.readers.range((Excluded((session, writer.clone())), Unbounded));
            behind.take_while(move |(one, _)| *one == session).map(|(_, key)| key)
        })
    }
}

fn key(name: &str, czxid: i64) -> Option<Key> {
    let reads = Role::of(name)? == Role::Reader;
    let (is_exhausted, number) = match number_of(name, &bases())? {
        Number::Ordered(number) => (false, i64::from(number)),
        Number::Exhausted => (true, czxid),
    };
    Some(Key { is_exhausted, number, reads, name: name.to_owned() })
}

fn index(role: Role) -> usize {
    Role::ALL.iter().position(|one| *one == role).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::super::super::line::tests::line;
    use super::*;
    use crate::inspect::Place;

    fn order(names: &[(&str, i64)]) -> Order {
        let mut order = Order::default();
        for (&(name, session), czxid) in names.iter().zip(1..) {
            order.insert(name, Some(session), czxid);
        }
        order
    }

    fn granted(order: &mut Order) -> Vec<String> {
        order.grant().into_iter().map(|granted| granted.name).collect()
    }

    #[test]
    fn the_next_one_holds_once_the_first_is_gone() {
        let mut line = order(&[("a-lock-0000000001", 1), ("b-lock-0000000002", 2), ("c-lock-0000000003", 3)]);
        assert_eq!(granted(&mut line), ["a-lock-0000000001"]);
        assert_eq!(granted(&mut line), [""; 0], "it holds already");
        line.remove("b-lock-0000000002", 2);
        line.remove("a-lock-0000000001", 1);
        assert_eq!(granted(&mut line), ["c-lock-0000000003"]);
    }

    #[test]
    fn one_that_comes_late_and_stands_first_overtakes_a_holder() {
        let mut line = order(&[("a-lock-0000000005", 1)]);
        assert_eq!(granted(&mut line), ["a-lock-0000000005"]);
        line.insert("b-lock-0000000000", Some(2), 9);
        let overtaken = line.grant().remove(0).overtaken;
        assert_eq!(overtaken, ["a-lock-0000000005"]);
    }

    #[test]
    fn a_writer_that_becomes_a_reader_overtakes_no_other() {
        let mut line = order(&[("a__WRIT__0000000001", 1), ("b__READ__0000000002", 2)]);
        assert_eq!(granted(&mut line), ["a__WRIT__0000000001"]);
        line.insert("a__READ__0000000001", Some(1), 3);
        line.remove("a__WRIT__0000000001", 1);
        let granted = line.grant();
        assert_eq!(
            granted.iter().map(|one| &*one.name).collect::<Vec<_>>(),
            ["a__READ__0000000001", "b__READ__0000000002"]
        );
        assert!(granted.iter().all(|one| one.overtaken.is_empty()));
    }

    /// Takes minutes if the line is walked for each of them.
    #[test]
    fn each_of_many_readers_is_granted_once() {
        let mut line = order(&[]);
        for number in 0..20_000 {
            line.insert(&format!("a__READ__{number:010}"), Some(number), number);
            assert_eq!(granted(&mut line).len(), 1);
        }
        for number in 0..20_000 {
            line.remove(&format!("a__READ__{number:010}"), number);
            assert_eq!(granted(&mut line).len(), 0);
        }
        assert!(line.is_empty());
    }

    proptest! {
        #[test]
        fn those_hold_who_hold_in_a_line_that_is_read_from_a_server(
            names in prop::collection::btree_set(
                "[ab](latch-|lock-|__READ__|__rlock__|__WRIT__|__lock__)(-?[0-9]{1,2}|214748364[5-9])", 0..20,
            ),
            sessions in prop::collection::vec(1..4_i64, 20),
        ) {
            // A directory gives each number once. That of a writer that becomes a reader has a test of its own.
            let mut numbers = HashSet::new();
            let is_first = |name: &&str| match number_of(name, &bases()) {
                Some(Number::Ordered(number)) => numbers.insert(number),
                _ => true,
            };
            let names: Vec<_> = names.iter().map(String::as_str).filter(is_first).zip(sessions).collect();
            let expected = line("/l", &names);
            let mut holders: Vec<_> = expected.holders().map(Place::name).collect();
            holders.sort_unstable();
            let mut granted = granted(&mut order(&names));
            granted.sort_unstable();
            prop_assert_eq!(granted, holders);
        }
    }
}
