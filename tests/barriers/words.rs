//! What the tests of the barriers share: words for what members do.

use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::double_barrier::DoubleBarrier;

pub(crate) use crate::scene::*;
use crate::support::within;

pub(crate) fn member(client: &Client, path: &str, threshold: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, path, threshold).expect("good options")
}

/// So many members with a client each.
pub(crate) async fn members(scene: &Scene, count: usize, threshold: usize) -> Vec<DoubleBarrier> {
    let clients = join_all((0..count).map(|_| scene.client())).await;
    clients.iter().map(|client| member(client, &scene.path, threshold)).collect()
}

pub(crate) async fn enter_all(members: &[DoubleBarrier]) {
    for entered in within("all enter", SOON, join_all(members.iter().map(DoubleBarrier::enter))).await {
        entered.expect("entered");
    }
}

pub(crate) async fn leave_all(members: &[DoubleBarrier]) {
    for left in within("all leave", SOON, join_all(members.iter().map(DoubleBarrier::leave))).await {
        left.expect("left");
    }
}

/// It is not done after a while; it goes on.
pub(crate) async fn goes_on<F: Future + Unpin>(what: &str, future: &mut F) {
    assert!(tokio::time::timeout(A_WHILE, future).await.is_err(), "{what}: it is done already");
}
