//! The history of a seed, as text.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use zookeeper_recipes::testing::TestingServer;

/// A list of what happened and when. Clones write to the same list.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    start: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    /// Creates an empty trace. Must be called inside the runtime of the seed.
    pub(crate) fn new() -> Self {
        Trace { start: Instant::now(), lines: Arc::default() }
    }

    pub(crate) fn note(&self, what: impl std::fmt::Display) {
        let at = self.start.elapsed().as_millis();
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{at:>7} ms  {what}"));
    }

    /// Adds one line for all records of the servers, and with `RECORDS` set also each record.
    pub(crate) fn note_records(&self, server: &TestingServer) {
        let (records, mut hasher) = (server.records(), DefaultHasher::new());
        if std::env::var_os("RECORDS").is_some() {
            for record in &records {
                let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(format!("{:>7} ms    {:x}: {:?}", record.at, record.session, record.what));
            }
        }
        format!("{records:?}").hash(&mut hasher);
        self.note(format_args!("{} records of the servers, with hash {:016x}", records.len(), hasher.finish()));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
