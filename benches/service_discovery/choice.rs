//! The time of a choice, in nanoseconds: on one thread, and on two that choose from the same service.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use arc_swap::ArcSwap;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Registration, Service, ServiceBuilder};
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance, Strategy};

use crate::pipelined::median;

/// As many as the strategies choose from here.
const FEW: usize = 10;

/// What is measured, under its name.
type Row = (&'static str, Box<dyn Fn(&Barrier, usize) -> f64 + Sync>);

/// Returns what calls this many times, and returns the nanoseconds of one call. All threads begin together.
fn row<T: 'static>(name: &'static str, call: impl Fn() -> T + Sync + 'static) -> Row {
    let calls = move |start: &Barrier, calls: usize| {
        start.wait();
        let began = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        began.elapsed().as_nanos() as f64 / calls as f64
    };
    (name, Box::new(calls))
}

/// Returns the nanoseconds of a call as each of this many threads sees it.
fn on_threads(row: &Row, threads: usize, calls: usize) -> f64 {
    let start = Barrier::new(threads);
    let each: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| row.1(&start, calls))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    each.iter().sum::<f64>() / threads as f64
}

/// What every choice needs: to load what was published last, and to clone a part of it. Then the same, one after the
/// other.
fn limits() -> [Row; 2] {
    let swap = || ArcSwap::from_pointee((0..FEW).map(Arc::new).collect::<Vec<Arc<usize>>>());
    let (same, each, position) = (swap(), swap(), AtomicUsize::new(0));
    [
        row("ArcSwap: load, clone the same", move || Arc::clone(&same.load()[0])),
        row("ArcSwap: load, count, clone the next", move || {
            Arc::clone(&each.load()[position.fetch_add(1, Ordering::Relaxed) % FEW])
        }),
    ]
}

fn choices(name: &'static str, service: Service<String>) -> Row {
    assert_eq!(service.instances().len(), FEW);
    row(name, move || service.next().expect("there are instances"))
}

/// Prints a row for each strategy. The rows take turns in each round.
pub(crate) async fn measure(client: &Client, base: &str, name: &str, rounds: usize, calls: usize) {
    let _registered = register(client, base).await;
    let discovery = ServiceDiscovery::<String>::new(client, base).expect("a good path");
    let few = || discovery.service("few");
    let start = async |name, service: ServiceBuilder<String>| choices(name, service.start().await.expect("it starts"));
    let load = |instance: &ServiceInstance<String>| u64::from(instance.port().unwrap_or_default());
    let weight = |instance: &ServiceInstance<String>| u32::from(instance.port().unwrap_or_default());
    let mut rows = Vec::from(limits());
    rows.push(start("RoundRobin", few().strategy(Strategy::RoundRobin)).await);
    rows.push(start("RoundRobin, weights 1 to 10", few().weight(weight)).await);
    rows.push(start("Random", few().strategy(Strategy::Random)).await);
    rows.push(start("Random, weights 1 to 10", few().strategy(Strategy::Random).weight(weight)).await);
    rows.push(start("Sticky", few().strategy(Strategy::Sticky)).await);
    rows.push(start("LeastLoaded", few().strategy(Strategy::least_loaded(load))).await);
    let many = discovery.service(name).start().await.expect("it starts");
    rows.push(row("RoundRobin, 100 instances", move || many.next().expect("there are instances")));
    println!("\n{:<40} | {:>11} | {:>11} |", "a choice among 10 instances", "one thread", "two threads");
    let mut nanos = vec![[Vec::new(), Vec::new()]; rows.len()];
    for _ in 0..rounds {
        for (row, nanos) in rows.iter().zip(&mut nanos) {
            nanos[0].push(on_threads(row, 1, calls));
            nanos[1].push(on_threads(row, 2, calls));
        }
    }
    for ((name, _), nanos) in rows.iter().zip(nanos) {
        let [one, two] = nanos.map(|nanos| median(nanos).unwrap_or_default());
        println!("{name:<40} | {one:>8.1} ns | {two:>8.1} ns |");
    }
}

/// Registers the instances of `few`, whose ports are 1 to 10.
async fn register(client: &Client, base: &str) -> Vec<Registration<String>> {
    let discovery = ServiceDiscovery::<String>::new(client, base).expect("a good path");
    let mut registered = Vec::new();
    for port in 1..=FEW as u16 {
        let instance = ServiceInstance::builder("few").address("10.0.0.1").port(port).build().expect("an instance");
        registered.push(discovery.register(instance).await.expect("registered"));
    }
    registered
}
