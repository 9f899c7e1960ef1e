//! Both libraries with the same numbers of members and partitions, on the same server.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::board::Gaps;
use crate::cluster::{Cluster, connect};
use crate::kazoo::Kazoo;
use crate::support::{ZooKeeper, unique_path};

const PARTITIONS: u32 = 100;

/// What one change costs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Until every partition is worked on, and nothing moves any more.
    pub(crate) settled: Duration,
    pub(crate) gaps: Gaps,
    pub(crate) packets: u64,
    pub(crate) requests: Option<u64>,
}

/// Returns how many packets the server has received.
async fn packets(server: &ZooKeeper) -> u64 {
    server.mntr().await["zk_packets_received"].parse().expect("a number")
}

pub(crate) async fn measure(server: &ZooKeeper, members: usize, rounds: usize) {
    println!("\n{members} members, {PARTITIONS} partitions; medians of {rounds}");
    println!(
        "{:<26} | {:>10} | {:>9} | {:>13} | {:>13} | {:>7} | {:>8}",
        "", "settled", "stopped", "longest gap", "sum of gaps", "packets", "requests"
    );
    let ours = ours(server, members, rounds).await;
    ours.iter().for_each(|(what, costs)| row(&format!("ours: {what}"), costs.clone()));
    match kazoo(server, members, rounds).await {
        Ok(kazoo) => kazoo.iter().for_each(|(what, costs)| row(&format!("kazoo: {what}"), costs.clone())),
        Err(why) => println!("kazoo: {why}"),
    }
}

type Rows = [(&'static str, Vec<Cost>); 3];

/// Prints the change whose time is the median.
fn row(what: &str, mut costs: Vec<Cost>) {
    costs.sort_by_key(|cost| cost.settled);
    let Some(Cost { settled, gaps, packets, requests }) = costs.get(costs.len() / 2) else { return };
    let millis = |time: &Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    println!(
        "{what:<26} | {:>10} | {:>9} | {:>13} | {:>13} | {packets:>7} | {:>8}",
        millis(settled),
        gaps.partitions,
        millis(&gaps.longest),
        millis(&gaps.sum),
        requests.map_or("-".to_owned(), |requests| requests.to_string()),
    );
}

/// Every member has a client of its own and may lead.
async fn ours(server: &ZooKeeper, members: usize, rounds: usize) -> Rows {
    let to = server.connect_string();
    let mut cluster = Cluster::new(unique_path("ours"), PARTITIONS);
    let clients = join_all((1..members).map(|_| connect(&to))).await;
    let joiner = connect(&to).await;
    cluster.clients = clients.iter().chain([&joiner]).cloned().collect();
    let (mut came, mut left) = (Vec::new(), Vec::new());
    let started = cost(server, &mut cluster, async |cluster| cluster.join(clients, true).await).await;
    for _ in 0..rounds {
        came.push(cost(server, &mut cluster, async |cluster| cluster.join([joiner.clone()], true).await).await);
        left.push(cost(server, &mut cluster, async |cluster| cluster.leave().await).await);
    }
    cluster.close().await;
    [("start", vec![started]), ("a member joins", came), ("a member leaves", left)]
}

async fn cost(server: &ZooKeeper, cluster: &mut Cluster, change: impl AsyncFnOnce(&mut Cluster)) -> Cost {
    cluster.board.take_gaps();
    let (before, sent, began) = (packets(server).await, cluster.sent(), Instant::now());
    change(cluster).await;
    cluster.shared().await;
    let settled = began.elapsed();
    let requests = Some((cluster.sent() - sent).requests);
    Cost { settled, gaps: cluster.board.take_gaps(), packets: packets(server).await - before, requests }
}

async fn kazoo(server: &ZooKeeper, members: usize, rounds: usize) -> Result<Rows, String> {
    let mut kazoo = Kazoo::start(&server.connect_string(), &unique_path("kazoo"), members - 1, PARTITIONS);
    let mut step = async |order: &str| {
        let before = packets(server).await;
        let (settled, gaps) = kazoo.step(order).await?;
        Ok::<_, String>(Cost { settled, gaps, packets: packets(server).await - before, requests: None })
    };
    let (mut came, mut left) = (Vec::new(), Vec::new());
    let started = step("start").await?;
    for _ in 0..rounds {
        came.push(step("join").await?);
        left.push(step("leave").await?);
    }
    Ok([("start", vec![started]), ("a member joins", came), ("a member leaves", left)])
}
