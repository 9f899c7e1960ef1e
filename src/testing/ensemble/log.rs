//! Records of what happened, for tests and traces.

use std::collections::{BTreeMap, VecDeque};

use super::Millis;
use super::wire::Operation;
use crate::engine::Event;

/// The most entries that are kept; older ones are only counted.
const MOST_ENTRIES: usize = 1 << 16;
/// The most bytes of paths that are kept.
const MOST_BYTES: usize = 16 << 20;

/// One event in the history of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Milliseconds since the ensemble was started.
    pub at: u64,
    /// The id of the session.
    pub session: i64,
    /// What happened.
    pub what: RecordKind,
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordKind {
    /// The client sent a request.
    Request {
        /// The client, numbered from 1 in the order of connecting; 2 147 483 648 or more if it is not in this process.
        client: u32,
        /// The kind of request.
        operation: Operation,
        /// The node of the request; for a transaction, its first node.
        path: String,
    },
    /// A watch event reached the client.
    Event {
        /// The client, numbered from 1 in the order of connecting; 2 147 483 648 or more if it is not in this process.
        client: u32,
        /// What happened to the node.
        event: Event,
        /// The node.
        path: String,
    },
    /// The leader opened the session.
    SessionOpened,
    /// The leader closed the session on request.
    SessionClosed,
    /// The leader expired the session.
    SessionExpired,
    /// The client has a connection.
    Connected,
    /// The client has no connection.
    Disconnected,
    /// The client learned that the session has expired.
    Expired,
    /// The client learned that the session was closed as it had requested.
    Closed,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Record>,
    /// The total length of the entries' paths, in bytes.
    bytes: usize,
    counts: BTreeMap<(u32, Operation), u64>,
}

impl Log {
    pub(crate) fn note(&mut self, at: Millis, session: i64, what: RecordKind) {
        tracing::trace!(at, session, ?what, "memory ensemble");
        self.bytes += path_of(&what).len();
        while self.entries.len() >= MOST_ENTRIES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= path_of(&oldest.what).len();
        }
        self.entries.push_back(Record { at, session, what });
    }

    pub(crate) fn request(&mut self, at: Millis, session: i64, group: u32, kind: Operation, path: &str) {
        *self.counts.entry((group, kind)).or_default() += 1;
        let path = path.to_owned();
        self.note(at, session, RecordKind::Request { client: group, operation: kind, path });
    }

    pub(crate) fn event(&mut self, at: Millis, session: i64, group: u32, event: Event, path: &str) {
        let path = path.to_owned();
        self.note(at, session, RecordKind::Event { client: group, event, path });
    }

    pub(crate) fn entries(&self) -> Vec<Record> {
        self.entries.iter().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Returns how many requests of a kind were sent, by one group or by all.
    pub(crate) fn count(&self, group: Option<u32>, kind: Operation) -> u64 {
        let counted = self.counts.iter();
        counted
            .filter(|((of, what), _)| *what == kind && group.is_none_or(|group| group == *of))
            .map(|(_, count)| count)
            .sum()
    }
}

fn path_of(what: &RecordKind) -> &str {
    match what {
        RecordKind::Request { path, .. } | RecordKind::Event { path, .. } => path,
        _ => "",
    }
}
