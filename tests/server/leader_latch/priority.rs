//! Participants with priorities, on a real server and in a real ensemble.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LeaderLatch, ask_to_resign, transfer};
use zookeeper_recipes::{Client, CreateMode, ErrorPolicy};

use super::fixture::{
    Fixture, SOON, builder, can_be_asked, connect, eventually, latch, leads, line_becomes, waits, within,
};
use crate::support::{Ensemble, unique_path};

const WITHIN: Duration = Duration::from_secs(15);
const T: Duration = Duration::from_secs(10);

fn ranked(client: &Client, path: &str, id: &str, priority: u32) -> LeaderLatch {
    revocable(client, path, id, priority, Duration::ZERO)
}

/// A participant that leads for `grace` after it was asked to resign.
fn revocable(client: &Client, path: &str, id: &str, priority: u32, grace: Duration) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, path).id(id).priority(priority).revocable(grace);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_made_room_for_a_chosen_one_lead_in_their_order_when_that_is_gone() {
    let fixture = Fixture::new("priority-transfer").await;
    let (one, other) = (fixture.client().await, fixture.client().await);
    let path = fixture.path.as_str();
    let mut line = Vec::new();
    for (client, (id, priority)) in
        [&one, &other, &one, &other].into_iter().zip([("a", 1), ("b", 2), ("z", 9), ("c", 3)])
    {
        let latch = ranked(client, path, id, priority);
        can_be_asked(client, &latch).await;
        line.push(latch);
    }
    // One is behind the chosen one, and precedes it.
    within("it is transferred", SOON, transfer(&other, path, "z", WITHIN)).await.expect("transferred");
    let leadership = leads(&line[2]).await;
    eventually("the best is next", SOON, || async {
        let all = line[2].participants().await.expect("read");
        all.len() == 4 && all[1].id == "a" && all[1..].iter().all(|other| other.gives_way)
    })
    .await;
    assert!(leadership.is_held());
    for (gone, next) in [(2, "a"), (0, "b"), (0, "c")] {
        line.remove(gone).close().await.expect("closed");
        let latch = line.iter().find(|latch| latch.id() == next).expect("it is in the line");
        leads(latch).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_asks_after_a_participant_and_a_leader_that_can_be_asked_only_later() {
    let fixture = Fixture::new("priority-operator").await;
    let (one, other) = (fixture.client().await, fixture.client().await);
    let path = fixture.path.as_str();
    // Long enough for the operator to ask before it is over.
    let worse = revocable(&one, path, "worse", 5, T / 2);
    can_be_asked(&one, &worse).await;
    let leadership = leads(&worse).await;
    let better = ranked(&other, path, "better", 1);
    within("a participant asks", SOON, leadership.on_revoke()).await.expect("it leads");
    let node = worse.our_path().expect("it leads");
    assert!(ask_to_resign(&other, &node).await.expect("asked"));
    leads(&better).await;
    eventually("it gives way", SOON, || async {
        worse.participants().await.expect("read").last().is_some_and(|last| last.id == "worse" && last.gives_way)
    })
    .await;

    // As if the leader had not come to create its node of requests yet.
    let node = better.our_path().expect("it leads").replace(path, &format!("{path}-requests")) + "-request";
    can_be_asked(&other, &better).await;
    other.delete(&node, None).await.expect("it exists");
    let best = ranked(&one, path, "best", 0);
    leads(&best).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_reconnect_those_that_wait_watch_again_and_list_nothing() {
    let fixture = Fixture::new("priority-reconnect").await;
    let (proxy, client) = fixture.client_behind_proxy(T, ErrorPolicy::Session).await;
    let other = fixture.client().await;
    let leader = latch(&other, &fixture.path, "leader");
    leads(&leader).await;
    let mut line = Vec::new();
    for number in 0..10 {
        let latch = LeaderLatch::builder(&client, &fixture.path).id(number.to_string()).priority(5).start();
        let latch = latch.expect("the latch starts");
        waits(&latch).await;
        line.push(latch);
    }
    let sent = || client.request_counts();
    // Each lists when it enters, and once more to learn which two are before it.
    let all = line.len() as u64;
    eventually("all compare", SOON, || async { sent().lists >= 2 * all }).await;
    let before = sent();
    proxy.cut().await;
    // The node before each, those two, and what the next in line watches: its own node and the line.
    eventually("all watch again", SOON, || async { (sent() - before).watches >= 3 * all }).await;
    let sent = sent() - before;
    // Whose answer was under way when the connection ended lists once more.
    assert!(sent.lists < all / 2, "{sent:?}");
    let best = ranked(&other, &fixture.path, "best", 1);
    line_becomes(&best, &["leader", "best", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]).await;
    leader.close().await.expect("closed");
    leads(&best).await;
}
