//! A cache of ten thousand nodes, and of a hundred thousand, beside a bare socket that reads the same on the same real
//! server: the first reading, the changes, and the comparison after a reconnect.
//!
//! `cargo bench --features integration --bench cache`. The bare socket is the limit: frames written by hand on a
//! blocking socket, the same requests, as many under way, nothing decoded and nothing kept. The two take turns; the
//! ratio is the median of the rounds, and the aim is 0.8. The bytes on the heap are in the benchmark `memory`.

#[allow(dead_code)]
#[path = "side_by_side/bare/socket.rs"]
mod socket;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use zookeeper_recipes::cache::{Cache, Change, Changes};
use zookeeper_recipes::{Client, ConnectionState};

use self::socket::{PERSISTENT, Socket};
use self::support::{Fault, OpCode, Proxy, ZooKeeper, unique_path, within};

const SIZES: [usize; 2] = [10_000, 100_000];
const A_DIRECTORY: usize = 100;
const DATA: [u8; 100] = [b'x'; 100];
/// As many requests as a cache has under way.
const UNDER_WAY: usize = 512;
const PATIENCE: Duration = Duration::from_secs(120);

/// Carries out requests on a bare socket, so many at a time: the next ones are written when half of them are answered.
fn pipelined<R>(socket: &mut Socket, requests: &[R], add: impl Fn(&mut Socket, &R)) {
    let mut parts = requests.chunks(UNDER_WAY / 2);
    let mut under_way = 0;
    let mut send = |socket: &mut Socket| {
        let part = parts.next().unwrap_or_default();
        part.iter().for_each(|request| add(socket, request));
        if !part.is_empty() {
            socket.send();
        }
        part.len()
    };
    let mut first = send(socket);
    while first > 0 {
        under_way += send(socket);
        (0..first).for_each(|_| drop(socket.answer().expect("there is such a node")));
        first = std::mem::take(&mut under_way);
    }
}

/// A tree on the server.
struct Tree {
    root: String,
    /// The root and its children.
    dirs: Vec<String>,
    all: Vec<String>,
}

impl Tree {
    fn plant(socket: &mut Socket, size: usize) -> Tree {
        let root = unique_path("cache");
        let dirs: Vec<String> = (0..size / A_DIRECTORY).map(|dir| format!("{root}/dir-{dir:04}")).collect();
        let leaves = dirs.iter().flat_map(|dir| (1..A_DIRECTORY).map(move |leaf| format!("{dir}/leaf-{leaf:04}")));
        let dirs: Vec<String> = std::iter::once(root.clone()).chain(dirs.iter().cloned()).collect();
        let all: Vec<String> = dirs.iter().cloned().chain(leaves).collect();
        pipelined(socket, &all, |socket, path| socket.add_create(path, &DATA, PERSISTENT));
        Tree { root, dirs, all }
    }

    /// One in a hundred.
    fn some(&self) -> Vec<String> {
        self.all.iter().rev().step_by(100).cloned().collect()
    }
}

fn set(socket: &mut Socket, paths: &[String]) {
    pipelined(socket, paths, |socket, path| socket.add_set(path, &DATA));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a row: what the bare socket took, what the cache took, and the median of the ratios of the rounds.
fn tell(size: usize, what: &str, bare: &[Duration], ours: &[Duration], more: &str) {
    let millis = |times: &[Duration]| median(times.iter().map(|time| time.as_secs_f64() * 1e3).collect());
    let ratio = median(bare.iter().zip(ours).map(|(bare, ours)| bare.as_secs_f64() / ours.as_secs_f64()).collect());
    let (bare, ours) = (millis(bare), millis(ours));
    println!("{size:>7} | {what:<28} | {bare:>8.1} ms | {ours:>8.1} ms | {ratio:>5.2} | {more}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

async fn start(client: &Client, tree: &Tree) -> Cache<Vec<u8>> {
    let cache = within("the first snapshot", PATIENCE, Cache::tree(client, &tree.root).start()).await;
    let cache = cache.expect("a cache");
    assert_eq!(cache.snapshot().len(), tree.all.len());
    cache
}

async fn initial_load(client: &Client, socket: &mut Socket, tree: &Tree, rounds: usize) {
    let (mut bare, mut ours, mut requests) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        bare.push(timed(|| {
            pipelined(socket, &tree.all, |socket, path| socket.add_get(path, false));
            pipelined(socket, &tree.dirs, |socket, path| socket.add_list(path));
        }));
        let before = client.request_counts();
        let began = Instant::now();
        let cache = start(client, tree).await;
        ours.push(began.elapsed());
        requests = (client.request_counts() - before).total();
        drop(cache);
        // The cache is dropped in the background.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let more = format!("{requests} requests, {} for the bare socket", tree.all.len() + tree.dirs.len());
    tell(tree.all.len(), "first reading", &bare, &ours, &more);
}

/// Takes changes until each of so many nodes was reported.
async fn take(changes: &mut Changes<Vec<u8>>, mut left: usize) {
    while left > 0 {
        match within("a change", PATIENCE, changes.next()).await.expect("the cache lives") {
            Change::Changed { .. } => left -= 1,
            other => panic!("{other:?}"),
        }
    }
}

/// Every node is written once. The bare socket's column is its writes alone, while no cache follows them.
async fn events(client: &Client, mut socket: Socket, tree: &Tree, rounds: usize) -> Socket {
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(timed(|| set(&mut socket, &tree.all)));
        let cache = start(client, tree).await;
        let mut changes = cache.changes();
        let paths = tree.all.clone();
        let began = Instant::now();
        let writing = tokio::task::spawn_blocking(move || {
            set(&mut socket, &paths);
            socket
        });
        take(&mut changes, tree.all.len()).await;
        ours.push(began.elapsed());
        socket = writing.await.expect("no panic");
    }
    let took = median(ours.iter().map(Duration::as_secs_f64).collect());
    let more = format!("{:.0} events a second, all reported", tree.all.len() as f64 / took);
    tell(tree.all.len(), "each node written once", &bare, &ours, &more);
    socket
}

/// One node in a hundred is written while the client is cut off. Both go through the proxy.
async fn comparison(client: &Client, proxy: &Proxy, socket: &mut Socket, tree: &Tree, rounds: usize) {
    let (mut bare, mut ours, mut counts) = (Vec::new(), Vec::new(), (0, 0));
    let some = tree.some();
    let cache = start(client, tree).await;
    for _ in 0..rounds {
        let mut through = Socket::connect(&proxy.connect_string());
        bare.push(timed(|| {
            pipelined(&mut through, &tree.all, |socket, path| socket.add_exists(path));
            pipelined(&mut through, &some, |socket, path| socket.add_get(path, false));
        }));
        drop(through);
        let (mut states, mut changes) = (client.connection_states(), cache.changes());
        proxy.set(Fault::Refuse).await;
        until(&mut states, ConnectionState::Suspended).await;
        set(socket, &some);
        proxy.forget_requests();
        proxy.set(Fault::Pass).await;
        until(&mut states, ConnectionState::Reconnected).await;
        let began = Instant::now();
        take(&mut changes, some.len()).await;
        assert!(matches!(within("the end", PATIENCE, changes.next()).await, Some(Change::Synced)));
        ours.push(began.elapsed());
        counts = (proxy.request_count(OpCode::Exists), proxy.request_count(OpCode::GetData));
    }
    let more = format!("{} stats, {} bodies", counts.0, counts.1);
    tell(tree.all.len(), "comparison, 1 % was written", &bare, &ours, &more);
}

async fn until(states: &mut zookeeper_recipes::ConnectionStates, wanted: ConnectionState) {
    use futures::StreamExt;
    let come = async { while states.next().await.expect("an open client").expect("in time") != wanted {} };
    within(&format!("{wanted}"), PATIENCE, come).await;
}

#[tokio::main]
async fn main() {
    // Without cargo's flag this is a test that it works.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let server = ZooKeeper::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let connect = |to: String| Client::builder(to).session_timeout(Duration::from_secs(30)).connect();
    let direct = connect(server.connect_string()).await.expect("a client");
    let proxied = connect(proxy.connect_string()).await.expect("a client");
    let mut socket = Socket::connect(&server.connect_string());
    println!("{:>7} | {:<28} | {:>11} | {:>11} | {:>5} |", "nodes", "", "bare socket", "ours", "ratio");
    for size in if is_bench { &SIZES[..] } else { &[1_000] } {
        let tree = Tree::plant(&mut socket, *size);
        let rounds = if is_bench { 7 } else { 1 };
        initial_load(&direct, &mut socket, &tree, rounds).await;
        socket = events(&direct, socket, &tree, rounds).await;
        comparison(&proxied, &proxy, &mut socket, &tree, rounds).await;
    }
    direct.close().await.expect("closed");
    proxied.close().await.expect("closed");
}
