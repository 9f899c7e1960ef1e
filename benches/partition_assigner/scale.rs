//! A thousand members, ten thousand partitions.

use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use zookeeper_recipes::Client;

use crate::cluster::{Cluster, connect};
use crate::pipelined::{pipelined, timed};
use crate::socket::{EPHEMERAL, PERSISTENT, Socket};
use crate::support::{ZooKeeper, unique_path};
use crate::{QUIET, Size, times};

/// Members that may lead. Each has a client of its own.
const CANDIDATES: usize = 4;
/// How many of the others share a client.
const A_CLIENT: usize = 50;
/// How many leaders go, one after the other.
const TAKE_OVERS: usize = 3;
/// What servers accept by default.
const MOST_BYTES: usize = 1 << 20;

pub(crate) async fn measure(server: &ZooKeeper, size: &Size) {
    let to = server.connect_string();
    println!(
        "{} members, {} partitions; times include the quiet time of {QUIET:?} of each decision",
        size.members, size.partitions
    );
    let mut largest = Largest::default();
    after_one(&to, size, &mut largest).await;
    together(&to, size, &mut largest).await;
    println!("largest node {} bytes, largest listing {} bytes", largest.node, largest.listing);
    assert!(largest.node < MOST_BYTES && largest.listing < MOST_BYTES, "{largest:?}");
}

/// Clients of candidates, one each, and of other members, which share some.
async fn clients(to: &str, size: &Size) -> (Vec<Client>, Vec<Client>) {
    let candidates = join_all((0..CANDIDATES).map(|_| connect(to))).await;
    (candidates, join_all((0..(size.members - CANDIDATES).div_ceil(A_CLIENT)).map(|_| connect(to))).await)
}

fn row(what: &str, time: Duration) {
    println!("{what:<44} {:.0} ms", time.as_secs_f64() * 1e3);
}

/// One member has everything when all others join.
async fn after_one(to: &str, size: &Size, largest: &mut Largest) {
    let (candidates, others) = clients(to, size).await;
    let base = unique_path("scale");
    let mut cluster = Cluster::new(base.clone(), size.partitions);
    cluster.clients = candidates.iter().chain(&others).cloned().collect();
    let began = Instant::now();
    cluster.join([candidates[0].clone()], true).await;
    cluster.shared().await;
    row("one member starts: it has all", began.elapsed());
    largest.look(&others[0], &base).await;
    let (began, before) = (Instant::now(), cluster.sent());
    cluster.join((1..size.members).map(|number| others[number % others.len()].clone()), false).await;
    cluster.shared().await;
    row("all others join: shared", began.elapsed());
    println!("  {}", cluster.sent() - before);
    largest.look(&others[0], &base).await;
    cluster.close().await;
}

/// All members start at the same time. Then single ones join and leave.
async fn together(to: &str, size: &Size, largest: &mut Largest) {
    let (candidates, others) = clients(to, size).await;
    let base = unique_path("scale");
    let mut cluster = Cluster::new(base.clone(), size.partitions);
    cluster.clients = candidates.iter().chain(&others).cloned().collect();
    let rest = (CANDIDATES..size.members).map(|number| others[number % others.len()].clone());
    let members = candidates.iter().cloned().map(|client| (client, true)).chain(rest.map(|client| (client, false)));
    let began = Instant::now();
    cluster.join_all(members).await;
    row("all start: their nodes are there", began.elapsed());
    cluster.shared().await;
    row("all start: shared", began.elapsed());
    println!("  {}", cluster.sent());
    largest.look(&others[0], &base).await;
    row("bare socket: the same nodes", bare(to, size));

    let (mut came, mut left) = (Vec::new(), Vec::new());
    for round in 0..=size.rounds {
        let (began, before) = (Instant::now(), cluster.sent());
        cluster.leave().await;
        cluster.shared().await;
        left.push(began.elapsed());
        let (began, between) = (Instant::now(), cluster.sent());
        cluster.join([others[0].clone()], false).await;
        cluster.shared().await;
        came.push(began.elapsed());
        if round == size.rounds {
            println!("  the last leave: {}\n  the last join: {}", between - before, cluster.sent() - between);
        }
    }
    println!("{:<44} {}", "a member leaves: shared", times(left));
    println!("{:<44} {}", "a member joins: shared", times(came));

    let mut gone = Vec::new();
    for _ in 0..TAKE_OVERS {
        let began = Instant::now();
        cluster.end_leader().await;
        cluster.shared().await;
        gone.push(began.elapsed());
    }
    let leader = &cluster.members[cluster.leader()].client;
    println!("{:<44} {}", "the leader's session ends: shared", times(gone));
    println!("  the last leader: {}", leader.request_counts());
    largest.look(&others[0], &base).await;
    cluster.close().await;
}

/// The largest node and listing that were seen.
#[derive(Debug, Default)]
struct Largest {
    node: usize,
    listing: usize,
}

impl Largest {
    async fn look(&mut self, client: &Client, base: &str) {
        for dir in ["members", "assignments", "owned", "leader"] {
            let dir = format!("{base}/{dir}");
            let names = client.children(&dir).await.expect("it is there");
            // Each name is preceded by its length.
            self.listing = self.listing.max(names.iter().map(|name| name.len() + 4).sum());
            let read = |name: String| {
                let path = format!("{dir}/{name}");
                async move { client.get(&path).await.map_or(0, |(data, _)| data.len()) }
            };
            let sizes: Vec<usize> = stream::iter(names.into_iter().map(read)).buffered(256).collect().await;
            self.node = sizes.into_iter().fold(self.node, usize::max);
        }
    }
}

/// Writes what members and a leader write for the start: for each member its node, its record, and a transaction that
/// takes all of its partitions.
fn bare(to: &str, size: &Size) -> Duration {
    let base = unique_path("bare");
    let mut socket = Socket::connect(to);
    let dirs = ["members", "assignments", "owned"].map(|dir| format!("{base}/{dir}"));
    socket.create(&base, b"", PERSISTENT);
    dirs.iter().for_each(|dir| drop(socket.create(dir, b"", PERSISTENT)));
    let [members, assignments, owned] = dirs;
    let ids: Vec<String> = (0..size.members).map(|number| format!("member-{number:04}")).collect();
    let each = size.partitions as usize / size.members;
    let names: Vec<String> = (0..each).map(|name| format!("{name:05}")).collect();
    let list = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
    let record = |held: &str| {
        format!(r#"{{"member":"0123456789abcdef","assigned":[{list}],"held":[{held}],"claims":1}}"#).into_bytes()
    };
    let (assigned, taken) = (record(""), record(&list));
    timed(|| {
        pipelined(&mut socket, &ids, |socket, id| {
            socket.add_create(&format!("{members}/{id}~0123456789abcdef"), br#"{"weight":1}"#, EPHEMERAL);
        });
        pipelined(&mut socket, &ids, |socket, id| {
            socket.add_create(&format!("{assignments}/{id}"), &assigned, PERSISTENT);
        });
        pipelined(&mut socket, &ids, |socket, id| {
            socket.add_multi(|multi| {
                multi.set_data(&format!("{assignments}/{id}"), &taken);
                for name in &names {
                    multi.create(&format!("{owned}/{id}-{name}~0123456789abcdef.1"), b"", EPHEMERAL);
                }
            });
        });
    })
}
