//! Measures a ThroughputBalancer with a thousand members on one machine, and with five thousand, in memory and on a
//! real server: how long it takes until every member has its share and all lowered shares are acknowledged, and how
//! many transactions the leader sends for that.
//!
//! `cargo bench --features integration --bench balancer`. The aim is 0.5 s for a thousand and 2 s for five thousand,
//! after the quiet time or after the change of the maximum, with a transaction for each thousand members whose share
//! changes.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::throughput_balancer::{Event, ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{Client, ClientBuilder};

use support::{ZooKeeper, unique_path};

const SIZES: [usize; 2] = [1_000, 5_000];
/// How many members share a client, except for those that lead.
const A_CLIENT: usize = 50;
/// How many leaders go, one after the other. Each has a client of its own.
const TAKE_OVERS: usize = 5;
/// How often the maximum is changed, down and up in turn.
const CHANGES: usize = 10;
/// How often a member joins and leaves again.
const JOINS: usize = 10;
/// So large that one member more or less changes every share.
const MAXIMUM: u64 = 1_000_000_000;
const QUIET: Duration = Duration::from_millis(200);
const AT_MOST: Duration = Duration::from_secs(2);
/// If a wait takes this long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    name: &'static str,
    /// Counts the transactions of the clients, in memory.
    memory: Option<TestingServer>,
    base: String,
    operator: Client,
    /// Those with a client of their own come first, in the order in which they lead.
    members: Vec<(Client, ThroughputBalancer)>,
}

async fn join(client: Client, base: &str) -> (Client, ThroughputBalancer) {
    let joined = ThroughputBalancer::builder(&client, base).debounce(QUIET, AT_MOST).join().await;
    (client, joined.expect("it joins"))
}

impl Cluster {
    async fn start(
        name: &'static str,
        size: usize,
        memory: Option<TestingServer>,
        base: String,
        builder: impl Fn() -> ClientBuilder,
    ) -> Cluster {
        let connect =
            || async { builder().session_timeout(Duration::from_secs(30)).connect().await.expect("a client") };
        let operator = connect().await;
        set_max_throughput(&operator, &base, MAXIMUM).await.expect("a maximum");
        let mut members = Vec::new();
        for _ in 0..TAKE_OVERS {
            members.push(join(connect().await, &base).await);
        }
        let clients = join_all((0..(size - TAKE_OVERS).div_ceil(A_CLIENT)).map(|_| connect())).await;
        let began = Instant::now();
        let others = (TAKE_OVERS..size).map(|number| join(clients[number % clients.len()].clone(), &base));
        members.extend(join_all(others).await);
        let joined = Instant::now();
        let cluster = Cluster { name, memory, base, operator, members };
        cluster.all_have(MAXIMUM).await;
        cluster.tell("all joined: nodes are there", vec![joined - began]);
        cluster.tell("all joined: settled after the quiet time", vec![joined.elapsed().saturating_sub(QUIET)]);
        cluster
    }

    /// Waits until each member has its part of the maximum and applies it.
    async fn all_have(&self, maximum: u64) {
        let share = maximum / self.members.len() as u64;
        let have = self.members.iter().map(|(_, member)| async move {
            member.share().wait_for(|given| given.throughput() == share).await.map(drop)
        });
        let have = tokio::time::timeout(PATIENCE, try_join_all(have)).await;
        have.expect("every member has its share in time").expect("members");
    }

    fn leader(&self) -> &(Client, ThroughputBalancer) {
        self.members.iter().find(|(_, member)| member.is_leader()).expect("a leader")
    }

    /// Returns how many transactions the leader's client has sent, in memory.
    fn transactions(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.count(&self.leader().0, Operation::Multi))
    }

    /// Prints how many transactions the leader has sent since it had sent `before`.
    fn tell_transactions(&self, what: &str, before: Option<u64>) {
        if let Some((before, after)) = before.zip(self.transactions()) {
            println!(
                "{} members, {}: {what}: {} transactions of the leader, its own acknowledgements among them",
                self.members.len(),
                self.name,
                after - before
            );
        }
    }

    /// Lets a member join and leave repeatedly. Returns how long after the quiet time all have their shares.
    async fn joins_and_leaves(&mut self) -> (Vec<Duration>, Vec<Duration>) {
        let (mut came, mut left) = (Vec::new(), Vec::new());
        for _ in 0..JOINS {
            let (client, _) = self.members.last().expect("a member");
            let began = Instant::now();
            self.members.push(join(client.clone(), &self.base).await);
            self.all_have(MAXIMUM).await;
            came.push(began.elapsed().saturating_sub(QUIET));
            let (_, last) = self.members.pop().expect("a member");
            let began = Instant::now();
            last.leave().await;
            self.all_have(MAXIMUM).await;
            left.push(began.elapsed().saturating_sub(QUIET));
        }
        (came, left)
    }

    /// Sets the maximum, and waits for the leader's event that every member has its share and has acknowledged it.
    async fn change(&self, maximum: u64) -> Duration {
        let mut events = self.leader().1.events();
        let settled = async {
            while let Some(event) = events.next().await {
                if matches!(event, Event::Settled { maximum: settled, .. } if settled == maximum) {
                    return;
                }
            }
        };
        let began = Instant::now();
        let set = set_max_throughput(&self.operator, &self.base, maximum);
        let (set, settled, ()) = tokio::join!(set, tokio::time::timeout(PATIENCE, settled), self.all_have(maximum));
        set.expect("the maximum is set");
        settled.expect("all is settled in time");
        began.elapsed()
    }

    /// Ends the leader's session. Returns how long it takes until all have their shares.
    async fn take_over(&mut self) -> Duration {
        let (client, gone) = self.members.remove(0);
        assert!(gone.is_leader(), "the first one leads");
        let began = Instant::now();
        client.close().await.expect("closed");
        self.all_have(MAXIMUM).await;
        // No quiet time to subtract: a new leader decides at once.
        began.elapsed()
    }

    fn tell(&self, what: &str, mut took: Vec<Duration>) {
        took.sort_unstable();
        let millis = |took: Duration| took.as_secs_f64() * 1e3;
        let (median, worst) = (millis(took[took.len() / 2]), millis(took[took.len() - 1]));
        let (size, name) = (self.members.len(), self.name);
        println!("{size} members, {name}: {what}: median {median:.0} ms, worst {worst:.0} ms of {}", took.len());
    }

    async fn measure(mut self) {
        let before = self.transactions();
        let (came, left) = self.joins_and_leaves().await;
        self.tell("a member comes: settled after the quiet time", came);
        self.tell("a member leaves: settled after the quiet time", left);
        self.tell_transactions(&format!("{JOINS} members come and leave"), before);
        let (mut lowered, mut raised, before) = (Vec::new(), Vec::new(), self.transactions());
        for _ in 0..CHANGES {
            lowered.push(self.change(MAXIMUM / 2).await);
            raised.push(self.change(MAXIMUM).await);
        }
        self.tell("maximum lowered: all have acknowledged", lowered);
        self.tell("maximum raised: all have it", raised);
        self.tell_transactions(&format!("{CHANGES} times lowered and raised"), before);
        let mut took_over = Vec::new();
        for _ in 0..TAKE_OVERS {
            took_over.push(self.take_over().await);
        }
        self.tell("the leader goes: settled", took_over);
        let mut clients: Vec<Client> = self.members.into_iter().map(|(client, _)| client).collect();
        clients.push(self.operator);
        // Members share clients: closing one again is fine.
        join_all(clients.iter().map(Client::close)).await.into_iter().collect::<Result<Vec<()>, _>>().expect("closed");
    }
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let server = ZooKeeper::shared().await;
    let connect = server.connect_string();
    for size in SIZES {
        let memory = TestingServer::start();
        let counted = Some(memory.clone());
        let in_memory =
            Cluster::start("in memory", size, counted, "/balancer".into(), || Client::builder_for_testing(&memory));
        in_memory.await.measure().await;
        let real = Cluster::start("ZooKeeper", size, None, unique_path("balancer"), || Client::builder(&connect));
        real.await.measure().await;
    }
}
