//! The maximum is used while members come and go; and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use futures::future::join_all;
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::throughput_balancer::{Event, Share, ThroughputBalancer, set_max_throughput};

use super::fixture::{BASE, have, joined, setup, throughput};
use crate::fixture::{SOON, requests, within};

const MAXIMUM: u64 = 1_000_000;
const STEP: Duration = Duration::from_millis(10);

/// A server whose messages take one to three milliseconds, and so many clients.
async fn network(clients: usize) -> (TestingServer, Vec<Client>) {
    let server = TestingServer::builder().latency(Duration::from_millis(1)..=Duration::from_millis(3)).start();
    let clients = join_all((0..clients).map(|_| server.client())).await;
    let clients: Vec<_> = clients.into_iter().map(|client| client.expect("a client")).collect();
    set_max_throughput(&clients[0], BASE, MAXIMUM).await.expect("a maximum");
    (server, clients)
}

async fn joins(client: &Client) -> ThroughputBalancer {
    ThroughputBalancer::builder(client, BASE).join().await.expect("it joins")
}

/// The used part of the maximum, on average and at least.
#[derive(Default)]
struct Used {
    looks: Vec<u64>,
}

impl Used {
    fn look(&mut self, used: u64) {
        assert!(used <= MAXIMUM, "{used} of {MAXIMUM}");
        self.looks.push(used);
    }

    fn average(&self) -> f64 {
        self.looks.iter().sum::<u64>() as f64 / (self.looks.len() as u64 * MAXIMUM) as f64
    }

    fn least(&self) -> f64 {
        self.looks.iter().min().copied().unwrap_or(0) as f64 / MAXIMUM as f64
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_hundred_members_are_replaced_the_oldest_first_the_maximum_is_used() {
    let (_server, clients) = network(20).await;
    let mut random = Rng::with_seed(1);
    let members = join_all((0..100).map(|at| joins(&clients[at % clients.len()]))).await;
    let mut members: std::collections::VecDeque<_> = members.into();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (mut used, begun) = (Used::default(), Instant::now());
    let mut is_leaving = true;
    while begun.elapsed() < Duration::from_secs(60) {
        let change = Instant::now() + Duration::from_millis(random.u64(100..=150));
        while Instant::now() < change {
            tokio::time::sleep(STEP).await;
            used.look(members.iter().map(throughput).sum());
        }
        if is_leaving {
            let leader = members.iter().position(ThroughputBalancer::is_leader).unwrap_or(0);
            let member = members.remove(leader).expect("there are many");
            tokio::spawn(async move { member.leave().await });
        } else {
            members.push_back(joins(&clients[random.usize(..clients.len())]).await);
        }
        is_leaving = !is_leaving;
    }
    println!("used {:.3} on average, {:.3} at least", used.average(), used.least());
    assert!(used.average() >= 0.95 && used.least() >= 0.8, "{:.3}, {:.3}", used.average(), used.least());
}

#[tokio::test(start_paused = true)]
async fn while_members_join_each_soon_has_a_share_and_the_maximum_is_used() {
    for hangs in [false, true] {
        for seed in 0..5 {
            let (_server, clients) = network(20).await;
            let mut random = Rng::with_seed(seed);
            let mut used = Used::default();
            let mut members = Vec::new();
            for (number, client) in clients.iter().take(5).enumerate() {
                let takes = (!hangs || number != 1).then(|| random.u64(0..=300));
                members.push(applying(client, takes).await);
                tokio::time::sleep(SOON).await;
            }
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                let joining = Instant::now() + Duration::from_millis(random.u64(60..=400));
                while Instant::now() < joining {
                    tokio::time::sleep(STEP).await;
                    used.look(members.iter().map(|member| member.applies.load(Ordering::Relaxed)).sum());
                    for member in &members {
                        let waits = member.joined.elapsed() > SOON && throughput(&member.balancer) == 0;
                        assert!(!waits, "seed {seed}: no share for {:?}", member.joined.elapsed());
                    }
                }
                let client = &clients[random.usize(..clients.len())];
                members.push(applying(client, Some(random.u64(0..=300))).await);
            }
            println!("hangs: {hangs}, used {:.3} on average, {:.3} at least", used.average(), used.least());
            assert!(used.average() >= 0.9, "seed {seed}: {:.3}", used.average());
        }
    }
}

struct Applying {
    balancer: ThroughputBalancer,
    joined: Instant,
    applies: Arc<AtomicU64>,
}

/// A member that takes so many milliseconds to apply a share; none if it never applies a second one.
async fn applying(client: &Client, takes: Option<u64>) -> Applying {
    let (balancer, applies) = (joins(client).await, Arc::new(AtomicU64::new(0)));
    balancer.on_share({
        let applies = Arc::clone(&applies);
        move |share: Share| {
            let applies = Arc::clone(&applies);
            async move {
                tokio::time::sleep(Duration::from_millis(takes.unwrap_or(0))).await;
                applies.store(share.throughput(), Ordering::Relaxed);
                if takes.is_none() && share.throughput() > 0 {
                    std::future::pending::<()>().await;
                }
            }
        }
    });
    Applying { balancer, joined: Instant::now(), applies }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_forgotten_holds_up_nothing() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    let mut shares = one.shares();
    assert!(shares.next().await.is_some());
    have(&server, &[&one], &[1000]).await;
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 500]).await;
    let deletes = || [Operation::Multi, Operation::Delete].map(|of| server.count(&clients[0], of));
    let before = deletes();
    within("it leaves", Duration::from_millis(100), one.leave()).await;
    assert_eq!(deletes(), [before[0] + 1, before[1] + 1], "its pair, and its place in the line");
    drop(shares);
}

/// How many reads it takes two hundred members to join at once, all of them in doubt about their registration or none.
async fn reads_of_joining(members: usize, in_doubt: bool) -> usize {
    let (server, clients) = network(members).await;
    let first = joins(&clients[0]).await;
    let clients = &clients[1..];
    for client in clients.iter().filter(|_| in_doubt) {
        // The first transaction of a member creates its pair of nodes.
        server.lose_next_reply(client, Some(Operation::Multi), Loss::Applied);
    }
    server.clear_records();
    let joined = join_all(clients.iter().map(joins)).await;
    let all: Vec<_> = joined.iter().chain([&first]).collect();
    have(&server, &all, &vec![MAXIMUM / members as u64; members]).await;
    assert_eq!(server.children(&format!("{BASE}/client")).len(), members);
    let reads = |operation: &&Operation| matches!(operation, Operation::GetData | Operation::Exists);
    requests(&server).iter().filter(reads).count()
}

#[tokio::test(start_paused = true)]
async fn members_whose_creates_were_not_answered_find_their_nodes_with_a_few_reads_each() {
    const MEMBERS: usize = 200;
    let (calm, in_doubt) = (reads_of_joining(MEMBERS, false).await, reads_of_joining(MEMBERS, true).await);
    println!("{calm} reads of {MEMBERS} members, {in_doubt} reads in doubt");
    assert!(in_doubt - calm <= 3 * MEMBERS, "{calm}, {in_doubt}");
}

#[tokio::test(start_paused = true)]
async fn members_without_a_share_are_told_of() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let mut events = one.events();
    set_max_throughput(&clients[1], BASE, 1).await.expect("set");
    have(&server, &[&one], &[1]).await;
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[0, 0]).await;
    let told = super::transition::told(&mut events);
    assert!(told.contains(&Event::WithoutShare { maximum: 1, members: 2 }), "{told:?}");
}
