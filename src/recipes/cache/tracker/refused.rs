//! What could not be read or listed, and when that is retried.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::work::Job;
use crate::cache::node::Content;
use crate::util::random::Random;

/// Delays until a failed request is retried: the first and the longest. A denied request waits the longest: the servers
/// send no events about the node, and none when the permission changes.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// Why a node is not read, or a directory not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client has no permission.
    Denied,
    /// The request fails in another way, with this node alone.
    Failed,
}

impl Refusal {
    /// Returns why there is no data.
    pub(crate) fn of<T>(content: &Content<T>) -> Option<Refusal> {
        match content {
            Content::Denied => Some(Refusal::Denied),
            Content::Unreadable(_) => Some(Refusal::Failed),
            Content::Decoded(_) | Content::Undecodable(_) | Content::NotRead => None,
        }
    }
}

/// See the module. Looks are recorded as [`Job::Read`], too.
#[derive(Debug)]
pub(crate) struct Refused {
    random: Random,
    /// The delay of each, and when it ends.
    jobs: HashMap<Job, (Duration, Instant)>,
    /// The requests that wait for the end of their delay.
    due: BTreeSet<(Instant, Job)>,
    /// Directories that cannot be listed. Shared with the snapshots.
    unlistable: Arc<BTreeSet<Arc<str>>>,
}

impl Refused {
    pub(super) fn new(random: Random) -> Self {
        Refused { random, jobs: HashMap::new(), due: BTreeSet::new(), unlistable: Arc::default() }
    }

    /// Returns how many reads and lists fail.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns whether this request has failed before.
    pub(crate) fn contains(&self, job: &Job) -> bool {
        self.jobs.contains_key(job)
    }

    /// Returns the directories that cannot be listed.
    pub(crate) fn unlistable(&self) -> Arc<BTreeSet<Arc<str>>> {
        Arc::clone(&self.unlistable)
    }

    /// Returns when the first of them is due.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes what is due.
    pub(super) fn take_due(&mut self) -> Vec<Job> {
        let now = Instant::now();
        let is_due = |due: &BTreeSet<(Instant, Job)>| due.first().is_some_and(|(due, _)| *due <= now);
        std::iter::from_fn(|| if is_due(&self.due) { self.due.pop_first() } else { None }).map(|(_, job)| job).collect()
    }

    /// Takes everything, because a comparison retries it. The delays stay.
    pub(super) fn try_all(&mut self) {
        self.due.clear();
        self.unlistable = Arc::default();
    }

    /// Records the outcome of a request.
    pub(super) fn record(&mut self, job: Job, refusal: Option<Refusal>) {
        let Some(refusal) = refusal else { return self.remove(&job) };
        let before = self.jobs.get(&job).copied();
        // It was retried early, because of an event.
        if before.is_some_and(|(_, due)| self.due.contains(&(due, job.clone()))) {
            return;
        }
        let delay = match (refusal, before) {
            (Refusal::Denied, _) => RETRY_DELAYS.1,
            (Refusal::Failed, None) => RETRY_DELAYS.0,
            (Refusal::Failed, Some((before, _))) => RETRY_DELAYS.1.min(before * 2),
        };
        let due = Instant::now() + delay.mul_f64(0.5 + self.random.unit() / 2.0);
        self.jobs.insert(job.clone(), (delay, due));
        self.due.insert((due, job));
    }

    /// Forgets a node that was deleted.
    pub(super) fn forget(&mut self, path: &str) {
        self.set_listable(path, true);
        if !self.jobs.is_empty() {
            self.remove(&Job::Read(path.into()));
            self.remove(&Job::List(path.into()));
        }
    }

    fn remove(&mut self, job: &Job) {
        if let Some((_, due)) = self.jobs.remove(job) {
            self.due.remove(&(due, job.clone()));
        }
    }

    /// Records whether a directory can be listed.
    pub(super) fn set_listable(&mut self, dir: &str, is_listable: bool) {
        if self.unlistable.contains(dir) != is_listable {
            return;
        }
        let unlistable = Arc::make_mut(&mut self.unlistable);
        match is_listable {
            true => drop(unlistable.remove(dir)),
            false => drop(unlistable.insert(dir.into())),
        }
    }
}
