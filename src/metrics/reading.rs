//! Gauges that show the latest reading.

use std::collections::BTreeMap;

use ::metrics::{Gauge, Key, Recorder, with_recorder};

use super::meter::Meter;
use super::recorder::{METADATA, recording};
use super::table::{Label, Metric};
use crate::util::mutex::Mutex;

/// A gauge that shows what was read last. Readings with the same name and labels, such as those of two consumers of one
/// queue, share a gauge. It shows no number once all of them are dropped.
#[derive(Debug)]
pub(crate) struct Reading {
    gauge: Gauge,
    at: Place,
}

/// A gauge, and the address of the recorder that shows it.
type Place = (usize, Key);

/// The number of readings of each gauge in this process.
static READERS: Mutex<BTreeMap<Place, usize>> = Mutex::new(BTreeMap::new());

impl Meter {
    /// Returns a gauge that shows what was read last. At first it shows no number.
    pub(crate) fn reading(&self, metric: &'static Metric, labels: &[Label<'_>]) -> Reading {
        Reading::new(self.key(metric, labels))
    }
}

impl Reading {
    fn new(key: Key) -> Self {
        let registered =
            recording(|| with_recorder(|recorder| (address(recorder), recorder.register_gauge(&key, &METADATA))));
        let (recorder, gauge) = registered.unwrap_or_else(|| (0, Gauge::noop()));
        let reading = Reading { gauge, at: (recorder, key) };
        if reading.enter() {
            reading.set(f64::NAN);
        }
        reading
    }

    pub(crate) fn set(&self, value: f64) {
        recording(|| self.gauge.set(value));
    }

    /// Counts this reading. Returns whether it is the first of its gauge.
    fn enter(&self) -> bool {
        let mut readers = READERS.lock();
        let number = readers.entry(self.at.clone()).or_default();
        *number += 1;
        *number == 1
    }

    /// Stops counting this reading. Returns whether it was the last of its gauge.
    fn leave(&self) -> bool {
        let mut readers = READERS.lock();
        let others = readers.get_mut(&self.at).is_some_and(|number| {
            *number -= 1;
            *number > 0
        });
        if !others {
            readers.remove(&self.at);
        }
        !others
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The lock is free by now: a recorder may run any code, even code that uses this library.
        if self.leave() {
            self.set(f64::NAN);
        }
    }
}

fn address(recorder: &dyn Recorder) -> usize {
    std::ptr::from_ref(recorder).cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::metrics::table;

    #[test]
    fn each_recorder_has_its_readers_and_none_is_remembered() {
        let meter = Meter::default();
        let reading = || meter.reading(&table::CACHE_NODES, &[Label::Path("/each-recorder")]);
        let recorders = [PrometheusBuilder::new().build_recorder(), PrometheusBuilder::new().build_recorder()];
        let [one, other] = recorders.each_ref().map(|recorder| ::metrics::with_local_recorder(recorder, reading));
        let second = ::metrics::with_local_recorder(&recorders[0], reading);
        let values = || {
            recorders.each_ref().map(|recorder| recorder.handle().render().trim().rsplit(' ').next().map(str::to_owned))
        };
        let are = |values: [&str; 2]| values.map(|value| Some(value.to_owned()));
        assert_eq!(values(), are(["NaN", "NaN"]), "at first there is no number");
        one.set(1.0);
        other.set(2.0);
        drop(other);
        assert_eq!(values(), are(["1", "NaN"]));
        drop(one);
        assert_eq!(values(), are(["1", "NaN"]));
        drop(second);
        assert_eq!(values(), are(["NaN", "NaN"]));
        assert!(!READERS.lock().keys().any(|(_, key)| key.labels().any(|label| label.value() == "/each-recorder")));
    }
}
