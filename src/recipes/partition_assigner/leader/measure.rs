//! The metrics of a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::plan::{Change, Write};
use super::view::{Standing, View};
use crate::client::core::Core;
use crate::metrics::{Label, Level, Meter, table};
use crate::partition_assigner::partitions::Names;

/// What the metrics show while this member leads.
#[derive(Debug)]
pub(super) struct Measured {
    meter: Arc<Meter>,
    path: String,
    unowned: Level,
    moving: Level,
    members: Level,
    /// Since when no member has held these partitions.
    since: BTreeMap<Arc<str>, Instant>,
}

impl Measured {
    pub(super) fn new(core: &Core, path: &str) -> Self {
        let (meter, label) = (core.meter(), [Label::Path(path)]);
        meter.announce(&table::PARTITIONS_MOVED, &label);
        meter.announce(&table::PARTITION_UNOWNED, &label);
        Measured {
            unowned: meter.level(&table::PARTITIONS_UNOWNED, &label),
            moving: meter.level(&table::PARTITIONS_MOVING, &label),
            members: meter.level(&table::PARTITION_MEMBERS, &label),
            meter: Arc::clone(meter),
            path: path.to_owned(),
            since: BTreeMap::new(),
        }
    }

    /// Records what the leader sees.
    pub(super) fn look(&mut self, view: &View, set: &Names, now: Instant) {
        let (mut held, mut moving) = (BTreeSet::new(), 0);
        for (_, record, standing) in view.standings() {
            if standing == Standing::Followed {
                held.extend(&record.assignment.held);
                moving += record.assignment.revoked().count();
            }
        }
        self.since.retain(|name, since| {
            let is_held = held.contains(name);
            if is_held {
                let seconds = now.saturating_duration_since(*since).as_secs_f64();
                self.meter.record(&table::PARTITION_UNOWNED, &[Label::Path(&self.path)], seconds);
            }
            !is_held && set.contains(name)
        });
        for name in set.iter().filter(|name| !held.contains(name)) {
            self.since.entry(Arc::clone(name)).or_insert(now);
        }
        self.unowned.set(self.since.len() as f64);
        self.moving.set(moving as f64);
        self.members.set(view.members().count() as f64);
    }

    /// Counts the partitions that a write assigns, before it changes the view.
    pub(super) fn count(&self, view: &View, write: &Write) {
        let (Change::Create(next) | Change::Set(next, _) | Change::Renew(next, _)) = &write.change else { return };
        let before = view.records.get(&write.id).map(|record| &record.assignment);
        let is_new = |name: &&Arc<str>| {
            before.is_none_or(|before| before.member != next.member || !before.assigned.contains(*name))
        };
        let more = next.assigned.iter().filter(is_new).count() as u64;
        if more > 0 {
            self.meter.count(&table::PARTITIONS_MOVED, &[Label::Path(&self.path)], more);
        }
    }
}
