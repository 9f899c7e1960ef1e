//! Leaders that are asked to resign, on a real server and in a real ensemble.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LeaderLatch, Participant, ResignError, ask_to_resign, transfer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{
    Fixture, SOON, accepts_requests, askable, builder, connect, eventually, leads, line_becomes, within,
};
use crate::support::{Ensemble, unique_path};

const WITHIN: Duration = Duration::from_secs(15);
const T: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_resigns_and_a_chosen_one_leads() {
    let fixture = Fixture::new("transfer").await;
    let (one, other) = (fixture.client().await, fixture.client().await);
    let path = fixture.path.as_str();
    let mut line = Vec::new();
    for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
        line.push(askable(if number % 2 == 0 { &one } else { &other }, path, id).await);
    }
    let javas = format!("{path}/_c_2d4a32dc-0000-4000-8000-000000000000-latch-");
    let javas = other.create(&javas, "java", CreateMode::EphemeralSequential).await.expect("created");
    ask_to_resign(&other, &line[0].our_path().expect("it leads")).await.expect("asked");
    let token = leads(&line[1]).await.fencing_token();
    line_becomes(&line[1], &["b", "c", "java", "a"]).await;

    let refused = within("an answer", SOON, transfer(&one, path, "a", WITHIN)).await.expect_err("java is before it");
    assert!(
        matches!(&refused, ResignError::NotRevocable { participants, .. } if *participants == [javas.clone()]),
        "{refused}"
    );
    assert!(line[1].has_leadership());
    let leader = within("java leads", SOON, transfer(&one, path, "java", WITHIN)).await.expect("transferred");
    assert!(leader.path == javas && leader.fencing_token > token);
    other.delete(&javas, None).await.expect("it is left");
    eventually("one of ours leads", SOON, || async { line.iter().any(LeaderLatch::has_leadership) }).await;
    for latch in line {
        latch.close().await.expect("closed");
    }
    eventually("no node is left", SOON, || async {
        let requests = one.children(&format!("{path}-requests")).await;
        one.children(path).await.is_ok_and(|nodes| nodes.is_empty()) && requests.is_ok_and(|nodes| nodes.is_empty())
    })
    .await;
}

/// Transfers the leadership, and waits for participants that have just entered: they cannot be asked for a moment.
async fn transferred(caller: &Client, path: &str, id: &str) -> Result<Participant, ResignError> {
    loop {
        match transfer(caller, path, id, WITHIN).await {
            Err(ResignError::NotRevocable { participants, .. }) => {
                for node in participants {
                    eventually("it can be asked", SOON, || accepts_requests(caller, path, &node)).await;
                }
            }
            outcome => return outcome,
        }
    }
}

/// Each participant, and the caller, at another server: what one has written, another may see late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_and_caller_at_servers_of_their_own() {
    let ensemble = Ensemble::shared().await;
    let path = unique_path("transfer-ensemble");
    let mut clients = Vec::new();
    for server in 0..3 {
        clients.push(connect(builder(&ensemble.member(server).connect_string(), T)).await);
    }
    let mut line = Vec::new();
    for (client, id) in clients.iter().zip(["a", "b", "c"]) {
        line.push(askable(client, &path, id).await);
    }
    for round in 0..5 {
        for (latch, id) in line.iter().zip(["a", "b", "c"]) {
            let caller = &clients[(round + 1) % 3];
            let leader = within("it is transferred", SOON, transferred(caller, &path, id)).await;
            let leader = leader.unwrap_or_else(|error| panic!("round {round}, {id}: {error}"));
            // It may learn later than the caller that it leads.
            assert_eq!(leader.fencing_token, leads(latch).await.fencing_token(), "round {round}, {id}");
        }
    }
}
