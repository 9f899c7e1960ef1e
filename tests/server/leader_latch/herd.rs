//! A hundred participants: a failover wakes exactly one of them, as the server counts the packets.

use std::collections::HashMap;
use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};

use super::fixture::{Fixture, SOON, builder, connect, leads, reaches, waits};
use crate::support::{ZooKeeper, eventually};

const CLIENTS: usize = 5;
const LATCHES: usize = 100;
const FAILOVERS: usize = 20;

/// The packets that the server has received on each connection, by session.
async fn received(server: &ZooKeeper) -> HashMap<i64, i64> {
    let cons = server.four_letter("cons").await;
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        Some(rest.split([',', ')']).next()?.to_owned())
    };
    let sessions = cons.lines().filter_map(|line| {
        let session = field(line, "sid=0x")?;
        let session = u64::from_str_radix(&session, 16).expect("a session id").cast_signed();
        Some((session, field(line, "recved=")?.parse().expect("a number")))
    });
    sessions.collect()
}

/// The clients, and the latches in the order of their line.
async fn a_hundred_participants(fixture: &Fixture) -> (Vec<Client>, Vec<LeaderLatch>) {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        // So long a session that hardly a heartbeat or a ping comes in between.
        clients.push(connect(builder(&fixture.server.connect_string(), Duration::from_secs(60))).await);
    }
    let mut latches: Vec<LeaderLatch> = Vec::new();
    for number in 0..LATCHES {
        let latch = fixture.latch(&clients[number % CLIENTS], &number.to_string());
        if number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        latches.push(latch);
    }
    eventually("all watches are sent", SOON, || async {
        let watches: u64 = clients.iter().map(|client| client.request_counts().watches).sum();
        // The leader watches its own node, the second its own and the one before it, all others the one before them.
        watches == LATCHES as u64 + 1
    })
    .await;
    (clients, latches)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_participants_each_failover_wakes_one_and_the_others_are_silent() {
    let fixture = Fixture::with_directory("herd").await;
    let (clients, latches) = a_hundred_participants(&fixture).await;
    let mut states: Vec<_> = latches.iter().map(LeaderLatch::state).collect();
    let first = received(&fixture.server).await;
    let before_all: Vec<_> = clients.iter().map(Client::request_counts).collect();
    for failover in 0..FAILOVERS {
        for state in &mut states {
            state.mark_unchanged();
        }
        let before: Vec<_> = clients.iter().map(Client::request_counts).collect();
        latches[failover].close().await.expect("closed");
        leads(&latches[failover + 1]).await;
        // An observation: a herd would move now.
        tokio::time::sleep(Duration::from_millis(50)).await;
        for (number, client) in clients.iter().enumerate() {
            let sent = client.request_counts() - before[number];
            let deletes = u64::from(number == failover % CLIENTS);
            // The second knows that it is first now. A later one lists the line once, and then watches its node.
            let lists = u64::from(number == (failover + 1) % CLIENTS && failover > 0);
            assert!(
                sent.deletes == deletes
                    && sent.lists <= lists
                    && sent.watches <= lists
                    && sent.total() == sent.deletes + sent.lists + sent.watches,
                "failover {failover}, client {number}: {sent:?}"
            );
        }
        let woken: Vec<_> = (0..LATCHES).filter(|number| states[*number].has_changed()).collect();
        assert_eq!(woken, [failover, failover + 1]);
    }
    // The server counts the same requests, and at most a removed watch for each delete, and pings.
    let last = received(&fixture.server).await;
    for (number, client) in clients.iter().enumerate() {
        let session = client.session_id().expect("a session");
        let packets = last[&session] - first[&session];
        let counted = (client.request_counts() - before_all[number]).total().cast_signed();
        let turns = (FAILOVERS / CLIENTS) as i64;
        println!("client {number}: {counted} requests, {packets} packets in {turns} of {FAILOVERS} failovers");
        assert!((counted..=counted + turns + 6).contains(&packets));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_receives_a_handful_of_packets_in_a_failover_of_a_hundred() {
    /// A removed watch, heartbeats and pings of six sessions, and the questions themselves.
    const TOLERANCE: i64 = 10;
    let server = ZooKeeper::start().await;
    let fixture = Fixture {
        observer: crate::support::Observer::connect(&server.connect_string()).await,
        server: std::sync::Arc::new(server),
        path: "/herd".to_owned(),
    };
    fixture.observer.create(&fixture.path, b"").await;
    let (_clients, latches) = a_hundred_participants(&fixture).await;
    let packets = async || -> i64 {
        let mntr = fixture.server.mntr().await;
        mntr["zk_packets_received"].parse().expect("a number")
    };
    let before = packets().await;
    latches[0].close().await.expect("closed");
    leads(&latches[1]).await;
    let after = packets().await;
    println!("the server received {} packets in a failover of {LATCHES}", after - before);
    assert!((1..=1 + TOLERANCE).contains(&(after - before)), "{before}, {after}");
    for latch in &latches[2..] {
        reaches(latch, LatchStatus::Waiting).await;
    }
}
