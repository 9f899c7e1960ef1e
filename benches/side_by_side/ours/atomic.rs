//! `DistributedAtomicLong`.

use zookeeper_recipes::atomic_long::DistributedAtomicLong;

use super::{Column, connect, timed};

pub(crate) fn add(addr: &str, dir: &str, cycles: u64) -> Column {
    let path = format!("{dir}/value");
    let number = async { DistributedAtomicLong::new(&connect(addr).await, path).expect("a good path") };
    Column::on_tokio(number, move |number| async move {
        timed(cycles, || async { number.add(1).await.expect("added") }).await
    })
}
