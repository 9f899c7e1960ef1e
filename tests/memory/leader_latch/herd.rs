//! A hundred participants: a failover wakes exactly one of them.

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{latch, leads, setup, waits};
use crate::fixture::SOON;

const CLIENTS: usize = 5;
const LATCHES: usize = 100;
const FAILOVERS: usize = 20;

/// The server, the clients, and the latches in the order of their line.
async fn a_hundred_participants() -> (TestingServer, [Client; CLIENTS], Vec<LeaderLatch>) {
    let (server, clients) = setup().await;
    let mut latches: Vec<LeaderLatch> = Vec::new();
    for number in 0..LATCHES {
        let latch = latch(&clients[number % CLIENTS], &number.to_string());
        if number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        latches.push(latch);
    }
    // The leader watches its own node, the second its own and the one before it, all others the one before them.
    let watches = || clients.iter().map(|client| client.request_counts().watches).sum::<u64>();
    server.until(|| watches() == LATCHES as u64 + 1).await;
    (server, clients, latches)
}

#[tokio::test(start_paused = true)]
async fn of_a_hundred_participants_each_failover_wakes_one_and_the_others_are_silent() {
    let (_server, clients, latches) = a_hundred_participants().await;
    let mut states: Vec<_> = latches.iter().map(LeaderLatch::state).collect();
    for failover in 0..FAILOVERS {
        for state in &mut states {
            state.mark_unchanged();
        }
        let before: Vec<_> = clients.iter().map(Client::request_counts).collect();
        latches[failover].close().await.expect("closed");
        leads(&latches[failover + 1]).await;
        // An observation: a herd would move now.
        tokio::time::sleep(SOON).await;
        for (number, client) in clients.iter().enumerate() {
            let sent = client.request_counts() - before[number];
            let deletes = u64::from(number == failover % CLIENTS);
            // The second knows that it is first now. A later one lists the line once, and then watches its node.
            let lists = u64::from(number == (failover + 1) % CLIENTS && failover > 0);
            assert_eq!(sent.deletes, deletes, "failover {failover}, client {number}: {sent:?}");
            assert!(sent.lists <= lists && sent.watches <= lists, "failover {failover}, client {number}: {sent:?}");
            let requests = sent.total();
            assert_eq!(requests, sent.deletes + sent.lists + sent.watches, "failover {failover}, client {number}");
        }
        let woken: Vec<_> = (0..LATCHES).filter(|number| states[*number].has_changed()).collect();
        assert_eq!(woken, [failover, failover + 1]);
    }
}
