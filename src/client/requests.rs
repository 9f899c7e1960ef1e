//! How many requests a client has sent, by kind.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Reply;
use crate::metrics::Meter;
#[cfg(feature = "metrics")]
use crate::metrics::{Label, table};

/// The kinds of request that are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Create,
    Delete,
    Read,
    Watch,
    SetData,
    List,
    Multi,
    Sync,
    /// The syncs (or multis) that extend the lease.
    Heartbeat,
}

const KINDS: usize = 9;

impl Request {
    /// Returns its name, for the metrics.
    fn name(self) -> &'static str {
        match self {
            Request::Create => "create",
            Request::Delete => "delete",
            Request::Read => "read",
            Request::Watch => "watch",
            Request::SetData => "write",
            Request::List => "list",
            Request::Multi => "multi",
            Request::Sync => "sync",
            Request::Heartbeat => "heartbeat",
        }
    }
}

/// Counts requests as they are handed over, and measures how long their answers take.
#[derive(Debug)]
pub(crate) struct RequestLog {
    counts: [AtomicU64; KINDS],
    meter: Arc<Meter>,
}

impl RequestLog {
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        RequestLog { counts: Default::default(), meter: Arc::clone(meter) }
    }

    /// Counts a request that was just handed over, and returns its reply.
    pub(crate) fn record<T: 'static>(&self, request: Request, reply: Reply<T>) -> Reply<T> {
        self.counts[request as usize].fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        let reply = measured(Arc::clone(&self.meter), request, reply);
        reply
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        let of = |request: Request| self.counts[request as usize].load(Ordering::Relaxed);
        RequestCounts {
            creates: of(Request::Create),
            deletes: of(Request::Delete),
            reads: of(Request::Read),
            watches: of(Request::Watch),
            writes: of(Request::SetData),
            lists: of(Request::List),
            multis: of(Request::Multi),
            syncs: of(Request::Sync),
            heartbeats: of(Request::Heartbeat),
        }
    }
}

/// Returns a reply that records how long it takes. A reply that is dropped is not recorded.
#[cfg(feature = "metrics")]
fn measured<T: 'static>(meter: Arc<Meter>, request: Request, reply: Reply<T>) -> Reply<T> {
    let began = tokio::time::Instant::now();
    Box::pin(async move {
        let outcome = reply.await;
        let operation = Label::Is(request.name());
        meter.record(&table::REQUEST_DURATION, &[operation], began.elapsed().as_secs_f64());
        if let Err(error) = &outcome {
            meter.count(&table::REQUEST_ERRORS, &[operation, Label::Is(error.name())], 1);
        }
        outcome
    })
}

/// How many requests a client has handed to its connection since it was built. The session itself sends only
/// heartbeats; recipes and callers send everything else.
///
/// ```no_run
/// # async fn example(client: zookeeper_recipes::Client)
/// # -> Result<(), zookeeper_recipes::Error> {
/// let before = client.request_counts();
/// client.exists("/my-service").await?;
/// let sent = client.request_counts() - before;
/// println!("{} requests, {} heartbeats", sent.total(), sent.heartbeats);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RequestCounts {
    /// Nodes created.
    pub creates: u64,
    /// Nodes deleted.
    pub deletes: u64,
    /// Reads of nodes, without a watch. One request may read several.
    pub reads: u64,
    /// Reads of one node that leave a watch, or of its children.
    pub watches: u64,
    /// Writes of data.
    pub writes: u64,
    /// Listings of children, without a watch.
    pub lists: u64,
    /// Transactions.
    pub multis: u64,
    /// Syncs before a read that must not be stale.
    pub syncs: u64,
    /// Requests that extend the lease of the session: about six per session timeout while a recipe is in use.
    pub heartbeats: u64,
}

impl RequestCounts {
    /// Returns the number of all requests, without the heartbeats.
    pub fn total(&self) -> u64 {
        self.creates + self.deletes + self.reads + self.watches + self.writes + self.lists + self.multis + self.syncs
    }
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestCounts { creates, deletes, reads, watches, writes, lists, multis, syncs, heartbeats } = self;
        write!(
            f,
            "creates={creates} deletes={deletes} reads={reads} watches={watches} writes={writes} lists={lists} \
             multis={multis} syncs={syncs} heartbeats={heartbeats}"
        )
    }
}

impl std::ops::Sub for RequestCounts {
    type Output = RequestCounts;

    /// Returns the requests that were sent between two counts.
    fn sub(self, earlier: RequestCounts) -> RequestCounts {
        RequestCounts {
            creates: self.creates - earlier.creates,
            deletes: self.deletes - earlier.deletes,
            reads: self.reads - earlier.reads,
            watches: self.watches - earlier.watches,
            writes: self.writes - earlier.writes,
            lists: self.lists - earlier.lists,
            multis: self.multis - earlier.multis,
            syncs: self.syncs - earlier.syncs,
            heartbeats: self.heartbeats - earlier.heartbeats,
        }
    }
}
