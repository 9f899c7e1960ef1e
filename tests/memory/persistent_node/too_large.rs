//! Data that the servers do not read, because their `jute.maxbuffer` is lower than the client believes.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::{RecordKind, TestingServer};

use super::fixture::{FIXED, PATH, fails, is_there, node, node_of, present, setup};
use crate::fixture::{T, within};

fn losses(server: &TestingServer) -> usize {
    server.records().iter().filter(|record| record.what == RecordKind::Disconnected).count()
}

#[tokio::test(start_paused = true)]
async fn a_node_too_large_fails_and_the_connection_is_left_in_peace() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        server.max_buffer(64 * 1024);
        let node = node_of(&client, mode, &"x".repeat(100_000));
        let error = within("it fails", T * 2, node.created()).await.expect_err("it is too large");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        fails(&node).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!((2..=5).contains(&losses(&server)), "{mode:?}: {} losses in ten minutes", losses(&server));
        within("it is written", T * 4, node.set_data("small")).await.expect("written");
        present(&node).await;
    }
}

#[tokio::test(start_paused = true)]
async fn data_too_large_is_refused_and_the_node_is_kept() {
    let (server, [client]) = setup().await;
    server.max_buffer(64 * 1024);
    let node = node(&client, "small");
    present(&node).await;
    let error = within("it ends", T * 2, node.set_data("x".repeat(100_000))).await.expect_err("it is too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    is_there(&server, &client, PATH, "small");
    within("it is written", T, node.set_data("other")).await.expect("written");
    is_there(&server, &client, PATH, "other");
    assert!(losses(&server) <= 2, "{}", losses(&server));
}
