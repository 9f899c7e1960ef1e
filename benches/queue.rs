//! DistributedQueue against the raw client doing the same work, on a real server:
//! `cargo bench --features integration --bench queue`.
//!
//! The two take turns within each measurement, so that whatever else the machine does hits both; the ratio is what counts.

#[path = "side_by_side/mod.rs"]
mod side_by_side;
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::iter;
use tokio::sync::Notify;
use zookeeper as zk;
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{Consumer, DistributedQueue, Producer, RawBytes};

use self::side_by_side::{Pair, Stage};

/// One iteration puts so many, or puts and takes them.
const ITEMS: usize = 1_000;
/// So much of the raw client's is under way at a time.
const WINDOW: usize = 256;
/// So many items are in the hands of a consumer at a time, ours or raw.
const IN_HAND: usize = 32;
/// As many creates share a transaction of ours, and as many transactions are under way.
const TRANSACTION: (usize, usize) = (64, 4);
const SESSION: Duration = Duration::from_secs(30);
/// What Curator writes around an item of seven bytes.
const ITEM: &[u8] = b"\x00\x01\x00\x01\x01\x00\x00\x00\x07payload\x02";

async fn queue(stage: &Stage, path: &str) -> DistributedQueue<RawBytes> {
    let client = Client::builder(stage.connect_string()).session_timeout(SESSION).connect().await.expect("a client");
    DistributedQueue::builder(&client, path, RawBytes).prefetch(IN_HAND).start().expect("a queue")
}

async fn put(producer: &Producer<RawBytes>) {
    for _ in 0..ITEMS {
        drop(producer.enqueue(*b"payload").await.expect("on its way"));
    }
    producer.flush().await.expect("put");
}

async fn take(consumers: &[Consumer<RawBytes>]) {
    let (left, done) = (AtomicUsize::new(ITEMS), Notify::new());
    let work = join_all(consumers.iter().map(|consumer| {
        consumer.deliveries().for_each_concurrent(IN_HAND, |taken| async {
            taken.expect("an item").ack().await.expect("acked");
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                done.notify_one();
            }
        })
    }));
    tokio::select! {
        biased;
        () = done.notified() => {}
        _ = work => {}
    }
}

/// A queue by the client crate alone: the same requests when nothing goes wrong, without any of the care.
struct Raw {
    client: zk::Client,
    dir: String,
}

impl Raw {
    async fn connect(stage: &Stage, dir: &str) -> Raw {
        let connector = zk::Client::connector().with_session_timeout(SESSION);
        let client = connector.connect(&stage.connect_string()).await.expect("a session");
        let lasting = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        for dir in [dir, &format!("{dir}-claims"), &format!("{dir}-producer")] {
            match client.create(dir, b"", &lasting).await {
                Ok(_) | Err(zk::Error::NodeExists) => {}
                Err(error) => panic!("{dir}: {error}"),
            }
        }
        Raw { client, dir: dir.to_owned() }
    }

    fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn claim(&self, name: &str) -> String {
        format!("{}-claims/{name}", self.dir)
    }

    /// A create an item.
    async fn put(&self) {
        let (prefix, mode) = (self.item("queue-"), sequential());
        let puts = iter(0..ITEMS).map(|_| self.client.create(&prefix, ITEM, &mode)).buffer_unordered(WINDOW);
        puts.for_each(|put| async { put.map(|_| ()).expect("put") }).await;
    }

    /// A transaction for many items, as ours.
    async fn put_in_transactions(&self) {
        let (most, under_way) = TRANSACTION;
        let (prefix, mode, producer) = (self.item("queue-"), sequential(), format!("{}-producer", self.dir));
        let (prefix, mode, producer) = (&prefix, &mode, &producer);
        let sizes = (0..ITEMS).step_by(most).map(|from| most.min(ITEMS - from));
        let puts = iter(sizes).map(|size| async move {
            let mut transaction = self.client.new_multi_writer();
            transaction.add_set_data(producer, b"0", None).expect("a good path");
            for _ in 0..size {
                transaction.add_create(prefix, ITEM, mode).expect("a good path");
            }
            transaction.commit().await.expect("put");
        });
        puts.buffer_unordered(under_way).collect::<()>().await;
    }

    async fn names(&self) -> Vec<String> {
        let (mut names, _) = self.client.get_children(&self.dir).await.expect("listed");
        names.sort_unstable();
        names
    }

    /// Three requests an item: claim and read in one flight, then ack.
    async fn take(&self, names: impl Iterator<Item = &String>) {
        let mode = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        let mode = &mode;
        let takes = iter(names).map(|name| async move {
            let (item, claim) = (self.item(name), self.claim(name));
            let mut claiming = self.client.new_multi_writer();
            claiming.add_check_version(&item, -1).expect("a good path");
            claiming.add_create(&claim, b"", mode).expect("a good path");
            let (claimed, read) = tokio::join!(claiming.commit(), self.client.get_data(&item));
            claimed.expect("claimed");
            let (_, stat) = read.expect("read");
            let mut ack = self.client.new_multi_writer();
            ack.add_delete(&claim, None).expect("a good path");
            ack.add_delete(&item, Some(stat.version)).expect("a good path");
            ack.commit().await.expect("acked");
        });
        takes.buffer_unordered(IN_HAND).collect::<()>().await;
    }

    /// Takes away what was put; not measured.
    async fn clear(&self) {
        let names = self.names().await;
        let deletes = iter(&names).map(|name| async move { self.client.delete(&self.item(name), None).await });
        deletes.buffer_unordered(WINDOW).for_each(|deleted| async { deleted.expect("deleted") }).await;
    }
}

fn sequential() -> zk::CreateOptions<'static> {
    zk::CreateMode::PersistentSequential.with_acls(zk::Acls::anyone_all())
}

/// How long `work` takes so many times, without what is done after each time.
async fn timed(iterations: u64, mut work: impl AsyncFnMut(), mut afterwards: impl AsyncFnMut()) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..iterations {
        let begun = Instant::now();
        work().await;
        total += begun.elapsed();
        afterwards().await;
    }
    total
}

fn puts(criterion: &mut Criterion, in_transactions: bool) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("put");
    let (producer, ours, raw) = stage.block_on(async {
        let producer = queue(&stage, &path).await.producer();
        put(&producer).await;
        // To clear it.
        let ours = Raw::connect(&stage, &path).await;
        ours.clear().await;
        (producer, ours, Raw::connect(&stage, &raw_path).await)
    });
    let how = if in_transactions { "the same transactions" } else { "a create an item" };
    Pair::new(&format!("queue, put {ITEMS} items, against {how}")).measure(
        criterion,
        |iterations| {
            stage.block_on(timed(
                iterations,
                async || if in_transactions { raw.put_in_transactions().await } else { raw.put().await },
                async || raw.clear().await,
            ))
        },
        |iterations| stage.block_on(timed(iterations, async || put(&producer).await, async || ours.clear().await)),
    );
}

fn puts_and_takes(criterion: &mut Criterion, consumers: usize) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("take");
    let (producer, takers, raws) = stage.block_on(async {
        let raws = join_all((0..consumers).map(|_| Raw::connect(&stage, &raw_path))).await;
        let takers = join_all((0..consumers).map(|_| queue(&stage, &path))).await;
        let takers: Vec<_> = takers.iter().map(DistributedQueue::consumer).collect();
        (queue(&stage, &path).await.producer(), takers, raws)
    });
    Pair::new(&format!("queue, put and take {ITEMS} items at least once, {consumers} consumers")).measure(
        criterion,
        |iterations| {
            let work = async || {
                raws[0].put().await;
                let names = raws[0].names().await;
                let shares = raws.iter().enumerate();
                join_all(shares.map(|(nth, raw)| raw.take(names.iter().skip(nth).step_by(consumers)))).await;
            };
            stage.block_on(timed(iterations, work, async || {}))
        },
        |iterations| {
            let work = async || {
                put(&producer).await;
                take(&takers).await;
            };
            stage.block_on(timed(iterations, work, async || {}))
        },
    );
}

fn benches(criterion: &mut Criterion) {
    puts(criterion, false);
    puts(criterion, true);
    puts_and_takes(criterion, 1);
    puts_and_takes(criterion, 4);
}

criterion_group! {
    name = queue_benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(5)).without_plots();
    targets = benches
}
criterion_main!(queue_benches);
