//! `DoubleBarrier`.

use std::sync::Arc;

use futures::future::join_all;
use zookeeper_recipes::double_barrier::DoubleBarrier;

use super::{Column, connect, timed};

async fn barrier(addr: &str, dir: &str, members: usize) -> DoubleBarrier {
    DoubleBarrier::new(&connect(addr).await, dir, members).expect("a barrier")
}

async fn round(barrier: &DoubleBarrier) {
    barrier.enter().await.expect("in");
    barrier.leave().await.expect("out");
}

/// Runs all members in one task.
pub(crate) fn rounds(addr: &str, dir: &str, members: usize, cycles: u64) -> Column {
    let all = async { Arc::new(join_all((0..members).map(|_| barrier(addr, dir, members))).await) };
    Column::on_tokio(all, move |all| async move { timed(cycles, || join_all(all.iter().map(round))).await })
}
