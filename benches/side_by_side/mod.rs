//! Two ways to do the same thing, measured in one run.

// Each benchmark uses a part of it.
#![allow(dead_code, unused_imports, unreachable_pub)]

mod raw;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use tokio::runtime::Runtime;

pub use self::raw::{RawLine, RawLock, make_directory};
use crate::support::{ZooKeeper, unique_path};

/// A real server, and a runtime for whoever talks to it.
pub struct Stage {
    runtime: Runtime,
    server: Arc<ZooKeeper>,
}

impl Stage {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let server = runtime.block_on(ZooKeeper::shared());
        Stage { runtime, server }
    }

    pub fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// A path for us, and one for the raw client.
    pub fn paths(&self, name: &str) -> (String, String) {
        (unique_path(name), unique_path(&format!("{name}-raw")))
    }

    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// How long the work takes.
    pub fn time<F: Future>(&self, work: F) -> Duration {
        self.runtime.block_on(async {
            let begun = Instant::now();
            work.await;
            begun.elapsed()
        })
    }
}

/// A comparison.
pub struct Pair {
    name: String,
    /// Seconds an iteration: raw, ours.
    samples: RefCell<Vec<(f64, f64)>>,
}

impl Pair {
    pub fn new(name: &str) -> Self {
        Pair { name: name.to_owned(), samples: RefCell::default() }
    }

    /// Measures both, each time one after the other, and prints the ratio.
    pub fn measure(
        self,
        criterion: &mut Criterion,
        mut raw: impl FnMut(u64) -> Duration,
        mut ours: impl FnMut(u64) -> Duration,
    ) {
        let mut both = |iterations: u64| {
            let times = (raw(iterations), ours(iterations));
            let each = |time: Duration| time.as_secs_f64() / iterations as f64;
            self.samples.borrow_mut().push((each(times.0), each(times.1)));
            times
        };
        let mut group = criterion.benchmark_group(&self.name);
        group.bench_function("the raw client", |bencher| bencher.iter_custom(|iterations| both(iterations).0));
        group.bench_function("zookeeper-recipes", |bencher| bencher.iter_custom(|iterations| both(iterations).1));
        group.finish();
        self.tell();
    }

    fn tell(&self) {
        let samples = self.samples.borrow();
        if samples.is_empty() {
            // The filter of the command line left the pair out.
            return;
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let raw = median(samples.iter().map(|sample| sample.0).collect());
        let ours = median(samples.iter().map(|sample| sample.1).collect());
        let ratio = median(samples.iter().map(|(raw, ours)| ours / raw).collect());
        println!(
            "{}: raw {:.0} µs, ours {:.0} µs; ours / raw, median of {}: {ratio:.3}\n",
            self.name,
            raw * 1e6,
            ours * 1e6,
            samples.len()
        );
    }
}
