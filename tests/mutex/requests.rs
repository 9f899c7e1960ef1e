//! What a lock costs, as it goes over the wire.

use std::time::Duration;

use zookeeper_recipes::{Client, ErrorPolicy};

use super::words::{A_WHILE, SOON, Scene, Waiting, acquired, mutex, released};
use crate::support::{OpCode, Proxy, eventually};

/// Everything that came over the wire, without what keeps the session.
fn on_the_wire(proxy: &Proxy) -> Vec<OpCode> {
    let all = proxy.requests().into_iter().map(|request| request.op);
    all.filter(|op| !matches!(op, OpCode::Ping | OpCode::Sync)).collect()
}

async fn client(scene: &Scene) -> (Proxy, Client) {
    // So long a session that no ping comes in between.
    scene.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_lock_costs_three_requests_and_four_if_its_holder_wants_to_be_told_of_a_loss() {
    let scene = Scene::with_directory("free").await;
    let (proxy, client) = client(&scene).await;
    let lock = mutex(&client, &scene.path);
    for told in [false, true, false] {
        proxy.forget_requests();
        let before = client.request_counts();
        let guard = acquired(&lock).await;
        if told {
            guard.run(tokio::time::sleep(A_WHILE)).await.expect("held");
        }
        released(guard).await;
        let counts = client.request_counts() - before;
        assert_eq!(counts.total(), if told { 4 } else { 3 }, "{counts:?}");
        let mut expected = vec![OpCode::Create2, OpCode::GetChildren2, OpCode::GetData, OpCode::Delete];
        if !told {
            expected.remove(2);
        }
        assert_eq!(on_the_wire(&proxy), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_five_requests_a_cycle_and_the_next_holder_none_on_its_way() {
    let scene = Scene::with_directory("contended").await;
    let holder = mutex(&scene.client().await, &scene.path);
    let (proxy, client) = client(&scene).await;
    let lock = mutex(&client, &scene.path);
    for _ in 0..3 {
        let held = acquired(&holder).await;
        proxy.forget_requests();
        let waiting = Waiting::behind(&scene, &lock, 1).await;
        let entered = [OpCode::Create2, OpCode::GetChildren2, OpCode::GetData, OpCode::GetData];
        eventually("both watches are sent", SOON, || async { on_the_wire(&proxy).len() == 4 }).await;
        assert_eq!(on_the_wire(&proxy), entered);
        tokio::time::sleep(A_WHILE).await;
        proxy.forget_requests();
        released(held).await;
        let guard = waiting.turn().await;
        assert_eq!(on_the_wire(&proxy), [], "the event was enough");
        released(guard).await;
        assert_eq!(on_the_wire(&proxy), [OpCode::Delete]);
    }
}
