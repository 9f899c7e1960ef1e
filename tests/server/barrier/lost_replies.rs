//! Requests and answers that get lost: which no test of Curator's covers.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::barrier::Barrier;

use crate::fixture::{Fixture, SOON, for_each_loss, lose};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_or_remove_whose_answer_is_lost_is_repeated_until_it_is_done() {
    let fixture = Fixture::new("single").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let path = unique_path("single");
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let barrier = Barrier::new(&client, path.clone()).expect("a good path");
        let fault = lose(&proxy, what, OpCode::Create2, how);
        within("set", SOON, barrier.set()).await.expect("set");
        assert!(fault.has_fired() && fixture.observer.exists(&path).await, "{what:?} {how:?}");
        let fault = lose(&proxy, what, OpCode::Delete, how);
        within("removed", SOON, barrier.remove()).await.expect("removed");
        assert!(fault.has_fired() && !fixture.observer.exists(&path).await, "{what:?} {how:?}");
    })
    .await;
}
