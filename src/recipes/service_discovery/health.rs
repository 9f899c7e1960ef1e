//! Which instances are down, by what their callers report.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::Instant;

use super::found::Instance;

/// When an instance is down, and for how long: Curator's `DownInstancePolicy`.
///
/// An instance is down after `errors` [errors](super::Service::report_error) within `window`. After `pause` it is
/// probed: [`next`](super::Service::next) returns it once. An error then takes it down again; after a
/// [success](super::Service::report_ok), or after another `pause` without an error, it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownPolicy {
    /// How many errors take an instance down: 1 to 1 000. Default 2.
    pub errors: u32,
    /// Within which time: from 1 ms to 365 days. Default 30 s.
    pub window: Duration,
    /// How long it is down before it is probed: from 1 ms to 365 days. Default 30 s.
    pub pause: Duration,
}

/// The most errors that are counted for each instance.
const MOST_ERRORS: u32 = 1_000;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Curator's values.
impl Default for DownPolicy {
    fn default() -> Self {
        let half_a_minute = Duration::from_secs(30);
        DownPolicy { errors: 2, window: half_a_minute, pause: half_a_minute }
    }
}

impl DownPolicy {
    /// Sets how many errors take an instance down.
    pub fn errors(mut self, errors: u32) -> Self {
        self.errors = errors;
        self
    }

    /// Sets the time within which these errors count.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets how long an instance is down before it is probed.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub(super) fn check(self) -> Result<(), String> {
        if !(1..=MOST_ERRORS).contains(&self.errors) {
            return Err(format!("down after {} errors; 1 to {MOST_ERRORS} are allowed", self.errors));
        }
        for (what, time) in [("pause", self.pause), ("window", self.window)] {
            if !(SHORTEST..=LONGEST).contains(&time) {
                return Err(format!("a {what} of {time:?}; 1ms to 365 days are allowed"));
            }
        }
        Ok(())
    }
}

/// Whether an instance gets work.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// It does.
    Up,
    /// It does once, to see whether it works again: unless a caller does so already.
    Probed(Arc<AtomicBool>),
    /// It does not.
    Down,
}

/// What was reported of one instance.
#[derive(Debug)]
struct Record {
    /// Which of the nodes at this path: a new registration has no errors yet.
    czxid: i64,
    /// The latest errors, oldest first, at most as many as take it down.
    errors: VecDeque<Instant>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Up,
    Down { until: Instant },
    Probed { until: Instant, is_taken: Arc<AtomicBool> },
}

/// What was reported of the instances of a service, by the paths of their nodes.
#[derive(Debug)]
pub(super) struct Health {
    policy: DownPolicy,
    records: HashMap<String, Record>,
}

impl Health {
    pub(super) fn new(policy: DownPolicy) -> Self {
        Health { policy, records: HashMap::new() }
    }

    /// Records an error. Returns whether that has taken the instance down.
    pub(super) fn error<P>(&mut self, instance: &Instance<P>, now: Instant) -> bool {
        let policy = self.policy;
        let czxid = instance.czxid();
        let record = self.records.entry(instance.path().to_owned()).or_insert_with(|| Record::new(czxid));
        match record.czxid.cmp(&czxid) {
            // A report about a registration that is over.
            Ordering::Greater => return false,
            Ordering::Less => *record = Record::new(czxid),
            Ordering::Equal => {}
        }
        match record.phase {
            // Calls that began before it was down.
            Phase::Down { .. } => return false,
            Phase::Probed { .. } => {}
            Phase::Up => {
                record.errors.push_back(now);
                while record.errors.front().is_some_and(|first| now.duration_since(*first) > policy.window) {
                    record.errors.pop_front();
                }
                if record.errors.len() < policy.errors as usize {
                    return false;
                }
            }
        }
        record.errors.clear();
        record.phase = Phase::Down { until: now + policy.pause };
        true
    }

    /// Records a success. Returns whether the instance is up again by that.
    pub(super) fn success<P>(&mut self, instance: &Instance<P>) -> bool {
        let Some(record) = self.records.get_mut(instance.path()) else { return false };
        if record.czxid != instance.czxid() {
            return false;
        }
        match record.phase {
            // A call that began before it was down proves nothing.
            Phase::Down { .. } => false,
            Phase::Up => {
                self.records.remove(instance.path());
                false
            }
            Phase::Probed { .. } => {
                self.records.remove(instance.path());
                true
            }
        }
    }

    /// Lets time pass. Returns when something changes next.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Instant> {
        let policy = self.policy;
        self.records.retain(|_, record| match record.phase {
            Phase::Down { until } if until <= now => {
                record.phase = Phase::Probed { until: now + policy.pause, is_taken: Arc::default() };
                true
            }
            Phase::Probed { until, .. } => until > now,
            Phase::Up | Phase::Down { .. } => true,
        });
        let ends = self.records.values().filter_map(|record| match record.phase {
            Phase::Down { until } | Phase::Probed { until, .. } => Some(until),
            Phase::Up => None,
        });
        ends.min()
    }

    /// Forgets all instances but those for which `is_there` holds.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str, i64) -> bool) {
        self.records.retain(|path, record| is_there(path, record.czxid));
    }

    pub(super) fn standing<P>(&self, instance: &Instance<P>) -> Standing {
        let of_this = |record: &&Record| record.czxid == instance.czxid();
        match self.records.get(instance.path()).filter(of_this).map(|record| &record.phase) {
            None | Some(Phase::Up) => Standing::Up,
            Some(Phase::Probed { is_taken, .. }) => Standing::Probed(Arc::clone(is_taken)),
            Some(Phase::Down { .. }) => Standing::Down,
        }
    }
}

impl Record {
    fn new(czxid: i64) -> Self {
        Record { czxid, errors: VecDeque::new(), phase: Phase::Up }
    }
}
