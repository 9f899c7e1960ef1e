//! InterProcessMutex against the raw client doing the same requests, on a real server: `cargo bench --features integration`.
//!
//! The two take turns within each measurement, so that whatever else the machine does hits both; the ratio is what counts.

#[path = "side_by_side/mod.rs"]
mod side_by_side;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::InterProcessMutex;

use self::side_by_side::{Pair, RawLock, Stage};

async fn ours(stage: &Stage, path: &str) -> InterProcessMutex {
    let client = Client::builder(stage.connect_string()).session_timeout(Duration::from_secs(30)).connect();
    InterProcessMutex::builder(&client.await.expect("a client"), path).start().expect("a mutex")
}

async fn cycles(mutex: &InterProcessMutex, cycles: u64) {
    for _ in 0..cycles {
        mutex.acquire().await.expect("the lock").release().await.expect("released");
    }
}

fn free(criterion: &mut Criterion) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("free");
    let (mutex, raw) = stage.block_on(async {
        let raw = RawLock::connect(&stage, &raw_path).await;
        raw.make_directory(&path).await;
        (ours(&stage, &path).await, raw)
    });
    Pair::new("mutex, free").measure(
        criterion,
        |iterations| stage.time(raw.cycles(iterations)),
        |iterations| stage.time(cycles(&mutex, iterations)),
    );
}

/// One iteration is a turn of each contender.
fn contended(criterion: &mut Criterion, contenders: usize) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("contended");
    let (mutexes, raws) = stage.block_on(async {
        let raws = join_all((0..contenders).map(|_| RawLock::connect(&stage, &raw_path))).await;
        raws[0].make_directory(&path).await;
        (join_all((0..contenders).map(|_| ours(&stage, &path))).await, raws)
    });
    Pair::new(&format!("mutex, {contenders} contenders")).measure(
        criterion,
        |iterations| stage.time(join_all(raws.iter().map(|raw| raw.cycles(iterations)))),
        |iterations| stage.time(join_all(mutexes.iter().map(|mutex| cycles(mutex, iterations)))),
    );
}

fn benches(criterion: &mut Criterion) {
    free(criterion);
    contended(criterion, 8);
    contended(criterion, 32);
}

criterion_group! {
    name = mutex;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(4)).without_plots();
    targets = benches
}
criterion_main!(mutex);
