//! Records the metrics of one client.

use ::metrics::{Key, SharedString, with_recorder};

use super::recorder::{METADATA, recording};
use super::table::{Label, Metric};
use crate::util::mutex::Mutex;

/// Records what a client and its recipes do.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    paths: Option<super::Paths>,
}

impl Meter {
    pub(crate) fn new(paths: super::Paths) -> Self {
        Meter { paths: Some(paths) }
    }

    /// Adds `more` to a counter.
    pub(crate) fn count(&self, metric: &'static Metric, labels: &[Label<'_>], more: u64) {
        recording(|| {
            with_recorder(|recorder| recorder.register_counter(&self.key(metric, labels), &METADATA).increment(more));
        });
    }

    /// Records one value.
    pub(crate) fn record(&self, metric: &'static Metric, labels: &[Label<'_>], value: f64) {
        recording(|| {
            with_recorder(|recorder| recorder.register_histogram(&self.key(metric, labels), &METADATA).record(value));
        });
    }

    /// Exports a counter or a histogram from now on, before anything has happened: if it appeared with its first event,
    /// a rate would miss that event.
    pub(crate) fn announce(&self, metric: &'static Metric, labels: &[Label<'_>]) {
        recording(|| {
            with_recorder(|recorder| match metric.kind {
                super::MetricKind::Histogram => drop(recorder.register_histogram(&self.key(metric, labels), &METADATA)),
                _ => drop(recorder.register_counter(&self.key(metric, labels), &METADATA)),
            });
        });
    }

    /// Returns one contribution to a gauge that several share. It is zero at first.
    pub(crate) fn level(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Level {
        Level {
            value: Mutex::default(),
            gauge: recording(|| {
                with_recorder(|recorder| recorder.register_gauge(&self.key(metric, labels), &METADATA))
            }),
        }
    }

    pub(super) fn key(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Key {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let label = |(&name, value): (&&'static str, &Label<'_>)| match (value, &self.paths) {
            (Label::Is(value), _) => ::metrics::Label::from_static_parts(name, value),
            (Label::Path(path), Some(paths)) => {
                ::metrics::Label::new(name, SharedString::from(paths.label(metric.name, path)))
            }
            (Label::Path(text), None) | (Label::Text(text), _) => ::metrics::Label::new(name, (*text).to_owned()),
        };
        Key::from_parts(metric.name, metric.labels.iter().zip(labels).map(label).collect::<Vec<_>>())
    }
}

/// One contribution to a gauge that several share. Dropping it subtracts it. The default contributes to no gauge.
#[derive(Debug, Default)]
pub(crate) struct Level {
    value: Mutex<f64>,
    gauge: Option<::metrics::Gauge>,
}

impl Level {
    pub(crate) fn set(&self, value: f64) {
        if let Some(gauge) = &self.gauge {
            let before = std::mem::replace(&mut *self.value.lock(), value);
            recording(|| gauge.increment(value - before));
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.set(0.0);
    }
}
