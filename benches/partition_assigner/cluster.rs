//! A cluster of members that work on partitions.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinHandle;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{Error, Owned, PartitionAssigner};

use crate::board::Board;

/// If a wait takes this long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Member {
    pub(crate) client: Client,
    pub(crate) assigner: Arc<PartitionAssigner>,
    working: JoinHandle<Result<(), Error>>,
}

pub(crate) struct Cluster {
    base: String,
    partitions: u32,
    pub(crate) board: Board,
    pub(crate) members: Vec<Member>,
    /// All clients, each once.
    pub(crate) clients: Vec<Client>,
    /// How many have joined, for their ids.
    joined: usize,
}

/// How many requests all clients have sent, without heartbeats, and how many of these are transactions.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    pub(crate) transactions: u64,
    /// Of the leader's client.
    pub(crate) of_leader: u64,
}

pub(crate) async fn connect(to: &str) -> Client {
    Client::builder(to).session_timeout(Duration::from_secs(30)).connect().await.expect("a client")
}

async fn member(client: Client, base: &str, id: String, partitions: u32, leads: bool, board: Board) -> Member {
    let options = PartitionAssigner::builder(&client, base).id(&id);
    let options = if leads { options.partitions(0..partitions) } else { options.candidate(false) };
    let assigner = Arc::new(options.join().await.expect("it joins"));
    let working = tokio::spawn({
        let assigner = Arc::clone(&assigner);
        async move { assigner.run(move |partition: Owned| work(partition, id.clone(), board.clone())).await }
    });
    Member { client, assigner, working }
}

/// Works until it is asked to stop.
async fn work(partition: Owned, member: String, board: Board) {
    let _works = board.begin(&member, partition.id());
    partition.revoked().await;
}

impl Cluster {
    pub(crate) fn new(base: String, partitions: u32) -> Cluster {
        Cluster { base, partitions, board: Board::default(), members: Vec::new(), clients: Vec::new(), joined: 0 }
    }

    /// Members join, one for each of these clients.
    pub(crate) async fn join(&mut self, clients: impl IntoIterator<Item = Client>, leads: bool) {
        self.join_all(clients.into_iter().map(|client| (client, leads))).await;
    }

    /// Members join together. For each, its client, and whether it may lead.
    pub(crate) async fn join_all(&mut self, members: impl IntoIterator<Item = (Client, bool)>) {
        let first = self.joined;
        let joining = members.into_iter().enumerate().map(|(number, (client, leads))| {
            let id = format!("member-{:04}", first + number);
            member(client, &self.base, id, self.partitions, leads, self.board.clone())
        });
        let members = join_all(joining).await;
        self.joined += members.len();
        self.members.extend(members);
    }

    /// Waits until all members share all partitions.
    pub(crate) async fn shared(&self) {
        let shared = async {
            while !self.board.is_shared(self.partitions as usize, self.members.len()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let shared = tokio::time::timeout(PATIENCE, shared).await;
        assert!(shared.is_ok(), "{}", self.board.describe());
    }

    /// The last member leaves.
    pub(crate) async fn leave(&mut self) {
        let last = self.members.pop().expect("a member");
        last.assigner.leave().await;
        last.working.await.expect("no panic").expect("one run");
    }

    pub(crate) fn leader(&self) -> usize {
        self.members.iter().position(|member| member.assigner.is_leader()).expect("a leader")
    }

    /// The session of the leader ends.
    pub(crate) async fn end_leader(&mut self) {
        let gone = self.members.remove(self.leader());
        gone.client.close().await.expect("closed");
        while !self.board.is_idle(gone.assigner.id()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn sent(&self) -> Sent {
        let counts = self.clients.iter().map(Client::request_counts);
        let leader = self.members.iter().find(|member| member.assigner.is_leader());
        let of_leader = leader.map_or(0, |leader| leader.client.request_counts().multis);
        let sent = |sum: Sent, counts: zookeeper_recipes::RequestCounts| Sent {
            requests: sum.requests + counts.total(),
            transactions: sum.transactions + counts.multis,
            of_leader,
        };
        counts.fold(Sent { of_leader, ..Sent::default() }, sent)
    }

    pub(crate) async fn close(self) {
        join_all(self.clients.iter().map(Client::close)).await.into_iter().for_each(|closed| closed.expect("closed"));
        join_all(self.members.into_iter().map(|member| member.working)).await;
    }
}

impl std::ops::Sub for Sent {
    type Output = Sent;

    fn sub(self, before: Sent) -> Sent {
        Sent {
            requests: self.requests - before.requests,
            transactions: self.transactions - before.transactions,
            of_leader: self.of_leader.saturating_sub(before.of_leader),
        }
    }
}

impl std::fmt::Display for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sent { requests, transactions, of_leader } = self;
        write!(
            f,
            "{requests} requests, {transactions} of them transactions, {of_leader} of these of the leader's client"
        )
    }
}
