//! The metrics and spans of a cache.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::snapshot::Snapshot;
use crate::client::core::Core;
use crate::metrics::{Label, Meter, Reading, table};

/// The metrics of one cache, and the comparison with the servers that is under way.
#[derive(Debug)]
pub(super) struct Measured {
    meter: Arc<Meter>,
    root: Arc<str>,
    nodes: Reading,
    unreadable: Reading,
    confirmed: Reading,
    resync: Option<Resync>,
}

/// A comparison with the servers.
#[derive(Debug)]
struct Resync {
    began: Instant,
    span: tracing::Span,
}

impl Measured {
    pub(super) fn new(core: &Core, root: &Arc<str>) -> Self {
        let (meter, label) = (Arc::clone(core.meter()), [Label::Path(root)]);
        let nodes = meter.reading(&table::CACHE_NODES, &label);
        let unreadable = meter.reading(&table::CACHE_UNREADABLE, &label);
        let confirmed = meter.reading(&table::CACHE_CONFIRMED, &label);
        Measured { meter, root: Arc::clone(root), nodes, unreadable, confirmed, resync: None }
    }

    /// Begins a comparison.
    pub(super) fn resync_begins(&mut self) {
        let empty = tracing::field::Empty;
        let span = tracing::info_span!("cache_resync", path = &*self.root, nodes = empty, changes = empty);
        self.resync = Some(Resync { began: Instant::now(), span });
    }

    /// Ends the span of a comparison that did not finish, because the connection was lost.
    pub(super) fn resync_aborted(&mut self) {
        self.resync = None;
    }

    pub(super) fn resync_ends(&mut self, nodes: usize, changes: usize) {
        let Some(Resync { began, span }) = self.resync.take() else { return };
        span.record("nodes", nodes).record("changes", changes);
        self.meter.record(&table::CACHE_RESYNC, &[Label::Path(&self.root)], began.elapsed().as_secs_f64());
    }

    pub(super) fn published<T: 'static>(&self, snapshot: &Snapshot<T>, unreadable: usize) {
        self.unreadable.set(unreadable as f64);
        self.nodes.set(snapshot.len() as f64);
        self.confirmed(snapshot);
    }

    /// Publishes as of when a snapshot is confirmed, in wall-clock time: a gauge of its age would not grow by itself.
    pub(super) fn confirmed<T: 'static>(&self, snapshot: &Snapshot<T>) {
        let at = SystemTime::now().checked_sub(snapshot.age());
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        self.confirmed.set(since.as_secs_f64());
    }
}
