//! This library.

pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod queue;

use std::time::Duration;

use zookeeper_recipes::Client;

use super::Column;
use super::measure::timed;

const SESSION: Duration = Duration::from_secs(30);

async fn connect(addr: &str) -> Client {
    Client::builder(addr).session_timeout(SESSION).connect().await.expect("a client")
}

pub(crate) fn exists(addr: &str, path: &str, cycles: u64) -> Column {
    let path = path.to_owned();
    Column::on_tokio(connect(addr), move |client| {
        let path = path.clone();
        async move {
            let exists = || async {
                let found = client.exists(&path).await.expect("an answer");
                assert!(found.is_some());
            };
            timed(cycles, exists).await
        }
    })
}
