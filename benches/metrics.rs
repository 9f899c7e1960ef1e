//! Measures what the metrics cost: cycles of a free mutex with a recorder for Prometheus and without, on a real server.
//!
//! `cargo bench --features integration,metrics --bench metrics`. The two take turns, round by round, so that other load
//! on the machine affects both. The aim is at most 3 %. `BENCH_SERVER=host:port` selects another server, for example a
//! container that is reached at its own address.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use zookeeper_recipes::Client;
use zookeeper_recipes::metrics::{METRICS, MetricKind, describe};
use zookeeper_recipes::mutex::InterProcessMutex;

use support::{ZooKeeper, unique_path};

/// Each is run with and without a recorder.
const ROUNDS: usize = 60;
const CYCLES: u32 = 300;

fn recorder() -> PrometheusRecorder {
    let histograms = METRICS.iter().filter(|metric| metric.kind == MetricKind::Histogram);
    let builder = histograms.fold(PrometheusBuilder::new(), |builder, metric| {
        let name = Matcher::Full(metric.name.to_owned());
        builder.set_buckets_for_metric(name, metric.buckets).expect("they are buckets")
    });
    builder.build_recorder()
}

/// Returns how long a cycle takes.
async fn round(mutex: &InterProcessMutex) -> Duration {
    let began = Instant::now();
    for _ in 0..CYCLES {
        mutex.acquire().await.expect("held").release().await.expect("released");
    }
    began.elapsed() / CYCLES
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // A single thread, because a local recorder applies to one thread only.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let own = || runtime.block_on(ZooKeeper::shared());
    let (at, _server) = match std::env::var("BENCH_SERVER") {
        Ok(at) => (at, None),
        Err(_) => {
            let server = own();
            (server.connect_string(), Some(server))
        }
    };
    let client = runtime.block_on(Client::builder(&at).connect()).expect("a client");
    let mutex = InterProcessMutex::new(&client, unique_path("metrics")).expect("a path");
    let recorder = recorder();
    runtime.block_on(round(&mutex));
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let measured = || {
            let _recording = metrics::set_default_local_recorder(&recorder);
            describe();
            runtime.block_on(round(&mutex)).as_secs_f64()
        };
        let unmeasured = || runtime.block_on(round(&mutex)).as_secs_f64();
        let (one, other) = if number % 2 == 0 {
            (measured(), unmeasured())
        } else {
            let other = unmeasured();
            (measured(), other)
        };
        with.push(one);
        without.push(other);
        ratios.push(one / other);
    }
    let micros = |values| median(values) * 1e6;
    println!("a cycle of a free mutex, {ROUNDS} rounds of {CYCLES}:");
    println!("  without a recorder     {:8.1} µs", micros(without));
    println!("  with a recorder        {:8.1} µs", micros(with));
    println!("  median of the ratios   {:8.1} %   (aim: at most +3.0 %)", (median(ratios) - 1.0) * 100.0);
    let shown = recorder.handle().render().lines().filter(|line| line.starts_with("zookeeper_recipes_")).count();
    assert!(shown > 50, "the recorder has values: {shown} lines");
}
