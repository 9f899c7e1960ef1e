//! Items and their times, ordered by both.

use std::collections::{BTreeMap, BTreeSet};

/// Items, each with a time.
#[derive(Debug)]
pub(super) struct Times<T> {
    of_item: BTreeMap<String, T>,
    /// The same items, ordered by their times.
    in_order: BTreeSet<(T, String)>,
}

impl<T: Copy + Ord> Times<T> {
    pub(super) fn insert(&mut self, name: &str, time: T) {
        self.remove(name);
        self.of_item.insert(name.to_owned(), time);
        self.in_order.insert((time, name.to_owned()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some((name, time)) = self.of_item.remove_entry(name) {
            self.in_order.remove(&(time, name));
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.of_item.contains_key(name)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.of_item.retain(|name, _| keep(name));
        self.in_order.retain(|(_, name)| keep(name));
    }

    pub(super) fn first(&self) -> Option<T> {
        self.in_order.first().map(|(time, _)| *time)
    }

    /// Removes and returns the first item whose time has come by `now`.
    pub(super) fn pop_due(&mut self, now: T) -> Option<String> {
        let _due = self.first().filter(|time| *time <= now)?;
        let (_, name) = self.in_order.pop_first()?;
        self.of_item.remove(&name);
        Some(name)
    }
}

impl<T> Default for Times<T> {
    fn default() -> Self {
        Times { of_item: BTreeMap::new(), in_order: BTreeSet::new() }
    }
}
