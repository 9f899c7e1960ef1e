//! Sessions that end while something is claimed.

use std::time::Duration;

use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, queue, taken};
use crate::support::{Fault, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_session_is_killed_is_told_and_others_get_the_item_without_any_put() {
    let fixture = Fixture::new("killed").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let other = fixture.client().await;
    queue(&other, &fixture.path).producer().put("a").await.expect("put");
    let held = taken(&queue(&client, &fixture.path).consumer()).await;
    let waiting = queue(&other, &fixture.path).consumer();
    let waiting = tokio::spawn(async move { waiting.take().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.kill_session().await;
    let next = within("another gets it", SOON, waiting).await.expect("no panic").expect("an item");
    proxy.cut().await;
    within("it is told", SOON, held.lost()).await;
    let error = held.ack().await.expect_err("lost");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::OutcomeUnknown), "{error}");
    assert!(next.is_held());
    next.ack().await.expect("acked");
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_cut_off_says_no_before_another_has_the_item() {
    let fixture = Fixture::new("silent").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let other = fixture.client().await;
    queue(&other, &fixture.path).producer().put("a").await.expect("put");
    let held = taken(&queue(&client, &fixture.path).consumer()).await;
    let waiting = queue(&other, &fixture.path).consumer();
    let waiting = tokio::spawn(async move { waiting.take().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.set(Fault::BlackHole).await;
    let next = within("another gets it", SOON, waiting).await.expect("no panic").expect("an item");
    assert!(!held.is_held() && next.is_held());
    next.ack().await.expect("acked");
    proxy.set(Fault::Pass).await;
}
