//! Participants with priorities, on a real server and in a real ensemble.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LeaderLatch, transfer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{Fixture, SOON, builder, connect, eventually, latch, leads, line_becomes, within};
use crate::support::{Ensemble, unique_path};

const WITHIN: Duration = Duration::from_secs(15);
const T: Duration = Duration::from_secs(10);

fn ranked(client: &Client, path: &str, id: &str, priority: u32) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, path).id(id).priority(priority).revocable(Duration::ZERO);
    latch.start().expect("the latch starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_leads_next_and_makes_a_worse_one_resign() {
    let fixture = Fixture::new("priority").await;
    let (one, other) = (fixture.client().await, fixture.client().await);
    let path = fixture.path.as_str();
    let leader = latch(&one, path, "plain");
    leads(&leader).await;
    let javas = format!("{path}/_c_2d4a32dc-0000-4000-8000-000000000000-latch-");
    let javas = other.create(&javas, "java", CreateMode::EphemeralSequential).await.expect("created");
    let worse = ranked(&one, path, "worse", 5);
    line_becomes(&leader, &["plain", "java", "worse"]).await;
    let better = ranked(&other, path, "better", 1);
    line_becomes(&leader, &["plain", "java", "worse", "better"]).await;
    other.delete(&javas, None).await.expect("it exists");
    line_becomes(&leader, &["plain", "better", "worse"]).await;
    leader.close().await.expect("closed");
    leads(&better).await;

    let best = ranked(&one, path, "best", 0);
    leads(&best).await;
    line_becomes(&best, &["best", "better", "worse"]).await;
    // A transfer lasts: those that were asked give way.
    let chosen = within("it is transferred", SOON, transfer(&other, path, "worse", WITHIN)).await.expect("transferred");
    let leadership = leads(&worse).await;
    assert_eq!((leadership.fencing_token(), chosen.priority), (chosen.fencing_token, Some(5)));
    eventually("all are in the line", SOON, || async {
        let all = worse.participants().await.expect("read");
        all.len() == 3 && all[1..].iter().all(|other| other.gives_way)
    })
    .await;
    assert!(leadership.is_held());
    for latch in [worse, better, best] {
        latch.close().await.expect("closed");
    }
}

/// Each participant at a server of its own: what one has written, another may see late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_at_servers_of_their_own_that_come_and_go() {
    let ensemble = Ensemble::shared().await;
    let path = unique_path("priority-ensemble");
    let mut clients = Vec::new();
    for server in 0..3 {
        clients.push(connect(builder(&ensemble.member(server).connect_string(), T)).await);
    }
    let mut line: Vec<(u32, LeaderLatch)> = Vec::new();
    for number in 0..9 {
        let priority = number / 3;
        line.push((priority, ranked(&clients[number as usize % 3], &path, &number.to_string(), priority)));
    }
    // The best of all leads, in whatever order they enter; when it is gone, the best of those that are left.
    while let Some((best, _)) = line.first() {
        let leading = || line.iter().position(|(priority, latch)| priority == best && latch.has_leadership());
        eventually("one of the best leads", SOON, || async { leading().is_some() }).await;
        let at = leading().expect("none is better");
        line.remove(at).1.close().await.expect("closed");
    }
}
