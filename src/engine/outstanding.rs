//! The unanswered requests of a connection: what each waits for, and how many there may be.

use std::collections::hash_map::Entry::Occupied;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::Error;
use super::observer::Proof;
use super::watches::Kind;
use crate::protocol::{AnyResponse, ErrorCode, OpCode, WatcherType};
use crate::util::clock::Instant;

/// The most unanswered requests, and the most bytes in them. Requests beyond these limits are refused.
const MOST_REQUESTS: usize = 64 * 1024;
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// What a caller gets: the answer, and the watch that it armed.
pub(crate) struct Answer<W> {
    pub(crate) outcome: Result<AnyResponse, Error>,
    pub(crate) watch: Option<W>,
}

/// The watch that a request arms.
#[derive(Debug, Clone)]
pub(crate) struct WantedWatch {
    pub(crate) kind: Kind,
    pub(crate) path: Arc<str>,
}

impl WantedWatch {
    /// Returns the kind of watch that an answer with this code arms. `exists` arms one even if the node is missing.
    pub(crate) fn armed_by(&self, op: OpCode, code: ErrorCode) -> Option<Kind> {
        match (op, code) {
            (_, ErrorCode::Ok) => Some(self.kind),
            (OpCode::Exists, ErrorCode::NoNode) => Some(Kind::Exist),
            _ => None,
        }
    }
}

/// An unanswered request.
pub(crate) struct Entry<W> {
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
    /// The newest operation that the server must know to carry it out.
    pub(crate) needs: OpCode,
    pub(crate) sent: Instant,
    pub(crate) watch: Option<WantedWatch>,
    /// The watch that the request removes.
    pub(crate) removes: Option<(WatcherType, Arc<str>)>,
    pub(crate) reply: Option<oneshot::Sender<Answer<W>>>,
    /// The length of its frame in bytes.
    pub(crate) length: usize,
}

impl<W> Entry<W> {
    /// Returns a request that is not written yet and that no caller waits for.
    pub(crate) fn new(op: OpCode, length: usize, now: Instant) -> Self {
        Entry { xid: 0, op, needs: op, sent: now, watch: None, removes: None, reply: None, length }
    }

    /// Returns what an answer to the request proves. The answer to a read proves nothing: the server need not inform
    /// its leader of the read, and ClickHouse Keeper does not.
    pub(crate) fn proof(&self) -> Option<Proof> {
        match self.op {
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::Multi => Some(Proof::Quorum),
            OpCode::Sync => Some(Proof::Leader),
            _ => None,
        }
    }

    pub(crate) fn answer(self, outcome: Result<AnyResponse, Error>, watch: Option<W>) {
        if let Some(reply) = self.reply {
            // If the caller no longer waits, the watch is dropped with the answer.
            reply.send(Answer { outcome, watch }).ok();
        }
    }

    pub(crate) fn fail(self, error: Error) {
        self.answer(Err(error), None);
    }
}

/// All unanswered requests of a connection.
pub(crate) struct Outstanding<W> {
    /// The requests that were written, in that order.
    pub(crate) entries: VecDeque<Entry<W>>,
    /// When the unanswered ping was written.
    pub(crate) ping: Option<Instant>,
    /// The number of unanswered requests, including those that wait to be written.
    requests: usize,
    bytes: usize,
    /// How many of the requests arm a watch, by the type under which the server will keep it.
    watches_in_flight: HashMap<(WatcherType, Arc<str>), usize>,
}

impl<W> Outstanding<W> {
    pub(crate) fn new() -> Self {
        Outstanding { entries: VecDeque::new(), ping: None, requests: 0, bytes: 0, watches_in_flight: HashMap::new() }
    }

    /// Counts a request, or refuses it if it exceeds the limits.
    pub(crate) fn add(&mut self, entry: &Entry<W>) -> Result<(), Error> {
        let too_long = self.bytes > 0 && self.bytes + entry.length > MOST_BYTES;
        if too_long || self.requests >= MOST_REQUESTS {
            return Err(Error::Throttled);
        }
        self.requests += 1;
        self.bytes += entry.length;
        if let Some(WantedWatch { kind, path }) = &entry.watch {
            *self.watches_in_flight.entry((kind.at_server(), Arc::clone(path))).or_default() += 1;
        }
        Ok(())
    }

    /// Returns whether the removal of this watch must wait: a request in flight arms a watch that the server would
    /// remove with it.
    pub(crate) fn must_defer_removal(&self, watcher: WatcherType, path: &Arc<str>) -> bool {
        let is_removed = |other: &WatcherType| {
            *other == watcher
                || watcher == WatcherType::Any
                || Kind::PERSISTENT.iter().any(|kind| kind.at_server() == *other)
        };
        let kept = Kind::ALL.into_iter().map(Kind::at_server);
        let in_flight = &self.watches_in_flight;
        !in_flight.is_empty() && kept.filter(is_removed).any(|other| in_flight.contains_key(&(other, Arc::clone(path))))
    }

    /// Stops counting a request.
    pub(crate) fn remove(&mut self, entry: &Entry<W>) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.length);
        let Some(WantedWatch { kind, path }) = &entry.watch else { return };
        if let Occupied(mut count) = self.watches_in_flight.entry((kind.at_server(), Arc::clone(path))) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
