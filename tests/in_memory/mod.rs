//! What the tests on an ensemble in memory share. They run under a paused clock, and their requests are counted.

// Every test binary compiles this module for itself and uses only a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod log;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::testing::{Happening, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorPolicy};

/// The session timeout of the clients.
pub const T: Duration = Duration::from_secs(10);
/// How long anything may take that is only a matter of requests and answers.
pub const SOON: Duration = Duration::from_secs(1);

/// A client under the error policy given.
pub async fn client_with(server: &TestingServer, policy: ErrorPolicy) -> Client {
    let client = Client::builder_for(server).session_timeout(T).error_policy(policy);
    client.connect().await.expect("a client")
}

/// `future`, which must be done within `limit` of the paused clock.
pub async fn within<F: Future>(what: &str, limit: Duration, future: F) -> F::Output {
    let done = tokio::time::timeout(limit, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Lets everything happen that is under way, and asserts that `future` is not done by then; it goes on afterwards.
pub async fn still_pending<F: Future + Unpin>(what: &str, future: &mut F) {
    let done = tokio::time::timeout(SOON, future).await;
    assert!(done.is_err(), "{what}: it is done already");
}

/// Polls a future up to so many times, each time when it asked for it, then drops it; its output, if it was ready by then.
/// One that asks no more is dropped after a while.
pub async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = times;
    let polling = std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(SOON, polling).await.ok().flatten()
}

/// How long a future takes, and what comes of it.
pub async fn timed<F: Future>(future: F) -> (Duration, F::Output) {
    let future = pin!(future);
    let begun = Instant::now();
    let output = future.await;
    (begun.elapsed(), output)
}

/// Two nodes that other participants of a line have made there.
pub fn two_nodes(server: &TestingServer, dir: &str, base: &str) -> [String; 2] {
    ["a", "b"].map(|name| {
        let path = format!("{dir}/{name}-{base}");
        server.create_by_hand(&path, "", CreateMode::PersistentSequential).expect("a new node")
    })
}

/// The requests that the clients have handed over since the records were cleared, without what keeps and ends sessions.
pub fn requests(server: &TestingServer) -> Vec<Operation> {
    let records = server.records().into_iter();
    let requests = records.filter_map(|record| match record.what {
        Happening::Request { operation: Operation::Sync | Operation::Close, .. } => None,
        Happening::Request { operation, .. } => Some(operation),
        _ => None,
    });
    requests.collect()
}

/// Waits until the directory has this many children and nobody watches anything.
pub async fn nothing_is_left(server: &TestingServer, dir: &str, others: usize, watches: usize, case: &str) {
    let begun = Instant::now();
    while server.children(dir).len() != others || server.watches() != watches {
        let (children, watching) = (server.children(dir), server.watches());
        assert!(begun.elapsed() < T * 2, "{case}: {watching} watches are left (not {watches}), and {children:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
