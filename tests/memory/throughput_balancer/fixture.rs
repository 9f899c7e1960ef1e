//! Shared by the tests of the balancer: a server, a path, and helpers for members.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::{
    Share, ThroughputBalancer, ThroughputBalancerBuilder, set_max_throughput,
};
use zookeeper_recipes::{Client, CreateMode, ListenerHandle};

use crate::fixture::{SOON, within};

pub(crate) const BASE: &str = "/throughput";
pub(crate) const MAXIMUM: &str = "/throughput/global-config/max-throughput";

/// A server with a maximum of 1000, and so many clients.
pub(crate) async fn setup(clients: usize) -> (TestingServer, Vec<Client>) {
    let server = TestingServer::start();
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(server.client().await.expect("a client"));
    }
    set_max_throughput(&all[0], BASE, 1_000).await.expect("a maximum");
    (server, all)
}

/// The options of a member that acts at once.
pub(crate) fn eager(client: &Client) -> ThroughputBalancerBuilder {
    ThroughputBalancer::builder(client, BASE).debounce(Duration::ZERO, Duration::ZERO)
}

pub(crate) async fn joined(client: &Client) -> ThroughputBalancer {
    within("it joins", SOON, eager(client).join()).await.expect("it joins")
}

/// Members on a client each, one after the other.
pub(crate) async fn all_joined(clients: &[Client]) -> Vec<ThroughputBalancer> {
    let mut members = Vec::new();
    for client in clients {
        members.push(joined(client).await);
    }
    members
}

pub(crate) fn throughput(member: &ThroughputBalancer) -> u64 {
    member.throughput()
}

/// Waits until the members have these shares. A client that was idle for long first has to prove its lease, which takes
/// a tick of two seconds.
pub(crate) async fn have(server: &TestingServer, members: &[&ThroughputBalancer], shares: &[u64]) {
    have_within(server, SOON * 4, members, shares).await;
}

pub(crate) async fn have_within(
    server: &TestingServer,
    limit: Duration,
    members: &[&ThroughputBalancer],
    shares: &[u64],
) {
    let now = || members.iter().map(|member| throughput(member)).collect::<Vec<_>>();
    let done = tokio::time::timeout(limit, server.until(|| now() == shares)).await;
    assert!(done.is_ok(), "{:?}, not {shares:?} within {limit:?}; records: {:#?}", now(), records(server));
    // And it stays so.
    tokio::time::sleep(SOON).await;
    assert_eq!(now(), shares);
}

/// The members' nodes and what they hold, and the acknowledgements.
pub(crate) fn records(server: &TestingServer) -> Vec<String> {
    let dir = format!("{BASE}/client");
    let nodes = server.children(&dir).into_iter().map(|name| {
        let data = server.get(&format!("{dir}/{name}")).unwrap_or_default();
        format!("{name}: {}", String::from_utf8_lossy(&data))
    });
    nodes.chain(server.children(&format!("{BASE}/ack"))).collect()
}

/// The path of a member's node.
pub(crate) fn node(member: &ThroughputBalancer) -> String {
    format!("{BASE}/client/{}", member.member_id().expect("it is registered"))
}

/// A listener that applies a share only when it is let.
pub(crate) struct Slow {
    given: mpsc::UnboundedReceiver<u64>,
    go: Arc<Semaphore>,
    handle: ListenerHandle,
}

impl Slow {
    pub(crate) fn of(member: &ThroughputBalancer) -> Self {
        let (tell, given) = mpsc::unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let handle = member.on_share({
            let go = Arc::clone(&go);
            move |share: Share| {
                let (tell, go) = (tell.clone(), Arc::clone(&go));
                async move {
                    let _ = tell.send(share.throughput());
                    go.acquire().await.expect("it is never closed").forget();
                }
            }
        });
        Slow { given, go, handle }
    }

    /// The next share that it is given.
    pub(crate) async fn given(&mut self) -> u64 {
        within("it is given a share", SOON, self.given.recv()).await.expect("it listens")
    }

    /// It applies so many shares from now on.
    pub(crate) fn apply(&self, shares: usize) {
        self.go.add_permits(shares);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.handle.remove();
    }
}

/// Creates the two nodes of a member of another program, and returns its name.
pub(crate) fn register_by_hand(server: &TestingServer, record: &str) -> String {
    let node = server.create_by_hand(&format!("{BASE}/client/client-"), record, CreateMode::PersistentSequential);
    let name = node.expect("created").rsplit('/').next().expect("a name").to_owned();
    server.create_by_hand(&format!("{BASE}/ack/{name}~0.0"), "", CreateMode::Persistent).expect("created");
    name
}
