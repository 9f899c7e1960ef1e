//! Each claim has a number of its own: the servers refuse an operation on an earlier one.

use zookeeper_recipes::queue::{ClaimLost, DistributedQueue, Error, Utf8};
use zookeeper_recipes::{Client, ErrorKind, Fence};

use super::fixture::{Fixture, SOON, queue, taken};
use crate::fixture::watches;
use crate::support::{eventually, within};

async fn fenced(client: &Client, fence: &Fence, path: &str) -> Result<(), ErrorKind> {
    let write = client.transaction().check(fence).set_data(path, "x", None).commit().await;
    write.map(drop).map_err(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_claim_of_the_same_session_writes_and_settles_nothing() {
    let fixture = Fixture::new("identity").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    queue(&client, &fixture.path).producer().put("a").await.expect("put");
    let consumer = queue(&client, &fixture.path).consumer();
    let first = taken(&consumer).await;
    let (claim, fence) = (first.claim(), first.fence());
    assert_eq!(fenced(&client, &fence, &fixture.path).await, Ok(()));
    first.nack().await.expect("returned");
    let second = taken(&consumer).await;
    assert_eq!((claim.attempt(), second.attempt(), claim.is_held(), second.is_held()), (1, 2, false, true));
    assert!(second.fencing_token() > claim.fencing_token());
    assert_eq!(fenced(&client, &fence, &fixture.path).await, Err(ErrorKind::Fenced));
    assert_eq!(fenced(&client, &second.fence(), &fixture.path).await, Ok(()));
    // Deleted by hand, and claimed by another: the work is ended, and its ack is refused.
    let node = format!("{}-claims/{}", fixture.path, second.name());
    let (running, unwatched) = (second.claim(), watches(&fixture, &client).await);
    let work = tokio::spawn(async move { running.run(std::future::pending::<()>()).await });
    eventually("its node is watched", SOON, || async { watches(&fixture, &client).await > unwatched }).await;
    other.delete(&node, None).await.expect("it exists");
    assert_eq!(within("it is told", SOON, work).await.expect("no panic"), Err(ClaimLost));
    let third = taken(&queue(&other, &fixture.path).consumer()).await;
    assert!(matches!(second.ack().await, Err(Error::Lost { .. })));
    assert_eq!((third.attempt(), third.is_held()), (3, true));
    third.ack().await.expect("acked");
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_whose_consumers_die_is_a_dead_letter_and_the_next_one_is_delivered() {
    let fixture = Fixture::new("poison").await;
    let client = fixture.client().await;
    let queue_of = |client: &Client| {
        DistributedQueue::builder(client, &fixture.path, Utf8).max_deliveries(2).build().expect("a good path")
    };
    let queue = queue_of(&client);
    for item in ["poison", "good"] {
        queue.producer().put(item).await.expect("put");
    }
    for attempt in 1..3 {
        let mortal = fixture.client().await;
        let delivery = taken(&queue_of(&mortal).consumer()).await;
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("poison", attempt));
        mortal.close().await.expect("closed");
        drop(delivery);
    }
    let next = taken(&queue.consumer()).await;
    assert_eq!((next.item().as_str(), next.attempt()), ("good", 1));
    next.ack().await.expect("acked");
    let letters = queue.dead_letters().await.expect("listed");
    assert_eq!(letters.len(), 1);
    assert!(fixture.nodes().await.is_empty());
}
