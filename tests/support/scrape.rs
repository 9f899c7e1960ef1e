//! An exporter for Prometheus, and what it shows.

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use zookeeper_recipes::metrics::{METRICS, MetricKind, describe};

/// What all names begin with.
const PREFIX: &str = "zookeeper_recipes_";

/// Gets the metrics of this thread while it exists.
pub(crate) struct Exporter {
    handle: PrometheusHandle,
    _installed: LocalRecorderGuard<'static>,
}

/// What an exporter shows at one time.
pub(crate) struct Scrape(String);

impl Exporter {
    pub(crate) fn install() -> Self {
        let histograms = METRICS.iter().filter(|metric| metric.kind == MetricKind::Histogram);
        let builder = histograms.fold(PrometheusBuilder::new(), |builder, metric| {
            let name = Matcher::Full(metric.name.to_owned());
            builder.set_buckets_for_metric(name, metric.buckets).expect("they are buckets")
        });
        // A recorder has to last as long as what is registered with it.
        let recorder = Box::leak(Box::new(builder.build_recorder()));
        let handle = recorder.handle();
        let installed = metrics::set_default_local_recorder(recorder);
        describe();
        Exporter { handle, _installed: installed }
    }

    pub(crate) fn scrape(&self) -> Scrape {
        Scrape(self.handle.render())
    }
}

impl Scrape {
    /// Returns the sum of all values of this name that have these labels; 0 if there is none.
    pub(crate) fn value(&self, name: &str, labels: &[&str]) -> f64 {
        self.lines(name).filter(|line| labels.iter().all(|label| line.contains(label))).map(number).sum()
    }

    /// Returns how many values of this name there are.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.lines(name).count()
    }

    /// Returns the names of the metrics that are shown.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
    }

    /// Returns what is said of this metric.
    pub(crate) fn help(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix("# HELP ")?.strip_prefix(name)?.strip_prefix(' '))
    }

    fn lines(&self, name: &str) -> impl Iterator<Item = &str> {
        let ends = move |rest: &str| rest.starts_with(['{', ' ']);
        self.0
            .lines()
            .filter(move |line| line.strip_prefix(PREFIX).and_then(|line| line.strip_prefix(name)).is_some_and(ends))
    }
}

fn number(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}
