//! Three servers, and a participant at each.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::leader_latch::LeaderLatch;

use super::fixture::{A_WHILE, Handover, SOON, builder, connect, latch, leads, leads_in_the_end, line_becomes, waits};
use crate::support::{Ensemble, eventually, within};

const SESSION: Duration = Duration::from_secs(4);
const DIR: &str = "/cluster/line";

async fn participant(ensemble: &Ensemble, member: usize, id: &str) -> Arc<LeaderLatch> {
    // Bound to one server: a session that can move to another one would simply continue.
    let client = builder(&ensemble.member(member).connect_string(), SESSION);
    let client = connect(client.error_policy(ErrorPolicy::Session)).await;
    let latch = latch(&client, DIR, id);
    Arc::new(latch)
}

/// Exactly this one leads, also after a while.
async fn only(leader: &LeaderLatch, others: [&LeaderLatch; 2]) {
    let end = tokio::time::Instant::now() + A_WHILE;
    while tokio::time::Instant::now() < end {
        assert!(leader.has_leadership() && !others.iter().any(|other| other.has_leadership()));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_moves_when_the_leaders_server_is_cut_off_or_dies_and_never_two_lead() {
    let ensemble = Ensemble::start().await;
    let (serving, followers) = (ensemble.leader().await, ensemble.followers().await);
    let first = participant(&ensemble, followers[0], "first").await;
    leads(&first).await;
    let second = participant(&ensemble, serving, "second").await;
    waits(&second).await;
    let third = participant(&ensemble, followers[1], "third").await;
    waits(&third).await;

    // A server that is cut off keeps answering for a while: the clock must not be deceived.
    let term = leads(&first).await;
    let handover = Handover::watch(&first, &second);
    ensemble.cut_follower_from_leader(followers[0]).await;
    let next = leads_in_the_end(&second).await;
    let margin = handover.margin("the server of the leader is cut off").await;
    assert!(margin > Duration::ZERO && !term.is_held());
    assert!(next.fencing_token() > term.fencing_token());
    only(&second, [&first, &third]).await;
    ensemble.rejoin(followers[0]).await;
    line_becomes(&third, &["second", "third", "first"]).await;
    waits(&first).await;

    // The server that dies leads the ensemble as well.
    let handover = Handover::watch(&second, &third);
    ensemble.kill(serving).await;
    let last = within("another leads in time", SOON, leads_in_the_end(&third)).await;
    handover.margin("the server of the leader dies").await;
    assert!(last.fencing_token() > next.fencing_token() && !next.is_held());
    eventually("the first one steps down", SOON, || async { !first.has_leadership() }).await;
    only(&third, [&first, &second]).await;
    ensemble.start_again(serving).await;
    eventually("all have joined again", SOON, || async {
        third.participants().await.is_ok_and(|line| line.len() == 3)
    })
    .await;
    assert!(third.has_leadership());
}
