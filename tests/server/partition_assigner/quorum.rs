//! Three servers that lose their quorum, or the server that serves a member.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{SOON, builder, connect, counts, have, member, no_two_own, nodes, tokens};
use crate::support::{Ensemble, Observer, unique_path, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_held_and_afterwards_everything_is() {
    let ensemble = Ensemble::start().await;
    let base = unique_path("quorum");
    let mut members = Vec::new();
    for (id, policy) in [("one", ErrorPolicy::Standard), ("two", ErrorPolicy::Session), ("three", ErrorPolicy::Session)]
    {
        let client = connect(builder(&ensemble.connect_string(), SESSION).error_policy(policy)).await;
        members.push(member(&client, &base, id).await);
    }
    let all: Vec<_> = members.iter().collect();
    have(&all, &[4, 4, 4]).await;
    let before = tokens(&all);

    // Frozen servers end no connection: only the clocks of the members tell that there is no quorum.
    ensemble.pause(0).await;
    ensemble.pause(1).await;
    nothing_is_held(&all).await;
    ensemble.unpause(0).await;
    ensemble.unpause(1).await;
    have(&all, &[4, 4, 4]).await;
    let between = tokens(&all);
    assert!(between.iter().all(|(name, token)| *token >= before[name]), "{between:?} after {before:?}");

    // Killed ones end all connections to them.
    let leader = ensemble.leader().await;
    ensemble.kill(leader).await;
    ensemble.kill((leader + 1) % 3).await;
    nothing_is_held(&all).await;
    ensemble.start_again(leader).await;
    have(&all, &[4, 4, 4]).await;
    ensemble.start_again((leader + 1) % 3).await;
    ensemble.wait_for_quorum().await;
    have(&all, &[4, 4, 4]).await;
    let after = tokens(&all);
    assert!(after.iter().all(|(name, token)| *token >= between[name]), "{after:?} after {between:?}");
    let observer = Observer::connect(&ensemble.connect_string()).await;
    for one in &members {
        within("it is settled", SOON, one.settled()).await.expect("it has not left");
    }
    assert_eq!(nodes(&observer, &base).await, [3, 3, 12, 3]);
}

async fn nothing_is_held(members: &[&zookeeper_recipes::partition_assigner::PartitionAssigner]) {
    within("nothing is held", SOON, async {
        while counts(members).iter().sum::<usize>() > 0 {
            no_two_own(members);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
