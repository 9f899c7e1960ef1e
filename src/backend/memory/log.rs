//! What happened, for tests and traces.

use std::collections::{BTreeMap, VecDeque};

use super::Millis;
use super::wire::Operation;
use crate::backend::Event;

/// How many entries are kept; older ones are only counted.
const MOST_ENTRIES: usize = 1 << 16;

/// One thing that happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Milliseconds since the ensemble was started.
    pub at: u64,
    /// The id of the session.
    pub session: i64,
    /// What happened.
    pub what: Happening,
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// Its client handed a request over.
    Request {
        /// The client, numbered from 1 in the order of connecting.
        client: u32,
        /// The kind of request.
        operation: Operation,
        /// The node it is about; the first one of a transaction.
        path: String,
    },
    /// A watch event reached its client.
    Event {
        /// The client, numbered from 1 in the order of connecting.
        client: u32,
        /// What happened to the node.
        event: Event,
        /// The node.
        path: String,
    },
    /// The leader opened it.
    SessionOpened,
    /// The leader closed it as asked.
    SessionClosed,
    /// The leader expired it.
    SessionExpired,
    /// Its client has a connection.
    Connected,
    /// Its client has none.
    Disconnected,
    /// Its client learned that it has expired.
    Expired,
    /// Its client has closed it, or given it up.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Record>,
    counts: BTreeMap<(u32, Operation), u64>,
}

impl Log {
    pub(super) fn note(&mut self, at: Millis, session: i64, what: Happening) {
        tracing::trace!(at, session, ?what, "memory ensemble");
        if self.entries.len() == MOST_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(Record { at, session, what });
    }

    pub(super) fn request(&mut self, at: Millis, session: i64, group: u32, kind: Operation, path: &str) {
        *self.counts.entry((group, kind)).or_default() += 1;
        let path = path.to_owned();
        self.note(at, session, Happening::Request { client: group, operation: kind, path });
    }

    pub(super) fn event(&mut self, at: Millis, session: i64, group: u32, event: Event, path: &str) {
        let path = path.to_owned();
        self.note(at, session, Happening::Event { client: group, event, path });
    }

    pub(super) fn entries(&self) -> Vec<Record> {
        self.entries.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// How many requests of a kind were handed over; of one group or of all.
    pub(super) fn count(&self, group: Option<u32>, kind: Operation) -> u64 {
        let counted = self.counts.iter();
        counted
            .filter(|((of, what), _)| *what == kind && group.is_none_or(|group| group == *of))
            .map(|(_, count)| count)
            .sum()
    }
}
