//! `InterProcessMutex`.

use std::time::Instant;

use futures::future::join_all;
use zookeeper_recipes::mutex::InterProcessMutex;

use super::{Column, connect, timed};

async fn mutex(addr: &str, dir: &str) -> InterProcessMutex {
    InterProcessMutex::new(&connect(addr).await, dir).expect("a good path")
}

async fn cycle(mutex: &InterProcessMutex) {
    mutex.acquire().await.expect("the lock").release().await.expect("released");
}

pub(crate) fn free(addr: &str, dir: &str, cycles: u64) -> Column {
    Column::on_tokio(mutex(addr, dir), move |mutex| async move { timed(cycles, || cycle(&mutex)).await })
}

/// A client and a task for each contender.
pub(crate) fn contended(addr: &str, dir: &str, contenders: usize, turns: u64) -> Column {
    let mutexes = join_all((0..contenders).map(|_| mutex(addr, dir)));
    Column::on_tokio(mutexes, move |mutexes| async move {
        let begun = Instant::now();
        let work = mutexes.into_iter().map(|mutex| {
            tokio::spawn(async move {
                for _ in 0..turns {
                    cycle(&mutex).await;
                }
            })
        });
        join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
        vec![begun.elapsed() / u32::try_from(turns * contenders as u64).expect("few")]
    })
}
