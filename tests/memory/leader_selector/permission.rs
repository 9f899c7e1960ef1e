//! A path that may not be entered: a state to see, and no storm of requests.

use tokio::runtime::Builder;
use zookeeper_recipes::leader_selector::{RequeuePolicy, SelectorStatus, TermEnd};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T};

fn sent(client: &Client) -> u64 {
    client.request_counts().total()
}

#[tokio::test(start_paused = true)]
async fn without_permission_a_selector_that_requeues_backs_off_says_so_and_leads_once_allowed() {
    let (server, client, _) = setup().await;
    server.deny(PATH);
    let before = sent(&client);
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    reaches(&selector, SelectorStatus::Failed).await;
    let error = selector.state().get().error().cloned().expect("a reason");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    tokio::time::sleep(SOON * 2).await;
    let requests = sent(&client) - before;
    assert!((2..=10).contains(&requests), "{requests} requests in 2 s");
    tokio::time::sleep(T * 6).await;
    let later = sent(&client) - before - requests;
    assert!((1..=30).contains(&later), "{later} more in a minute");
    server.allow(PATH);
    leads(&selector).await;
}

#[tokio::test(start_paused = true)]
async fn without_auto_requeue_it_ends_as_failed_until_requeued_and_requeuing_does_not_make_it_spin() {
    let (server, client, _) = setup().await;
    server.deny(PATH);
    let stage = Stage::new();
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    reaches(&selector, SelectorStatus::Failed).await;
    let before = sent(&client);
    tokio::time::sleep(T * 6).await;
    assert_eq!(sent(&client), before, "no more requests were sent");
    assert_eq!(selector.state().get().status(), SelectorStatus::Failed);
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < SOON * 2 {
        selector.requeue();
        tokio::time::sleep(SOON / 1000).await;
    }
    assert!(sent(&client) - before <= 10, "{} requests in 2 s", sent(&client) - before);
    server.allow(PATH);
    selector.requeue();
    leads(&selector).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_deleted_is_told_in_the_outcome_and_by_close() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    let mut outcomes = selector.outcomes();
    leads(&selector).await;
    server.deny(PATH);
    let outcome = next(&mut outcomes).await;
    assert!(matches!(outcome.end, TermEnd::Returned));
    assert_eq!(outcome.release_error.expect("it stays").kind(), ErrorKind::NoAuth);
    assert_eq!(server.children(PATH).len(), 1);
    assert_eq!(selector.close().await.expect_err("it stays").kind(), ErrorKind::NoAuth);
}

#[test]
fn a_node_that_was_left_behind_is_told_by_a_close_after_the_end_of_the_runtime() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (server, _client, selector) = runtime.block_on(async {
        let (server, client, _) = setup().await;
        let stage = Stage::new();
        let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
        leads(&selector).await;
        let mut outcomes = selector.outcomes();
        server.deny(PATH);
        assert!(selector.interrupt_leadership());
        let error = next(&mut outcomes).await.release_error.expect("it may not be deleted");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
        (server, client, selector)
    });
    drop(runtime);
    let error = futures::executor::block_on(selector.close()).expect_err("its node was left behind");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    drop(server);
}
