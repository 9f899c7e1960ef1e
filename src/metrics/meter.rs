//! Records the metrics of one client. Without the feature `metrics` nothing is recorded or kept.

#[cfg(feature = "metrics")]
use ::metrics::{Key, Metadata, SharedString, with_recorder};

use super::table::Metric;

/// The value of a label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label<'a> {
    /// One of the few that the code names.
    Is(&'static str),
    /// The path of a recipe as its user named it, for which a template may stand.
    Path(&'a str),
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
        with_recorder(|recorder| recorder.register_counter(&self.key(metric, labels), &METADATA).increment(more));
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels, more);
    }

    /// Records one value.
    pub(crate) fn record(&self, metric: &'static Metric, labels: &[Label<'_>], value: f64) {
        #[cfg(feature = "metrics")]
        with_recorder(|recorder| recorder.register_histogram(&self.key(metric, labels), &METADATA).record(value));
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels, value);
    }

    /// Returns what one of several contributes to a gauge. At first that is nothing.
    pub(crate) fn level(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Level {
        Level { value: 0.0, gauge: self.reading(metric, labels) }
    }

    /// Returns a gauge that shows what was read last.
    pub(crate) fn reading(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Reading {
        #[cfg(not(feature = "metrics"))]
        let _ = (metric, labels);
        Reading {
            #[cfg(feature = "metrics")]
            gauge: with_recorder(|recorder| recorder.register_gauge(&self.key(metric, labels), &METADATA)),
        }
    }

    #[cfg(feature = "metrics")]
    fn key(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Key {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let label = |(&name, value): (&&'static str, &Label<'_>)| match (value, &self.paths) {
            (Label::Is(value), _) => ::metrics::Label::from_static_parts(name, value),
            (Label::Path(path), Some(paths)) => ::metrics::Label::new(name, SharedString::from(paths.label(path))),
            (Label::Path(path), None) => ::metrics::Label::new(name, (*path).to_owned()),
        };
        Key::from_parts(metric.name, metric.labels.iter().zip(labels).map(label).collect::<Vec<_>>())
    }
}

#[cfg(feature = "metrics")]
static METADATA: Metadata<'static> =
    Metadata::new("zookeeper_recipes", ::metrics::Level::INFO, Some("zookeeper_recipes"));

/// A gauge that shows what was read last. The default is none.
#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), derive(Default))]
pub(crate) struct Reading {
    #[cfg(feature = "metrics")]
    gauge: ::metrics::Gauge,
}

#[cfg(feature = "metrics")]
impl Default for Reading {
    fn default() -> Self {
        Reading { gauge: ::metrics::Gauge::noop() }
    }
}

impl Reading {
    pub(crate) fn set(&self, value: f64) {
        #[cfg(feature = "metrics")]
        self.gauge.set(value);
        #[cfg(not(feature = "metrics"))]
        let _ = value;
    }
}

/// What one of several contributes to a gauge. It is taken back with the drop. The default contributes to none.
#[derive(Debug, Default)]
pub(crate) struct Level {
    value: f64,
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    gauge: Reading,
}

impl Level {
    pub(crate) fn set(&mut self, value: f64) {
        #[cfg(feature = "metrics")]
        self.gauge.gauge.increment(value - self.value);
        self.value = value;
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.set(0.0);
    }
}
