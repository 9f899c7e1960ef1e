//! Compares a cache of ten thousand nodes, and of a hundred thousand, with a bare socket that reads the same on the
//! same real server, and with Curator's cache if that is installed: the first reading, the changes, and the comparison
//! after a reconnect.
//!
//! `cargo bench --features integration --bench cache`. The bare socket is the limit: frames written by hand on a
//! blocking socket, the same requests, as many in flight, nothing decoded and nothing kept. The three take turns. Each
//! ratio is the median over the rounds; the aim against the bare socket is 0.8. The first round of the first reading is
//! not counted, because the JVM has not yet compiled what it runs. A comparison is timed from the reconnect: ours until
//! `Synced`, and Curator's, which reports no such end, until the last change. The benchmark `memory` measures the heap.

mod curator;
#[path = "../shared/follower.rs"]
mod follower;
#[path = "../shared/pipelined.rs"]
mod pipelined;
#[allow(dead_code)]
#[path = "../side_by_side/bare/socket.rs"]
mod socket;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use zookeeper_recipes::cache::{Cache, Change, Changes};
use zookeeper_recipes::{Client, ConnectionState};

use self::curator::Curator;
use self::follower::Follower;
use self::pipelined::{median, pipelined, timed};
use self::socket::{PERSISTENT, Socket};
use self::support::{Fault, OpCode, Proxy, ZooKeeper, unique_path, within};

const SIZES: [usize; 2] = [10_000, 100_000];
/// `CuratorCache` cannot read more: "Attempt to register more than 65535 parties" (5.4.0). Larger trees leave it out.
const CURATORS_MOST: usize = 65_535;
const A_DIRECTORY: usize = 100;
const DATA: [u8; 100] = [b'x'; 100];
const PATIENCE: Duration = Duration::from_secs(120);

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

    /// Returns one path in a hundred.
    fn some(&self) -> Vec<String> {
        self.all.iter().rev().step_by(100).cloned().collect()
    }
}

fn set(socket: &mut Socket, paths: &[String]) {
    pipelined(socket, paths, |socket, path| socket.add_set(path, &DATA));
}

/// The times of each column in the rounds of one row.
#[derive(Default)]
struct Times {
    bare: Vec<Duration>,
    ours: Vec<Duration>,
    curators: Vec<Duration>,
}

impl Times {
    /// Prints the row: the median of each column, and the medians of the ratios in each round.
    fn tell(&self, size: usize, what: &str, more: &str) {
        let cell = |times: &[Duration]| match millis(times) {
            Some(millis) => format!("{millis:>8.1} ms"),
            None => format!("{:>11}", "-"),
        };
        let ratio = |others: &[Duration]| {
            let ratios = others.iter().zip(&self.ours).map(|(other, ours)| other.as_secs_f64() / ours.as_secs_f64());
            median(ratios.collect()).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
        };
        let Times { bare, ours, curators } = self;
        print!("{size:>7} | {what:<28} | {} | {} | {}", cell(bare), cell(ours), cell(curators));
        println!(" | {:>5} | {:>7} | {more}", ratio(bare), ratio(curators));
    }
}

fn millis(times: &[Duration]) -> Option<f64> {
    median(times.iter().map(|time| time.as_secs_f64() * 1e3).collect())
}

async fn start(client: &Client, tree: &Tree) -> Cache<Vec<u8>> {
    let cache = within("the first snapshot", PATIENCE, Cache::tree(client, &tree.root).start()).await;
    let cache = cache.expect("a cache");
    assert_eq!(cache.snapshot().len(), tree.all.len());
    cache
}

async fn initial_load(client: &Client, socket: &mut Socket, curator: &mut Option<Curator>, tree: &Tree, rounds: usize) {
    let (mut times, mut requests) = (Times::default(), 0);
    for round in 0..=rounds {
        if round == 1 {
            times = Times::default();
        }
        times.bare.push(timed(|| {
            pipelined(socket, &tree.all, |socket, path| socket.add_get(path, false));
            pipelined(socket, &tree.dirs, |socket, path| socket.add_list(path));
        }));
        let before = client.request_counts();
        let began = Instant::now();
        let cache = start(client, tree).await;
        times.ours.push(began.elapsed());
        requests = (client.request_counts() - before).total();
        drop(cache);
        // A dropped cache ends in the background.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let load = format!("load {} {}", tree.root, tree.all.len());
        times.curators.extend(curator.as_mut().map(|curator| curator.ask(&load)));
    }
    let more = format!("{requests} requests, {} for the bare socket", tree.all.len() + tree.dirs.len());
    times.tell(tree.all.len(), "first reading", &more);
}

/// Takes changes until this many nodes were reported.
async fn take(changes: &mut Changes<Vec<u8>>, mut left: usize) {
    while left > 0 {
        match within("a change", PATIENCE, changes.next()).await.expect("the cache lives") {
            Change::Updated { .. } => left -= 1,
            other => panic!("{other:?}"),
        }
    }
}

/// Writes every node once. In the first row, the bare socket only writes, and no cache follows. In the second row,
/// another bare socket follows the writes and reads each node by itself.
async fn events(
    client: &Client,
    server: &str,
    mut socket: Socket,
    curator: &mut Option<Curator>,
    tree: &Tree,
    rounds: usize,
) -> Socket {
    let (mut times, mut followed, mut reads) = (Times::default(), Times::default(), 0);
    for _ in 0..rounds {
        times.bare.push(timed(|| set(&mut socket, &tree.all)));
        let mut follower = Follower::start(server, &tree.root);
        followed.bare.push(timed(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| follower.take(tree.all.len()));
                set(&mut socket, &tree.all);
            });
        }));
        drop(follower);
        let cache = start(client, tree).await;
        let mut changes = cache.changes();
        let paths = tree.all.clone();
        let before = client.request_counts();
        let began = Instant::now();
        let writing = tokio::task::spawn_blocking(move || {
            set(&mut socket, &paths);
            socket
        });
        take(&mut changes, tree.all.len()).await;
        times.ours.push(began.elapsed());
        reads = (client.request_counts() - before).reads;
        socket = writing.await.expect("no panic");
        drop((changes, cache));
        if let Some(curator) = curator {
            curator.ask(&format!("follow {} {}", tree.root, tree.all.len()));
            let began = Instant::now();
            set(&mut socket, &tree.all);
            curator.ask(&format!("changes {}", tree.all.len()));
            times.curators.push(began.elapsed());
            curator.ask("forget");
        }
    }
    let rate = |times: &[Duration]| {
        let rate = millis(times).map(|millis| tree.all.len() as f64 / millis * 1e3);
        rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"))
    };
    let more = format!("events a second: {}, Curator's {}; reads: {reads}", rate(&times.ours), rate(&times.curators));
    times.tell(tree.all.len(), "each node written once", &more);
    followed.ours = times.ours;
    followed.tell(tree.all.len(), "the same, the socket follows", "an event and a read each");
    socket
}

/// Writes one node in a hundred while the client is cut off. All go through proxies; Curator has one of its own,
/// because only one client is cut off at a time.
async fn comparison(
    client: &Client,
    proxies: [&Proxy; 2],
    socket: &mut Socket,
    curator: &mut Option<Curator>,
    tree: &Tree,
    rounds: usize,
) {
    let [proxy, curators] = proxies;
    let (mut times, mut counts, mut curators_bodies) = (Times::default(), (0, 0), 0);
    let some = tree.some();
    if let Some(curator) = curator {
        curator.ask(&format!("follow {} {}", tree.root, tree.all.len()));
    }
    let cache = start(client, tree).await;
    for _ in 0..rounds {
        let mut through = Socket::connect(&proxy.connect_string());
        times.bare.push(timed(|| {
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
        times.ours.push(began.elapsed());
        counts = (proxy.request_count(OpCode::Exists), proxy.request_count(OpCode::GetData));
        drop(changes);
        if let Some(curator) = curator {
            // First come the changes of our round.
            curator.ask(&format!("changes {}", some.len()));
            curators.set(Fault::Refuse).await;
            curator.ask("suspended");
            set(socket, &some);
            curators.forget_requests();
            curators.set(Fault::Pass).await;
            times.curators.push(curator.ask(&format!("compared {}", some.len())));
            curators_bodies = curators.request_count(OpCode::GetData);
        }
    }
    let mut more = format!("{} stats, {} bodies", counts.0, counts.1);
    if let Some(curator) = curator {
        curator.ask("forget");
        more += &format!("; Curator's {curators_bodies} bodies");
    }
    times.tell(tree.all.len(), "comparison, 1 % was written", &more);
}

async fn until(states: &mut zookeeper_recipes::ConnectionStates, wanted: ConnectionState) {
    use futures::StreamExt;
    let come = async { while states.next().await.expect("an open client").expect("in time") != wanted {} };
    within(&format!("{wanted}"), PATIENCE, come).await;
}

#[tokio::main]
async fn main() {
    // Without cargo's flag, this only tests that the benchmark works.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let server = ZooKeeper::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let curators = Proxy::start(server.addr()).await;
    let connect = |to: String| Client::builder(to).session_timeout(Duration::from_secs(30)).connect();
    let direct = connect(server.connect_string()).await.expect("a client");
    let proxied = connect(proxy.connect_string()).await.expect("a client");
    let mut socket = Socket::connect(&server.connect_string());
    let two = if is_bench { Curator::start([server.connect_string(), curators.connect_string()]) } else { None };
    let (mut curator, mut cut) = two.map(|[one, two]| (one, two)).unzip();
    print!("{:>7} | {:<28} | {:>11} | {:>11} | {:>11}", "nodes", "", "bare socket", "ours", "Curator's");
    println!(" | {:>5} | {:>7} |", "ratio", "Curator");
    for size in if is_bench { &SIZES[..] } else { &[1_000] } {
        let tree = Tree::plant(&mut socket, *size);
        let rounds = if is_bench { 7 } else { 1 };
        if tree.all.len() > CURATORS_MOST {
            (curator, cut) = (None, None);
        }
        initial_load(&direct, &mut socket, &mut curator, &tree, rounds).await;
        socket = events(&direct, &server.connect_string(), socket, &mut curator, &tree, rounds).await;
        comparison(&proxied, [&proxy, &curators], &mut socket, &mut cut, &tree, rounds).await;
    }
    direct.close().await.expect("closed");
    proxied.close().await.expect("closed");
}
