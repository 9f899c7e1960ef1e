//! The end of the client.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState};

use super::fixture::{PATH, node, node_of, present, setup, waits};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_ends_an_ephemeral_node_and_leaves_a_lasting_one() {
    for mode in super::fixture::FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        present(&node).await;
        client.close().await.expect("closed");
        let mut state = node.state();
        within("it ends", SOON, state.wait_for(|state| *state == NodeState::Closed)).await.expect("closed");
        tokio::time::sleep(T).await;
        assert_eq!(server.stat(PATH).is_some(), mode != NodeMode::Ephemeral, "{mode:?}");
        // The node may be there, so the close does not say that it is gone.
        let error = node.close().await.expect_err("the client is closed");
        assert_eq!(error.kind(), ErrorKind::Closed, "{mode:?}: {error}");
        assert_eq!(node.set_data("late").await.expect_err("closed").kind(), ErrorKind::Closed, "{mode:?}");
        assert_eq!(node.created().await.as_deref(), Ok(PATH), "{mode:?}: it was");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_ends_waiting() {
    let (_server, [client, other]) = setup().await;
    let winner = node(&other, "winner");
    present(&winner).await;
    let loser = node(&client, "loser");
    waits(&loser).await;
    client.close().await.expect("closed");
    let error = within("it ends", SOON, loser.created()).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    loser.close().await.expect("nothing of it is left");
    drop(winner);
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_client_open_as_long_as_it_lives() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    drop(client);
    tokio::time::sleep(T * 2).await;
    assert!(server.stat(PATH).is_some());
    node.close().await.expect("closed");
    drop(node);
    within("the session ends", T, server.until(|| server.sessions().is_empty())).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_that_the_end_of_the_client_overtakes_says_that_it_does_not_know() {
    let (server, [client]) = setup().await;
    let node = node_of(&client, NodeMode::Persistent, "data");
    present(&node).await;
    server.black_hole(&client);
    let mut closing = Box::pin(node.close());
    crate::fixture::still_pending("no answer", &mut closing).await;
    let _ = within("the client ends", T * 3, client.close()).await;
    let error = within("the close ends", T, closing).await.expect_err("not known");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
