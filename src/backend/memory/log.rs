//! What happened, for tests and traces.

use std::collections::{BTreeMap, VecDeque};

use super::Millis;
use super::wire::OpKind;
use crate::backend::Event;

/// How many entries are kept; older ones are only counted.
const MOST_ENTRIES: usize = 1 << 16;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Milliseconds since the ensemble was started.
    pub(crate) at: Millis,
    pub(crate) session: i64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A client handed a request over.
    Request {
        group: u32,
        kind: OpKind,
        path: String,
    },
    /// A watch event reached a client.
    Event {
        group: u32,
        event: Event,
        path: String,
    },
    /// By the leader's word.
    SessionOpened,
    SessionClosed,
    SessionExpired,
    /// As its client learned it.
    Connected,
    Disconnected,
    Expired,
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    counts: BTreeMap<(u32, OpKind), u64>,
}

impl Log {
    pub(super) fn note(&mut self, at: Millis, session: i64, what: What) {
        tracing::trace!(at, session, ?what, "memory ensemble");
        if self.entries.len() == MOST_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { at, session, what });
    }

    pub(super) fn request(&mut self, at: Millis, session: i64, group: u32, kind: OpKind, path: &str) {
        *self.counts.entry((group, kind)).or_default() += 1;
        let path = path.to_owned();
        self.note(at, session, What::Request { group, kind, path });
    }

    pub(super) fn event(&mut self, at: Millis, session: i64, group: u32, event: Event, path: &str) {
        let path = path.to_owned();
        self.note(at, session, What::Event { group, event, path });
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// How many requests of a kind were handed over; of one group or of all.
    pub(super) fn count(&self, group: Option<u32>, kind: OpKind) -> u64 {
        let counted = self.counts.iter();
        counted
            .filter(|((of, what), _)| *what == kind && group.is_none_or(|group| group == *of))
            .map(|(_, count)| count)
            .sum()
    }
}
