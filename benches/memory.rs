//! Measures on a real server how many heap bytes each of a thousand waiting contenders takes, in an election and for
//! each kind of lock, and how many a node in a cache takes.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::{Client, CreateMode};

use support::{ZooKeeper, unique_path};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const WAITING: usize = 1_000;
/// The nodes of a cache, in directories of a hundred.
const CACHED: usize = 100_000;
const DATA: [u8; 100] = [b'x'; 100];

async fn wait_for_turn(client: &Client, path: &str, count: usize) -> Vec<LeaderLatch> {
    let mut latches = Vec::with_capacity(count);
    for _ in 0..count {
        let latch = LeaderLatch::builder(client, path).start().expect("a latch");
        let mut states = latch.state();
        let joined = |status| matches!(status, LatchStatus::Waiting | LatchStatus::Leading);
        states.wait_for(|state| joined(state.status())).await.expect("it has joined");
        latches.push(latch);
    }
    // The watches of the last contenders are being armed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    latches
}

/// Returns the bytes of a contender that waits in line at `path`, behind one that does not leave.
async fn waiting<F>(client: &Client, path: &str, acquire: impl Fn() -> F) -> usize
where
    F: Future<Output = ()> + Send + 'static,
{
    let nodes = async || client.children(path).await.expect("the directory").len();
    let left_alone = nodes().await;
    let start = async |count: usize| {
        let wanted = nodes().await + count;
        let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(acquire())).collect();
        while nodes().await < wanted {}
        // The watches of the last contenders are being armed.
        tokio::time::sleep(Duration::from_millis(500)).await;
        tasks
    };
    // The first contenders allocate what all share.
    let first = start(10).await;
    let before = dhat::HeapStats::get().curr_bytes;
    let others = start(WAITING).await;
    let after = dhat::HeapStats::get().curr_bytes;
    first.iter().chain(&others).for_each(|task| task.abort());
    while nodes().await > left_alone {}
    (after - before) / WAITING
}

/// Prints the bytes of contenders that wait for a mutex, for a read lock, and for a write lock.
async fn locks(client: &Client) {
    let path = unique_path("mutex");
    let mutex = InterProcessMutex::new(client, &path).expect("a mutex");
    let held = mutex.acquire().await.expect("the lock");
    let of_mutex = waiting(client, &path, || {
        let mutex = mutex.clone();
        async move { drop(mutex.acquire().await) }
    });
    let of_mutex = of_mutex.await;
    held.release().await.expect("released");

    let path = unique_path("read-write");
    let lock = InterProcessReadWriteLock::new(client, &path).expect("a lock");
    let held = lock.write().acquire().await.expect("the lock");
    let of_reader = waiting(client, &path, || {
        let lock = lock.read();
        async move { drop(lock.acquire().await) }
    });
    let of_reader = of_reader.await;
    let of_writer = waiting(client, &path, || {
        let lock = lock.write();
        async move { drop(lock.acquire().await) }
    });
    let of_writer = of_writer.await;
    held.release().await.expect("released");
    println!("memory, {WAITING} that wait for a lock: bytes each, including the waiting task");
    println!("    mutex {of_mutex}, read lock {of_reader}, write lock {of_writer}");
}

/// Prints the bytes of contenders that wait for a permit.
async fn permits(client: &Client) {
    let path = unique_path("semaphore");
    let semaphore = InterProcessSemaphore::new(client, &path, 1).expect("a semaphore");
    let held = semaphore.acquire(1).await.expect("a permit");
    let line = format!("{path}/locks");
    let of_semaphore = waiting(client, &line, || {
        let semaphore = semaphore.clone();
        async move { drop(semaphore.acquire(1).await) }
    });
    println!("    semaphore {}", of_semaphore.await);
    held.release().await.expect("released");
}

/// Creates a tree, in transactions because single creates would take long.
async fn plant(client: &Client, root: &str) {
    client.create(root, DATA, CreateMode::Persistent).await.expect("created");
    for dir in 0..CACHED / 100 {
        let dir = format!("{root}/dir-{dir:04}");
        let leaf = |transaction: zookeeper_recipes::Transaction, leaf| {
            transaction.create(&format!("{dir}/leaf-{leaf:04}"), DATA, CreateMode::Persistent)
        };
        let transaction = client.transaction().create(&dir, DATA, CreateMode::Persistent);
        (1..100).fold(transaction, leaf).commit().await.expect("created");
    }
}

/// Prints how many bytes a node of a cache takes besides its path and data. The aim is at most 200.
async fn cached(client: &Client) {
    let root = unique_path("memory");
    plant(client, &root).await;
    // The first cache allocates what all share, which grows with the first requests.
    drop(Cache::tree(client, &root).start().await.expect("a cache"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = dhat::HeapStats::get().curr_bytes;
    let cache = Cache::tree(client, &root).start().await.expect("a cache");
    let after = dhat::HeapStats::get().curr_bytes;
    let now = cache.snapshot();
    let payload: usize = now.iter().map(|node| node.path().len() + node.value().map_or(0, Vec::len)).sum();
    println!(
        "memory, cache of {} nodes: {} bytes each besides path and data",
        now.len(),
        (after - before - payload) / now.len()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let server = ZooKeeper::shared().await;
    let client = Client::builder(server.connect_string()).session_timeout(Duration::from_secs(30)).connect();
    let client = client.await.expect("a client");
    let path = unique_path("memory");
    // The first contenders allocate what all share.
    let first = wait_for_turn(&client, &path, 10).await;
    let before = dhat::HeapStats::get().curr_bytes;
    let waiting = wait_for_turn(&client, &path, WAITING).await;
    let after = dhat::HeapStats::get().curr_bytes;
    println!("memory, {WAITING} waiting contenders: {} bytes each", (after - before) / WAITING);
    drop((first, waiting));
    locks(&client).await;
    permits(&client).await;
    cached(&client).await;
    client.close().await.expect("closed");
}
