//! What each metric means, for the recorder.

use ::metrics::{KeyName, Unit, with_recorder};

use super::table::{METRICS, Metric, MetricKind, MetricUnit};

/// Registers the description and the unit of each metric with the installed recorder. Call it after the recorder was
/// installed.
pub fn describe() {
    METRICS.iter().for_each(|metric| describe_one(metric));
}

fn describe_one(metric: &'static Metric) {
    let name = KeyName::from_const_str(metric.name);
    let unit = match metric.unit {
        MetricUnit::Count => Some(Unit::Count),
        MetricUnit::Seconds => Some(Unit::Seconds),
    };
    with_recorder(|recorder| match metric.kind {
        MetricKind::Counter => recorder.describe_counter(name, unit, metric.help.into()),
        MetricKind::Gauge => recorder.describe_gauge(name, unit, metric.help.into()),
        MetricKind::Histogram => recorder.describe_histogram(name, unit, metric.help.into()),
    });
}
