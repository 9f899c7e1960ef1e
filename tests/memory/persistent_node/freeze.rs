//! A process that is stopped.

use super::fixture::{PATH, is_there, node, present, setup, waits};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_node_of_a_process_that_was_stopped_is_gone_meanwhile_and_comes_back() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    let session = client.session_id();
    server.freeze_client(&client);
    within("the servers end the session", T * 2, server.until(|| server.stat(PATH).is_none())).await;
    tokio::time::sleep(T).await;
    server.thaw_client(&client);
    within("it is back", T, server.until(|| server.stat(PATH).is_some())).await;
    present(&node).await;
    assert_ne!(client.session_id(), session);
    is_there(&server, &client, PATH, "data");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_does_not_disturb_the_one_that_took_over() {
    let (server, [client, other]) = setup().await;
    let stopped = node(&client, "stopped");
    present(&stopped).await;
    let next = node(&other, "next");
    waits(&next).await;
    server.freeze_client(&client);
    present(&next).await;
    let stat = server.stat(PATH);
    // It wakes with a write and a close to do.
    let setting = Box::pin(stopped.set_data("late"));
    let _ = tokio::time::timeout(SOON, setting).await;
    server.thaw_client(&client);
    waits(&stopped).await;
    stopped.close().await.expect("closed");
    assert_eq!(server.stat(PATH), stat);
    is_there(&server, &other, PATH, "next");
}

#[tokio::test(start_paused = true)]
async fn a_close_by_a_process_that_was_stopped_does_not_hit_the_node_of_the_next() {
    let (server, [client, other]) = setup().await;
    let stopped = node(&client, "stopped");
    present(&stopped).await;
    let next = node(&other, "next");
    waits(&next).await;
    server.freeze_client(&client);
    present(&next).await;
    let stat = server.stat(PATH);
    let mut closing = Box::pin(stopped.close());
    crate::fixture::still_pending("it is stopped", &mut closing).await;
    server.thaw_client(&client);
    within("it is closed", T, closing).await.expect("closed");
    tokio::time::sleep(T).await;
    assert_eq!(server.stat(PATH), stat);
}
