//! Measures a PartitionAssigner on one machine and a real server, and compares it with kazoo's `SetPartitioner`.
//!
//! `cargo bench --features integration --bench partition_assigner`.
//!
//! First: a thousand members and ten thousand partitions. The aim is two seconds from a change until every partition is
//! worked on again. For the start, the limit is a bare socket that writes the same nodes: frames written by hand, with
//! many in flight. The largest node and listing must be below a megabyte, which servers accept by default.
//!
//! Then ten and a hundred members and a hundred partitions, for both libraries: how long until all is settled, for how
//! long no member works on a partition when a member joins or leaves, and how many packets the server receives.
//! kazoo's members are threads of one process; its `time_boundary` is the quiet time of ours, 200 ms. Needs python3.

mod beside;
mod board;
mod cluster;
mod kazoo;
#[allow(dead_code)] // it is shared
#[path = "../shared/pipelined.rs"]
mod pipelined;
#[path = "../../tests/server/interop/python.rs"]
mod python;
mod scale;
#[allow(dead_code)]
#[path = "../side_by_side/bare/socket.rs"]
mod socket;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use self::support::ZooKeeper;

/// How much is measured.
struct Size {
    members: usize,
    partitions: u32,
    /// How often a member joins and leaves.
    rounds: usize,
    /// The sizes at which both libraries are measured.
    beside: &'static [usize],
}

/// With cargo's flag. Without it, this only tests that the benchmark works.
const FULL: Size = Size { members: 1_000, partitions: 10_000, rounds: 5, beside: &[10, 100] };
const TRIAL: Size = Size { members: 20, partitions: 100, rounds: 1, beside: &[3] };

/// The default of the recipe.
const QUIET: Duration = Duration::from_millis(200);

/// Returns the median and the worst as text.
fn times(mut all: Vec<Duration>) -> String {
    all.sort_unstable();
    let (Some(median), Some(worst)) = (all.get(all.len() / 2), all.last()) else { return "-".to_owned() };
    format!("{:.0} ms, worst {:.0} ms of {}", median.as_secs_f64() * 1e3, worst.as_secs_f64() * 1e3, all.len())
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let size = if std::env::args().any(|arg| arg == "--bench") { FULL } else { TRIAL };
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    // No other client sends packets to it.
    let server = ZooKeeper::start().await;
    if only != "kazoo" {
        scale::measure(&server, &size).await;
    }
    if only != "scale" {
        for &members in size.beside {
            beside::measure(&server, members, size.rounds).await;
        }
    }
}
