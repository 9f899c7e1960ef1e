//! The same requests with the crate `zookeeper-client` alone, without error handling.

pub(crate) mod barrier;
pub(crate) mod mutex;
pub(crate) mod queue;

use std::time::Duration;

use zookeeper as zk;

use super::Column;
use super::measure::timed;

const SESSION: Duration = Duration::from_secs(30);

async fn connect(addr: &str) -> zk::Client {
    zk::Client::connector().with_session_timeout(SESSION).connect(addr).await.expect("a session")
}

pub(crate) fn exists(addr: &str, path: &str, cycles: u64) -> Column {
    let path = path.to_owned();
    Column::on_tokio(connect(addr), move |client| {
        let path = path.clone();
        async move {
            timed(cycles, || async { assert!(client.check_stat(&path).await.expect("an answer").is_some()) }).await
        }
    })
}
