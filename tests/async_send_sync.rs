//! Pins which public types and futures are `Send`, `Sync` and `Unpin`: losing one breaks users, and nothing else tells.

use std::future::Future;

use zookeeper_recipes::leader_latch::{
    CloseMode, Error as LatchError, LatchState, LatchStatus, LeaderLatch, LeaderLatchBuilder, LeaderStream, Leadership,
    LeadershipLost, Participant,
};
use zookeeper_recipes::leader_selector::{
    CloseMode as SelectorCloseMode, Error as SelectorError, LeaderSelector, LeaderSelectorBuilder, Outcome, Outcomes,
    RequeuePolicy, SelectorState, SelectorStatus, TermEnd,
};
use zookeeper_recipes::mutex::{
    Error as MutexError, InterProcessMutex, InterProcessMutexBuilder, LockLost, MutexGuard, revoke,
};
use zookeeper_recipes::{
    Acl, Client, ClientBuilder, ConnectionState, ConnectionStates, CreateMode, Error, Fence, ListenerHandle,
    RequestCounts, RetryPolicy, Stat, Transaction,
};

fn send_sync_unpin<T: Send + Sync + Unpin>() {}
fn send_unpin<T: Send + Unpin>() {}
fn send_future<F: Future + Send>(_: F) {}

#[test]
fn handles_and_values_can_be_shared_between_tasks() {
    send_sync_unpin::<Client>();
    send_sync_unpin::<ClientBuilder>();
    send_sync_unpin::<ConnectionState>();
    send_sync_unpin::<Error>();
    send_sync_unpin::<Fence>();
    send_sync_unpin::<ListenerHandle>();
    send_sync_unpin::<RequestCounts>();
    send_sync_unpin::<RetryPolicy>();
    send_sync_unpin::<Stat>();
    send_sync_unpin::<Transaction>();
    send_sync_unpin::<Acl>();
    send_sync_unpin::<LeaderLatch>();
    send_sync_unpin::<LeaderLatchBuilder>();
    send_sync_unpin::<LatchState>();
    send_sync_unpin::<LatchStatus>();
    send_sync_unpin::<LatchError>();
    send_sync_unpin::<Leadership>();
    send_sync_unpin::<LeadershipLost>();
    send_sync_unpin::<Participant>();
    send_sync_unpin::<CloseMode>();
    send_sync_unpin::<LeaderSelector>();
    send_sync_unpin::<LeaderSelectorBuilder>();
    send_sync_unpin::<RequeuePolicy>();
    send_sync_unpin::<SelectorState>();
    send_sync_unpin::<SelectorStatus>();
    send_sync_unpin::<SelectorError>();
    send_sync_unpin::<SelectorCloseMode>();
    send_sync_unpin::<Outcome>();
    send_sync_unpin::<TermEnd>();
    send_sync_unpin::<InterProcessMutex>();
    send_sync_unpin::<InterProcessMutexBuilder>();
    send_sync_unpin::<MutexGuard>();
    send_sync_unpin::<MutexError>();
    send_sync_unpin::<LockLost>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::ThroughputBalancer>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::ThroughputBalancerBuilder>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::Share>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::Error>();
    send_unpin::<zookeeper_recipes::throughput_balancer::Shares>();
    send_unpin::<zookeeper_recipes::throughput_balancer::Events>();
    send_unpin::<ConnectionStates>();
    send_unpin::<Outcomes>();
    send_unpin::<LeaderStream>();
}

/// Compiled, never called: the futures need a server to run, not to be checked.
#[allow(dead_code)]
fn every_public_future_is_send(client: &Client, latch: &LeaderLatch, leadership: &Leadership) {
    send_future(Client::builder("host").connect());
    send_future(client.get("/a"));
    send_future(client.exists("/a"));
    send_future(client.children("/a"));
    send_future(client.set("/a", b"", None));
    send_future(client.create("/a", b"", CreateMode::Ephemeral));
    send_future(client.create_containers("/a"));
    send_future(client.delete("/a", None));
    send_future(client.transaction().commit());
    send_future(client.close());
    send_future(latch.wait_for_leadership());
    send_future(latch.leader());
    send_future(latch.participants());
    send_future(latch.close());
    send_future(latch.close_with(CloseMode::NotifyLeader));
    send_future(leadership.lost());
    send_future(leadership.run(async {}));
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_selector_and_mutex_is_send(
    client: &Client,
    selector: &LeaderSelector,
    mutex: &InterProcessMutex,
    guard: &MutexGuard,
    released: MutexGuard,
) {
    send_future(selector.leader());
    send_future(selector.participants());
    send_future(selector.close());
    send_future(selector.close_with(SelectorCloseMode::Interrupt));
    send_future(mutex.acquire());
    send_future(mutex.acquire_timeout(std::time::Duration::MAX));
    send_future(mutex.try_acquire());
    send_future(mutex.participants());
    send_future(guard.lost());
    send_future(guard.run(async {}));
    send_future(guard.on_revoke());
    send_future(released.release());
    send_future(revoke(client, "/a"));
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_balancer_is_send(
    client: &Client,
    balancer: &zookeeper_recipes::throughput_balancer::ThroughputBalancer,
) {
    use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};
    send_future(ThroughputBalancer::builder(client, "/a").join());
    send_future(balancer.members());
    send_future(balancer.set_max_throughput(1));
    send_future(balancer.leave());
    send_future(set_max_throughput(client, "/a", 1));
}
