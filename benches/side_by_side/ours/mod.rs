//! This library.

pub(crate) mod barrier;
pub(crate) mod latch;
pub(crate) mod mutex;
pub(crate) mod queue;

use std::time::{Duration, Instant};

use zookeeper_recipes::Client;

use super::Column;

const SESSION: Duration = Duration::from_secs(30);

async fn connect(addr: &str) -> Client {
    Client::builder(addr).session_timeout(SESSION).connect().await.expect("a client")
}

pub(crate) fn exists(addr: &str, path: &str, cycles: u64) -> Column {
    let path = path.to_owned();
    Column::on_tokio(connect(addr), move |client| {
        let path = path.clone();
        async move {
            let mut times = Vec::new();
            for _ in 0..cycles {
                let begun = Instant::now();
                assert!(client.exists(&path).await.expect("an answer").is_some());
                times.push(begun.elapsed());
            }
            times
        }
    })
}
