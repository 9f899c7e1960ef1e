//! Records the metrics of one client. Without the feature `metrics` nothing is recorded or kept.

#[cfg(feature = "metrics")]
use ::metrics::{Key, SharedString, with_recorder};

#[cfg(feature = "metrics")]
use super::recorder::{METADATA, recording};
use super::table::Metric;
#[cfg(feature = "metrics")]
use crate::util::mutex::Mutex;

/// The value of a label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label<'a> {
    /// One of the few that the code names.
    Is(&'static str),
    /// The path of a recipe as its user named it, for which a template may stand.
    Path(&'a str),
    /// As its user has written it; empty if there is none.
    #[cfg_attr(not(feature = "throughput-balancer"), allow(dead_code))]
    Text(&'a str),
}

/// Records what a client and its recipes do.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    paths: Option<super::Paths>,
}

impl Meter {
    #[cfg(feature = "metrics")]
    pub(crate) fn new(paths: super::Paths) -> Self {
        Meter { paths: Some(paths) }
    }

    /// Counts so many more.
    pub(crate) fn count(&self, metric: &'static Metric, labels: &[Label<'_>], more: u64) {
        #[cfg(feature = "metrics")]
        recording(|| {
            with_recorder(|recorder| recorder.register_counter(&self.key(metric, labels), &METADATA).increment(more));
        });
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels, more);
    }

    /// Records one value.
    pub(crate) fn record(&self, metric: &'static Metric, labels: &[Label<'_>], value: f64) {
        #[cfg(feature = "metrics")]
        recording(|| {
            with_recorder(|recorder| recorder.register_histogram(&self.key(metric, labels), &METADATA).record(value));
        });
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels, value);
    }

    /// Shows a counter or a histogram from now on, though nothing has happened: of one that appears with its first
    /// event a rate does not see that event.
    pub(crate) fn announce(&self, metric: &'static Metric, labels: &[Label<'_>]) {
        #[cfg(feature = "metrics")]
        recording(|| {
            with_recorder(|recorder| match metric.kind {
                super::MetricKind::Histogram => drop(recorder.register_histogram(&self.key(metric, labels), &METADATA)),
                _ => drop(recorder.register_counter(&self.key(metric, labels), &METADATA)),
            });
        });
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels);
    }

    /// Returns what one of several contributes to a gauge. At first that is nothing.
    pub(crate) fn level(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Level {
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels);
        Level {
            #[cfg(feature = "metrics")]
            value: Mutex::default(),
            #[cfg(feature = "metrics")]
            gauge: recording(|| {
                with_recorder(|recorder| recorder.register_gauge(&self.key(metric, labels), &METADATA))
            }),
        }
    }

    #[cfg(feature = "metrics")]
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

/// What one of several contributes to a gauge. It is taken back with the drop. The default contributes to none.
#[derive(Debug, Default)]
pub(crate) struct Level {
    #[cfg(feature = "metrics")]
    value: Mutex<f64>,
    #[cfg(feature = "metrics")]
    gauge: Option<::metrics::Gauge>,
}

impl Level {
    pub(crate) fn set(&self, value: f64) {
        #[cfg(feature = "metrics")]
        if let Some(gauge) = &self.gauge {
            let before = std::mem::replace(&mut *self.value.lock(), value);
            recording(|| gauge.increment(value - before));
        }
        #[cfg(not(feature = "metrics"))]
        let _ = value;
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.set(0.0);
    }
}
