//! Bad input is refused at once, with the value and what is allowed.

use std::time::Duration;

use zookeeper_recipes::partition_assigner::{Error, PartitionAssigner, Partitions};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{BASE, eager, setup};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_meant_is_refused_at_once() {
    let (server, clients) = setup(1).await;
    let builder = || eager(&clients[0], "one");
    for (builder, why) in [
        (PartitionAssigner::builder(&clients[0], BASE), "no partitions; a candidate must know them"),
        (builder().partitions(0..0), "the range 0..0 has 0 partitions; must have 1 to 1000000"),
        (builder().partitions(Vec::<String>::new()), "there are no partitions; must be at least one"),
        (builder().partitions(["a", "b", "a"]), "partition \"a\" occurs twice"),
        (builder().partitions(["a/b"]), "partition \"a/b\": must not contain '/'"),
        (builder().partitions([""]), "partition \"\": must not be empty"),
        (builder().partitions(0..30_000), "must be at most"),
        (builder().partitions(Partitions::node("list")), "the node of the partitions \"list\""),
        (builder().id(""), "member \"\": must not be empty"),
        (builder().id("a/b"), "member \"a/b\": must not contain '/'"),
        (builder().id("x".repeat(257)), "the id of a member with 257 bytes; at most 256"),
        (builder().label("rack", "x".repeat(16_384)), "labels of 16417 bytes as JSON; at most 16384 are allowed"),
        (builder().weight(0), "a weight of 0; must be at least 1"),
        (builder().debounce(SOON, Duration::ZERO), "must be at least that"),
    ] {
        let error = builder.join().await.expect_err(why);
        assert!(matches!(&error, Error::InvalidOption { .. }) && error.to_string().contains(why), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert!(server.children("/").is_empty(), "nothing was created");
    let error = PartitionAssigner::builder(&clients[0], "no/slash").partitions(0..2).join().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    clients[0].close().await.expect("closed");
    assert!(matches!(builder().join().await, Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_path_that_kazoos_partitioner_uses_is_refused() {
    for node in ["party", "locks"] {
        let (server, clients) = setup(1).await;
        for path in ["/jobs", BASE, &format!("{BASE}/{node}")] {
            server.create_by_hand(path, "", CreateMode::Persistent).expect("created");
        }
        let error = eager(&clients[0], "one").join().await.expect_err("refused");
        assert!(matches!(&error, Error::ForeignPath { node: found, .. } if found == node), "{error:?}");
        assert!(error.to_string().contains("kazoo's SetPartitioner") && error.to_string().contains("another path"));
        assert_eq!(server.children(BASE), [node], "nothing was created");
    }
}

#[tokio::test(start_paused = true)]
async fn without_permission_joining_is_an_error() {
    let (server, clients) = setup(1).await;
    for path in ["/jobs", BASE, &format!("{BASE}/members")] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("created");
    }
    server.deny(&format!("{BASE}/members"));
    let error = within("an answer", SOON, eager(&clients[0], "one").join()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
}
