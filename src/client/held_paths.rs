//! The paths at which this client holds a lock, for its callers that wait there.

use std::collections::HashMap;
use std::sync::Arc;

use crate::util::clock::Instant;
use crate::util::mutex::Mutex;

/// Since when each path is held: an entry for each hold that a caller has not given up, including lost ones.
#[derive(Debug, Default)]
pub(crate) struct HeldPaths(Mutex<HashMap<Arc<str>, Vec<Instant>>>);

impl HeldPaths {
    /// Returns when the oldest hold of the path that a caller has not given up began; `None` if there is none.
    pub(crate) fn since(&self, path: &str) -> Option<Instant> {
        self.0.lock().get(path)?.iter().min().copied()
    }
}

/// Records a path as held until dropped.
#[derive(Debug)]
pub(crate) struct HeldPath {
    all: Arc<HeldPaths>,
    path: Arc<str>,
    since: Instant,
}

impl HeldPath {
    pub(crate) fn new(all: &Arc<HeldPaths>, path: &Arc<str>, since: Instant) -> Self {
        all.0.lock().entry(Arc::clone(path)).or_default().push(since);
        HeldPath { all: Arc::clone(all), path: Arc::clone(path), since }
    }
}

impl Drop for HeldPath {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let Some(holds) = all.get_mut(&self.path) else { return };
        // Of several holds that began at one instant, any entry may be removed.
        if let Some(own) = holds.iter().position(|since| *since == self.since) {
            holds.swap_remove(own);
        }
        if holds.is_empty() {
            all.remove(&self.path);
        }
    }
}
