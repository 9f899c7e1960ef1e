//! Three servers, of which the one that serves the holder stops.

use std::time::Duration;

use futures::future::join_all;

use super::fixture::{SOON, acquired, builder, connect, mutex, released};
use crate::support::{Ensemble, Observer, unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_costs_no_waiter_its_turn_and_there_are_never_two_holders() {
    let ensemble = Ensemble::start().await;
    let path = unique_path("cluster");
    let leader = ensemble.leader().await;
    let clients = join_all((0..4).map(|_| connect(builder(&ensemble.connect_string(), Duration::from_secs(6))))).await;
    let held = acquired(&mutex(&clients[0], &path)).await;
    let waiting: Vec<_> = clients[1..]
        .iter()
        .map(|client| {
            let lock = mutex(client, &path);
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    Observer::connect(&ensemble.connect_string()).await.wait_for_children(&path, 4).await;
    let mut token = held.fencing_token();
    ensemble.kill(leader).await;
    ensemble.wait_for_quorum().await;
    within("the holder lets go", SOON * 2, async move { drop(held.release().await) }).await;
    let mut waiting = waiting;
    while !waiting.is_empty() {
        let (next, _, rest) = within("a turn", SOON * 3, futures::future::select_all(waiting)).await;
        let next = next.expect("no panic").expect("held");
        assert!(next.fencing_token() > token);
        token = next.fencing_token();
        // Even if it was lost, releasing the guard lets the next waiter acquire.
        drop(within("it lets go", SOON * 2, next.release()).await);
        waiting = rest;
    }
    ensemble.start_again(leader).await;
    released(acquired(&mutex(&clients[0], &path)).await).await;
}
