//! The lasting faults, and the replies that are still to be lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Millis;
use super::wire::{Loss, Operation};

/// The sessions that a lever affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    All,
    /// All sessions of one client, including future ones.
    Group(u32),
    #[cfg_attr(not(test), allow(dead_code))]
    Session(i64),
}

/// The clients that a lasting fault affects.
#[derive(Debug, Default)]
struct Groups {
    all: bool,
    some: BTreeSet<u32>,
}

impl Groups {
    fn set(&mut self, group: Option<u32>, on: bool) {
        match (group, on) {
            (None, true) => self.all = true,
            (None, false) => *self = Groups::default(),
            (Some(group), true) => {
                self.some.insert(group);
            }
            (Some(group), false) => {
                self.some.remove(&group);
            }
        }
    }

    fn contains(&self, group: u32) -> bool {
        self.all || self.some.contains(&group)
    }
}

/// A reply that is to be lost.
#[derive(Debug)]
struct Pending {
    who: Who,
    kind: Option<Operation>,
    how: Loss,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    refused: Groups,
    black_hole: Groups,
    delay_all: Millis,
    delays: BTreeMap<u32, Millis>,
    losses: Vec<Pending>,
    /// The nodes and the kinds of the reads that fail.
    failing: BTreeSet<(String, Operation)>,
    /// How many replies were lost.
    taken: u64,
}

impl Faults {
    pub(crate) fn refuse(&mut self, group: Option<u32>, on: bool) {
        self.refused.set(group, on);
    }

    pub(crate) fn black_hole(&mut self, group: Option<u32>, on: bool) {
        self.black_hole.set(group, on);
    }

    /// Delays every message of a group, or of all.
    pub(crate) fn delay_by(&mut self, group: Option<u32>, by: Millis) {
        match group {
            None => self.delay_all = by,
            Some(group) => {
                self.delays.insert(group, by);
            }
        }
    }

    pub(crate) fn lose_next(&mut self, who: Who, kind: Option<Operation>, how: Loss) {
        self.losses.push(Pending { who, kind, how });
    }

    /// Makes all requests of a kind for a node fail.
    pub(crate) fn fail(&mut self, path: &str, kind: Operation) {
        self.failing.insert((path.to_owned(), kind));
    }

    pub(crate) fn fails(&self, path: &str, kind: Operation) -> bool {
        !self.failing.is_empty() && self.failing.contains(&(path.to_owned(), kind))
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        *self = Faults { taken: self.taken, ..Faults::default() };
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn delay(&self, group: u32) -> Millis {
        self.delay_all + self.delays.get(&group).copied().unwrap_or(0)
    }

    pub(crate) fn refuses(&self, group: u32) -> bool {
        self.refused.contains(group)
    }

    pub(crate) fn is_black_hole(&self, group: u32) -> bool {
        self.black_hole.contains(group)
    }

    /// Takes the first pending loss that applies: to the request itself if it `arrives`, otherwise to its reply.
    pub(crate) fn take(&mut self, group: u32, session: i64, kind: Operation, arrives: bool) -> Option<Loss> {
        let fits = |loss: &Pending| {
            let who = match loss.who {
                Who::All => true,
                Who::Group(wanted) => wanted == group,
                Who::Session(wanted) => wanted == session,
            };
            who && (loss.how == Loss::NotApplied) == arrives && loss.kind.is_none_or(|wanted| wanted == kind)
        };
        let at = self.losses.iter().position(fits)?;
        self.taken += 1;
        Some(self.losses.remove(at).how)
    }
}
