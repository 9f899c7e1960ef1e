//! The operations of a delivered item.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::queue::{Delivery, Error};
use zookeeper_recipes::{Client, ErrorKind};

use super::{CLAIMS, DEAD, PATH, all_of, directories, filled, queue};
use crate::harness::{Run, cases};

cases! {
    ack: "Delivery::ack", at least 50 drops, 30 faults;
    nack: "Delivery::nack", at least 50 drops, 30 faults;
    nack_after: "Delivery::nack_after", at least 50 drops, 30 faults;
    release: "Delivery::release", at least 50 drops, 30 faults;
    reject: "Delivery::reject", at least 50 drops, 30 faults;
    lost: "Delivery::lost", at least 40 drops, 10 faults;
    claim_lost: "ClaimHandle::lost", at least 40 drops, 10 faults;
    work: "Delivery::run", at least 40 drops, 10 faults;
    claim_work: "ClaimHandle::run", at least 40 drops, 10 faults;
}

/// Returns an item that the first client has taken, and another client.
async fn delivered(run: &mut Run) -> (Delivery<String>, Client) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a"]).await;
    let consumer = queue(&client).consumer();
    let delivery = consumer.take().await.expect("an item");
    run.settled_watches().await;
    (delivery, other)
}

fn may_fail(run: &Run, settled: Option<Result<(), Error>>) {
    if let Some(Err(error)) = settled {
        let known = matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::OutcomeUnknown);
        assert!(known && !run.keeps_its_session(), "{error}");
    }
}

/// Once polled, the ack is carried out; otherwise the drop returns the item to the queue.
async fn ack(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let acked = run.cut(delivery.ack()).await.done();
    let certain = matches!(acked, Some(Ok(_)));
    may_fail(run, acked.map(|acked| acked.map(drop)));
    run.in_the_end("no consumer holds it", || run.server().children(CLAIMS).is_empty()).await;
    let left = run.server().children(PATH).len();
    assert!(!certain || left == 0);
    if run.keeps_its_session() {
        assert_eq!(left, usize::from(!run.is_polled()));
    }
    all_of(run, &other).await;
}

async fn goes_back(run: &mut Run, settled: Option<Result<(), Error>>, other: &Client) {
    may_fail(run, settled);
    run.in_the_end("no consumer holds it", || run.server().children(CLAIMS).is_empty()).await;
    let stat = run.server().stat(&format!("{PATH}/queue-0000000000")).expect("it is there");
    assert!(stat.version == 2 || !run.keeps_its_session(), "claimed once, and returned once: {}", stat.version);
    assert_eq!(all_of(run, other).await, ["a"]);
}

async fn nack(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let settled = run.cut(delivery.nack()).await.done();
    goes_back(run, settled, &other).await;
}

async fn nack_after(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let settled = run.cut(delivery.nack_after(Duration::from_secs(1))).await.done();
    goes_back(run, settled, &other).await;
}

async fn release(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let settled = run.cut(delivery.release()).await.done();
    goes_back(run, settled, &other).await;
}

async fn reject(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let settled = run.cut(delivery.reject("by chance")).await.done();
    may_fail(run, settled);
    run.in_the_end("no consumer holds it", || run.server().children(CLAIMS).is_empty()).await;
    let buried = run.server().children(DEAD).len();
    assert_eq!(buried + run.server().children(PATH).len(), 1);
    assert!(buried == usize::from(run.is_polled()) || !run.keeps_its_session());
    while !run.server().children(DEAD).is_empty() {
        // The server of the other client may lag.
        for letter in queue(&other).dead_letters().await.expect("an answer") {
            queue(&other).drop(&letter).await.expect("dropped");
        }
    }
    all_of(run, &other).await;
}

/// Ends the session after some time.
fn ends_soon(run: &Run, client: &Client) {
    let client = client.clone();
    run.later(&client.clone(), Duration::from_millis(40), move |server| {
        server.expire_session(&client);
    });
}

async fn is_lost(run: &mut Run, delivery: Delivery<String>, other: &Client, told: Option<()>) {
    assert!(told.is_none() || !delivery.is_held());
    drop(delivery);
    run.in_the_end("no consumer holds it", || run.server().children(CLAIMS).is_empty()).await;
    assert_eq!(all_of(run, other).await, ["a"]);
}

async fn lost(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let client = run.first().clone();
    ends_soon(run, &client);
    let told = run.cut(delivery.lost()).await.done();
    is_lost(run, delivery, &other, told).await;
}

async fn claim_lost(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let client = run.first().clone();
    ends_soon(run, &client);
    let claim = delivery.claim();
    let told = run.cut(claim.lost()).await.done();
    is_lost(run, delivery, &other, told).await;
}

async fn work(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let worked = run.cut(delivery.run(sleep(Duration::from_millis(60)))).await.done();
    assert!(worked.is_none_or(|worked| worked.is_ok()) || !run.is_calm());
    assert!(delivery.is_held() || !run.is_calm());
    is_lost(run, delivery, &other, None).await;
}

async fn claim_work(run: &mut Run) {
    let (delivery, other) = delivered(run).await;
    let claim = delivery.claim();
    let worked = run.cut(claim.run(sleep(Duration::from_millis(60)))).await.done();
    assert!(worked.is_none_or(|worked| worked.is_ok()) || !run.is_calm());
    is_lost(run, delivery, &other, None).await;
}
