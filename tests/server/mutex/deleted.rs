//! Nodes deleted by hand.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::Error;

use super::fixture::{Fixture, SOON, Waiting, acquired, mutex, released};
use crate::support::{unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_is_deleted_is_told_and_the_next_one_holds() {
    let fixture = Fixture::with_directory("own").await;
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let client = fixture.client().await;
    let guard = acquired(&mutex(&client, &fixture.path)).await;
    let waiting = Waiting::behind(&fixture, &mutex(&fixture.client().await, &fixture.path), 1).await;
    let (work, ()) = tokio::join!(guard.run(std::future::pending::<()>()), async {
        tokio::time::sleep(super::fixture::A_WHILE).await;
        fixture.observer.delete(guard.node_path()).await;
    });
    work.expect_err("the work is dropped");
    assert!(!guard.is_held());
    let late = client.transaction().check(&guard.fence()).set_data(&report, b"late", None);
    assert_eq!(late.commit().await.expect_err("its node is gone").kind(), ErrorKind::Fenced);
    released(waiting.turn().await).await;
    let error = within("it lets go", SOON, guard.release()).await.expect_err("it had been lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_whose_nodes_are_deleted_get_their_turn_and_promote_no_other() {
    let fixture = Fixture::with_directory("waiters").await;
    let holder = acquired(&mutex(&fixture.client().await, &fixture.path)).await;
    let mut waiters = Vec::new();
    for before in 1..=3 {
        waiters.push(Waiting::behind(&fixture, &mutex(&fixture.client().await, &fixture.path), before).await);
    }
    let mut names = fixture.nodes().await;
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    for name in &names[1..=2] {
        fixture.observer.delete(&format!("{}/{name}", fixture.path)).await;
    }
    for waiter in &mut waiters {
        waiter.still_pending().await;
    }
    fixture.observer.wait_for_children(&fixture.path, 4).await;
    assert!(holder.is_held());
    released(holder).await;
    let mut turns: Vec<_> = waiters.into_iter().map(|waiter| Box::pin(waiter.turn())).collect();
    while !turns.is_empty() {
        let (guard, _, rest) = within("a turn", SOON, futures::future::select_all(turns)).await;
        released(guard).await;
        turns = rest;
    }
    assert!(fixture.nodes().await.is_empty());
}
