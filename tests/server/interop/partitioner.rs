//! A path that kazoo's `SetPartitioner` uses.

use zookeeper_recipes::partition_assigner::{Error, PartitionAssigner};

use super::PATIENCE;
use super::kazoo::Kazoo;
use crate::fixture::Fixture;
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assigner_refuses_the_path_of_a_set_partitioner_and_leaves_it_alone() {
    let fixture = Fixture::with_directory("partitioner").await;
    let base = format!("{}/set", fixture.path);
    let (kazoo, input) = Kazoo::partitioner(&fixture.server.connect_string(), &base);
    fixture.observer.wait_until_exists(&format!("{base}-acquired")).await;
    let before = fixture.observer.children(&base).await;
    for candidate in [true, false] {
        let client = fixture.client().await;
        let joining =
            PartitionAssigner::builder(&client, &base).partitions(["a", "b", "c"]).candidate(candidate).join();
        let refused = within("an answer", PATIENCE, joining).await.expect_err("it is refused");
        assert!(matches!(&refused, Error::ForeignPath { node, .. } if before.contains(node)), "{refused}");
        assert!(refused.to_string().contains("SetPartitioner"), "{refused}");
        assert_eq!(fixture.observer.children(&base).await, before, "nothing was created");
    }
    // It has what it had, which it checks.
    drop(input);
    within("kazoo goes", PATIENCE, kazoo.ends()).await;
}
