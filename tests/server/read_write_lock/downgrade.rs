//! A writer that becomes a reader.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::read_write_lock::Error;

use super::fixture::{Fixture, SOON, eventually, for_each_loss, lock, lose, name_of, still_pending, within, writing};
use crate::support::{OpCode, unique_path};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_lets_readers_in_and_no_writer() {
    let fixture = Fixture::with_directory("downgrade").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let (one, two) = (lock(&one, &fixture.path), lock(&two, &fixture.path));
    let writer = writing(&one).await;
    let (read, write) = (two.read(), two.write());
    let mut reader = Box::pin(read.acquire());
    still_pending("another writes", &mut reader).await;
    let mut next = Box::pin(write.acquire());
    still_pending("another writes", &mut next).await;
    let token = writer.fencing_token();
    let own = within("it reads", SOON, writer.downgrade()).await.expect("it reads");
    assert_eq!((&name_of(own.node_path())[39..], own.fencing_token()), ("-__READ__0000000000", token));
    let reader = within("another reads, too", SOON, reader).await.expect("it reads");
    still_pending("two read", &mut next).await;
    own.release().await.expect("it was held");
    still_pending("one reads", &mut next).await;
    reader.release().await.expect("it was held");
    let next = within("its turn comes", SOON, next).await.expect("it writes");
    assert!(next.fencing_token() > token);
    next.release().await.expect("it was held");
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_that_is_lost_on_its_way_there_or_back_ends_with_one_node() {
    let fixture = Fixture::new("downgrade-lost").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("downgrade-lost");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
        let writer = writing(&lock(&client, &dir)).await;
        let fault = lose(&proxy, what, OpCode::Multi, how);
        match within("an answer", SOON, writer.downgrade()).await {
            Ok(reader) => {
                let nodes = fixture.observer.children(&dir).await;
                assert_eq!(nodes, [name_of(reader.node_path())], "{case}");
                assert!(reader.is_held(), "{case}");
                reader.release().await.expect("it was held");
            }
            // A connection that says nothing more is noticed so late that the lease may be over.
            Err(error) => assert!(matches!(error, Error::Lost { .. }), "{case}: {error}"),
        }
        assert!(fault.has_fired(), "{case}");
        let none = || async { fixture.observer.children(&dir).await.is_empty() };
        eventually("no node is left", SOON, none).await;
    })
    .await;
}
