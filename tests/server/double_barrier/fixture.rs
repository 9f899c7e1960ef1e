//! Shared by the tests of the barriers: helpers for members.

use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::double_barrier::DoubleBarrier;

pub(crate) use crate::fixture::*;
use crate::support::within;

pub(crate) fn member(client: &Client, path: &str, threshold: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, path, threshold).expect("good options")
}

/// So many members with a client each.
pub(crate) async fn members(fixture: &Fixture, count: usize, threshold: usize) -> Vec<DoubleBarrier> {
    let clients = join_all((0..count).map(|_| fixture.client())).await;
    clients.iter().map(|client| member(client, &fixture.path, threshold)).collect()
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
