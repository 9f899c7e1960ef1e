//! Nodes deleted by hand.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::Error;

use super::words::{SOON, Scene, Waiting, acquired, mutex, released};
use crate::support::{unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_is_deleted_is_told_and_the_next_one_holds() {
    let scene = Scene::with_directory("own").await;
    let report = unique_path("report");
    scene.observer.create(&report, b"").await;
    let client = scene.client().await;
    let guard = acquired(&mutex(&client, &scene.path)).await;
    let waiting = Waiting::behind(&scene, &mutex(&scene.client().await, &scene.path), 1).await;
    let (work, ()) = tokio::join!(guard.run(std::future::pending::<()>()), async {
        tokio::time::sleep(super::words::A_WHILE).await;
        scene.observer.delete(guard.node_path()).await;
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
async fn waiters_whose_nodes_are_deleted_get_their_turn_and_promote_nobody() {
    let scene = Scene::with_directory("waiters").await;
    let holder = acquired(&mutex(&scene.client().await, &scene.path)).await;
    let mut waiters = Vec::new();
    for before in 1..=3 {
        waiters.push(Waiting::behind(&scene, &mutex(&scene.client().await, &scene.path), before).await);
    }
    let mut names = scene.nodes().await;
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    for name in &names[1..=2] {
        scene.observer.delete(&format!("{}/{name}", scene.path)).await;
    }
    for waiter in &mut waiters {
        waiter.goes_on().await;
    }
    scene.observer.wait_for_children(&scene.path, 4).await;
    assert!(holder.is_held());
    released(holder).await;
    let mut turns: Vec<_> = waiters.into_iter().map(|waiter| Box::pin(waiter.turn())).collect();
    while !turns.is_empty() {
        let (guard, _, rest) = within("a turn", SOON, futures::future::select_all(turns)).await;
        released(guard).await;
        turns = rest;
    }
    assert!(scene.nodes().await.is_empty());
}
