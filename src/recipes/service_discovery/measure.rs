//! The metrics of a service.

use std::sync::Arc;

use super::found::{Instance, Instances};
use super::health::Standing;
use crate::client::core::Core;
use crate::metrics::{Label, Meter, Reading, table};

/// The gauges of one service. The cache behind it reports as of when its instances are.
#[derive(Debug)]
pub(super) struct Measured {
    instances: Reading,
    available: Reading,
    down: Reading,
    unreadable: Reading,
}

impl Measured {
    pub(super) fn new(core: &Core, path: &str) -> Self {
        let (meter, label) = (core.meter(), [Label::Path(path)]);
        meter.announce(&table::SERVICE_ERRORS, &label);
        Measured {
            instances: meter.reading(&table::SERVICE_INSTANCES, &label),
            available: meter.reading(&table::SERVICE_AVAILABLE, &label),
            down: meter.reading(&table::SERVICE_DOWN, &label),
            unreadable: meter.reading(&table::SERVICE_UNREADABLE, &label),
        }
    }

    /// Publishes what was found, and which of it gets work.
    pub(super) fn viewed<P: 'static>(&self, found: &Instances<P>, with_standing: &[(Instance<P>, Standing)]) {
        let count = |is: fn(&Standing, bool) -> bool| {
            with_standing.iter().filter(|(instance, standing)| is(standing, instance.is_enabled())).count() as f64
        };
        self.instances.set(with_standing.len() as f64);
        self.unreadable.set(found.unreadable().count() as f64);
        self.available.set(count(|standing, enabled| enabled && !matches!(standing, Standing::Down)));
        self.down.set(count(|standing, _| matches!(standing, Standing::Down)));
    }
}

/// Counts the errors that callers report.
#[derive(Debug)]
pub(super) struct Errors(Arc<Meter>);

impl Errors {
    pub(super) fn new(core: &Core) -> Self {
        Errors(Arc::clone(core.meter()))
    }

    pub(super) fn count(&self, path: &str) {
        self.0.count(&table::SERVICE_ERRORS, &[Label::Path(path)], 1);
    }
}
