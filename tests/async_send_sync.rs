//! Pins which public types and futures are `Send`, `Sync` and `Unpin`: losing one breaks users, and nothing else tells.

use std::future::Future;

use zookeeper_recipes::leader_latch::{
    CloseMode, Error as LatchError, LatchState, LatchStatus, LeaderLatch, LeaderLatchBuilder, LeaderStream, Leadership,
    LeadershipLost, Participant,
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
    send_unpin::<ConnectionStates>();
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
