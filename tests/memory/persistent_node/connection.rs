//! Connections that are lost and come back within the session.

use futures::StreamExt;
use zookeeper_recipes::ConnectionState;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState};
use zookeeper_recipes::testing::Data;

use super::fixture::{DIR, FIXED, PATH, is_there, node, node_of, present, reaches, settle, setup, waits};
use crate::fixture::{SOON, T, still_pending, within};

async fn suspended(node: &zookeeper_recipes::persistent_node::PersistentNode) {
    reaches(node, "suspended", |state| *state == NodeState::Suspended).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_node_stays_and_is_present_again() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    let (session, stat) = (client.session_id(), server.stat(PATH));
    server.refuse(&client);
    server.disconnect(&client);
    suspended(&node).await;
    assert_eq!(node.path().as_deref(), Some(PATH));
    server.heal();
    present(&node).await;
    assert_eq!((client.session_id(), server.stat(PATH)), (session, stat));
    // The watch is there again.
    server.delete_by_hand(PATH).expect("it was there");
    within("it is created again", SOON, server.until(|| server.stat(PATH).is_some())).await;
}

#[tokio::test(start_paused = true)]
async fn data_set_without_a_connection_is_written_when_there_is_one() {
    for loses_session in [false, true] {
        let (server, [client]) = setup().await;
        let node = node(&client, "before");
        present(&node).await;
        server.refuse(&client);
        server.disconnect(&client);
        suspended(&node).await;
        if loses_session {
            server.expire_session(&client);
        }
        let mut writes = Box::pin(node.set_data("meanwhile"));
        still_pending("there is no connection", &mut writes).await;
        // Only polled, then dropped: it counts all the same.
        drop(writes);
        server.heal();
        let written = || server.get(PATH).as_deref() == Some(&b"meanwhile"[..]);
        within("it is written", T, server.until(written)).await;
        present(&node).await;
        is_there(&server, &client, PATH, "meanwhile");
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_sets_without_a_connection_the_last_counts_and_all_resolve() {
    let (server, [client]) = setup().await;
    let node = node(&client, "0");
    present(&node).await;
    server.refuse(&client);
    server.disconnect(&client);
    suspended(&node).await;
    let mut sets = futures::future::join_all((1..=5).map(|round| node.set_data(round.to_string())));
    still_pending("there is no connection", &mut sets).await;
    server.heal();
    let done = within("all are written", T, sets).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    is_there(&server, &client, PATH, "5");
    assert_eq!(server.stat(PATH).map(|stat| stat.version), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_stays_one_across_a_reconnect_and_takes_over() {
    let (server, [client, other]) = setup().await;
    let winner = node(&other, "winner");
    present(&winner).await;
    let loser = node(&client, "loser");
    waits(&loser).await;
    server.refuse(&client);
    server.disconnect(&client);
    suspended(&loser).await;
    winner.close().await.expect("closed");
    server.heal();
    present(&loser).await;
    is_there(&server, &client, PATH, "loser");
}

#[tokio::test(start_paused = true)]
async fn a_protected_node_is_the_only_child_after_many_reconnects() {
    for mode in [NodeMode::EphemeralSequential, NodeMode::Ephemeral] {
        let (server, [client]) = setup().await;
        let builder = zookeeper_recipes::persistent_node::PersistentNode::builder(&client, PATH);
        let node = builder.mode(mode).protected(true).start().expect("it starts");
        for _ in 0..5 {
            present(&node).await;
            server.disconnect(&client);
            tokio::time::sleep(SOON).await;
            server.expire_session(&client);
            settle().await;
            assert_eq!(server.children(DIR).len(), 1, "{mode:?}");
        }
        let _ = node_of(&client, NodeMode::Ephemeral, "");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_present_while_its_session_is_over_and_there_is_no_other() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "");
        present(&node).await;
        server.stop();
        let mut states = client.connection_states();
        let lost = async { while states.next().await.expect("open").expect("in time") != ConnectionState::Lost {} };
        within("the session is lost", T * 2, lost).await;
        tokio::time::sleep(SOON).await;
        let expected = if mode == NodeMode::Ephemeral { NodeState::Creating } else { NodeState::Suspended };
        assert_eq!(node.state().get(), expected, "{mode:?}");
        server.restart(Data::Kept);
        present(&node).await;
    }
}
