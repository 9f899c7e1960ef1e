//! How many requests each operation costs.

use zookeeper_recipes::testing::Operation;

use super::fixture::{described, ids, register, service, settle, setup};
use crate::fixture::requests;

#[tokio::test(start_paused = true)]
async fn a_registration_is_two_requests_an_update_one_and_its_end_three() {
    let (server, [(client, first), _]) = setup().await;
    client.create_containers("/services/api").await.expect("created");
    server.clear_records();
    let registration = register(&first, "a").await;
    settle().await;
    assert_eq!(requests(&server).len(), 2, "{:?}", requests(&server));
    server.clear_records();
    registration.set_enabled(false).await.expect("written");
    registration.update(described("a").port(81).build().expect("good")).await.expect("written");
    settle().await;
    assert_eq!(requests(&server), [Operation::SetData, Operation::SetData]);
    server.clear_records();
    registration.unregister().await.expect("unregistered");
    settle().await;
    // The third one is a sync, before the look.
    assert_eq!(requests(&server), [Operation::Exists, Operation::Delete]);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_one_read_and_a_choice_no_request() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let a = register(&first, "a").await;
    let _b = register(&first, "b").await;
    let api = service(&second).await;
    let sent = || {
        let counts = two.request_counts();
        (counts.reads, counts.writes)
    };
    let before = sent();
    a.set_enabled(false).await.expect("written");
    settle().await;
    assert_eq!(sent(), (before.0 + 1, before.1));
    a.unregister().await.expect("unregistered");
    settle().await;
    assert_eq!(sent(), (before.0 + 1, before.1), "what is gone is not read");
    for _ in 0..1_000 {
        let instance = api.next().expect("an instance");
        api.report_error(&instance);
        api.report_ok(&instance);
    }
    settle().await;
    assert_eq!(sent(), (before.0 + 1, before.1));
    assert_eq!(ids(&api), ["b"]);
    drop(server);
}
