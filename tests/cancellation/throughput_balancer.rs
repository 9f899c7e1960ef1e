//! ThroughputBalancer: joining, leaving, reading shares, setting the maximum.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::timeout;
use zookeeper_recipes::Client;
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{
    ThroughputBalancer, ThroughputBalancerBuilder, max_throughput, set_max_throughput,
};

use crate::harness::{Run, cases};

cases! {
    join: "ThroughputBalancerBuilder::join", at least 100 drops, 50 faults;
    join_with_a_limiter: "ThroughputBalancerBuilder::join", at least 100 drops, 50 faults;
    leave: "ThroughputBalancer::leave", at least 50 drops, 20 faults;
    members: "ThroughputBalancer::members", at least 50 drops, 20 faults;
    members_as_an_operator: "members::members", at least 20 drops, 5 faults;
    maximum: "ThroughputBalancer::max_throughput", at least 5 drops, 2 faults;
    maximum_as_an_operator: "maximum::max_throughput", at least 5 drops, 2 faults;
    leave_with_a_limiter: "ThroughputBalancer::leave", at least 50 drops, 20 faults;
    acquire_a_share: "ShareLimiter::acquire", at least 5 drops, 2 faults;
    set_as_a_member: "ThroughputBalancer::set_max_throughput", at least 20 drops, 5 faults;
    set_as_an_operator: "maximum::set_max_throughput", at least 20 drops, 5 faults;
    shares: "Shares::next", at least 20 drops, 5 faults;
    events: "Events::next", at least 5 drops, 2 faults;
}

const BASE: &str = "/balancer";
const MAXIMUM: &str = "/balancer/global-config/max-throughput";

/// Creates the directories, which may be left behind.
fn directories(run: &mut Run) {
    for path in ["", "/global-config", "/client", "/ack", "/epoch", "/leader"] {
        run.directory(&format!("{BASE}{path}"));
    }
    run.server().create_by_hand(MAXIMUM, "1000", zookeeper_recipes::CreateMode::Persistent).expect("the maximum");
    run.may_stay(MAXIMUM);
}

fn builder(client: &Client) -> ThroughputBalancerBuilder {
    ThroughputBalancer::builder(client, BASE).debounce(Duration::ZERO, Duration::ZERO)
}

async fn member(client: &Client) -> ThroughputBalancer {
    builder(client).join().await.expect("it joins")
}

/// Waits until only this many members are left, with their places in line.
async fn only(run: &Run, members: usize) {
    run.in_the_end("no other member is there", || {
        ["client", "ack", "leader"].iter().all(|dir| run.server().children(&format!("{BASE}/{dir}")).len() == members)
    })
    .await;
}

/// Waits until a member has the whole maximum.
async fn has_all(run: &Run, member: &ThroughputBalancer) {
    run.in_the_end("it has all", || member.share().get().throughput() == 1_000).await;
}

async fn join(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    drop(run.cut(builder(&client).join()).await.done().map(|joined| joined.expect("it joins")));
    only(run, 0).await;
    let member = member(&client).await;
    has_all(run, &member).await;
}

/// The limiter stops granting when the member is dropped, wherever that happens.
async fn join_with_a_limiter(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let limiter = ShareLimiter::new(5);
    drop(run.cut(builder(&client).limiter(&limiter).join()).await.done());
    assert_eq!(limiter.rate(), if run.is_polled() { 0 } else { 5 });
    only(run, 0).await;
    let member = builder(&client).limiter(&limiter).join().await.expect("it joins");
    has_all(run, &member).await;
    assert_eq!(limiter.rate(), 1_000);
}

/// Once the call was polled, the limiter grants nothing any more.
async fn leave_with_a_limiter(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let limiter = ShareLimiter::new(0);
    let leaves = builder(&client).limiter(&limiter).join().await.expect("it joins");
    has_all(run, &leaves).await;
    let left = run.cut(leaves.leave()).await.done().is_some();
    if left || run.is_polled() {
        assert_eq!(limiter.rate(), 0);
        only(run, 0).await;
    }
    drop(leaves);
    assert_eq!(limiter.rate(), 0);
    only(run, 0).await;
}

/// A cancelled caller leaves the next permit to the next caller.
async fn acquire_a_share(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let limiter = ShareLimiter::new(0);
    let member = builder(&client).limiter(&limiter).join().await.expect("it joins");
    let _ = run.cut(limiter.acquire(1)).await;
    has_all(run, &member).await;
    timeout(Duration::from_secs(60), limiter.acquire(1)).await.expect("a permit in time").expect("a burst of one");
}

async fn leave(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let leaves = member(&client).await;
    let left = run.cut(leaves.leave()).await.done().is_some();
    if left || run.is_polled() {
        only(run, 0).await;
    }
    drop(leaves);
    only(run, 0).await;
}

async fn members(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(member.members()).await);
    has_all(run, &member).await;
    only(run, 1).await;
}

async fn members_as_an_operator(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(zookeeper_recipes::throughput_balancer::members(&client, BASE)).await);
    has_all(run, &member).await;
    only(run, 1).await;
}

async fn maximum(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(member.max_throughput()).await);
    has_all(run, &member).await;
    only(run, 1).await;
}

async fn maximum_as_an_operator(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    drop(run.cut(max_throughput(&client, BASE)).await);
    only(run, 0).await;
}

/// Once polled, the maximum is set.
async fn set_as_a_member(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(member.set_max_throughput(700)).await);
    if run.is_polled() {
        run.in_the_end("it is set", || member.share().get().throughput() == 700).await;
    }
}

async fn set_as_an_operator(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    drop(run.cut(set_max_throughput(&client, BASE, 700)).await);
    if run.is_polled() {
        run.in_the_end("it is set", || run.server().get(MAXIMUM).as_deref() == Some(b"700")).await;
    }
}

/// A caller that asks again misses no share.
async fn shares(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    let mut shares = member.shares();
    let _ = run.cut(timeout(Duration::from_millis(300), async { while shares.next().await.is_some() {} })).await;
    has_all(run, &member).await;
    let other = self::member(&client).await;
    let both = async { while shares.next().await.is_some_and(|share| share.throughput() != 500) {} };
    timeout(Duration::from_secs(60), both).await.expect("it is told of the next share");
    drop(other);
}

async fn events(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    let mut events = member.events();
    let _ = run.cut(timeout(Duration::from_millis(300), async { while events.next().await.is_some() {} })).await;
    has_all(run, &member).await;
}
