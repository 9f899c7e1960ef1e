//! Deletions by hand: of the node, and of what is above it.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::persistent_node::NodeMode;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{DIR, FIXED, PATH, is_there, node, node_of, present, setup};
use crate::fixture::{SOON, T, within};

const ALL: [&[NodeMode]; 2] = [&FIXED, &[NodeMode::EphemeralSequential]];

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_is_created_again_at_once_at_its_path() {
    for mode in ALL.concat() {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        let path = node.created().await.expect("created");
        present(&node).await;
        let begun = Instant::now();
        server.delete_by_hand(&path).expect("it was there");
        server.until(|| server.stat(&path).is_some()).await;
        assert!(begun.elapsed() < Duration::from_millis(20), "{mode:?}: {:?}", begun.elapsed());
        assert_eq!(server.get(&path).as_deref(), Some(&b"data"[..]), "{mode:?}");
        assert_eq!(server.children(DIR).len(), 1, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_deletions_are_undone_with_growing_delays() {
    let (server, [client]) = setup().await;
    let _node = node(&client, "");
    let mut took = Vec::new();
    for _ in 0..12 {
        server.until(|| server.stat(PATH).is_some()).await;
        let begun = Instant::now();
        server.delete_by_hand(PATH).expect("it was there");
        server.until(|| server.stat(PATH).is_some()).await;
        took.push(begun.elapsed());
    }
    let ms = Duration::from_millis;
    assert!(took[0] < ms(20), "{took:?}");
    assert!((ms(20)..ms(100)).contains(&took[1]), "{took:?}");
    assert!((ms(2400)..=ms(5100)).contains(&took[11]), "{took:?}");
    // After a calm time, at once again.
    tokio::time::sleep(T * 2).await;
    let begun = Instant::now();
    server.delete_by_hand(PATH).expect("it was there");
    server.until(|| server.stat(PATH).is_some()).await;
    assert!(begun.elapsed() < ms(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn parents_that_are_deleted_are_created_again() {
    for mode in ALL.concat() {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        let path = node.created().await.expect("created");
        present(&node).await;
        for gone in [&*path, DIR, "/services"] {
            // The node may be back before its parent is deleted.
            while server.delete_by_hand(gone).is_err() {
                let children = server.children(gone);
                for child in &children {
                    let _ = server.delete_by_hand(&format!("{gone}/{child}"));
                }
                if server.stat(gone).is_none() {
                    break;
                }
            }
        }
        within("it is back", T, server.until(|| server.stat(&path).is_some())).await;
        present(&node).await;
        assert_eq!(server.get(&path).as_deref(), Some(&b"data"[..]), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_there_is_no_connection_is_noticed_afterwards() {
    for mode in ALL.concat() {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        let path = node.created().await.expect("created");
        present(&node).await;
        server.refuse(&client);
        server.disconnect(&client);
        tokio::time::sleep(SOON).await;
        server.delete_by_hand(&path).expect("it was there");
        server.heal();
        within("it is back", T, server.until(|| server.stat(&path).is_some())).await;
        present(&node).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_client_put_in_place_of_ours_is_waited_for() {
    let (server, [client, other]): (TestingServer, _) = setup().await;
    let node = node(&client, "ours");
    present(&node).await;
    server.refuse(&client);
    server.disconnect(&client);
    tokio::time::sleep(SOON).await;
    server.delete_by_hand(PATH).expect("it was there");
    other.create(PATH, "theirs", zookeeper_recipes::CreateMode::Ephemeral).await.expect("created");
    server.heal();
    super::fixture::waits(&node).await;
    is_there(&server, &other, PATH, "theirs");
    other.delete(PATH, None).await.expect("deleted");
    present(&node).await;
    is_there(&server, &client, PATH, "ours");
}
