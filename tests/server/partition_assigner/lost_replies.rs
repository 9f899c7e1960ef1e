//! Requests and answers that get lost, of leaders and members: never two that hold a partition, and in the end all is
//! right.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, SOON, eager, for_each_loss, have, lose, member, nodes};
use crate::support::{OpCode, eventually, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy)]
enum Victim {
    Leader,
    Member,
    Joiner,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_each_partition_has_one_owner_in_the_end() {
    let fixture = Fixture::new("lossy").await;
    let fixture = &fixture;
    for (op, victim) in [
        (OpCode::Multi, Victim::Leader),
        (OpCode::GetChildren2, Victim::Leader),
        (OpCode::GetData, Victim::Leader),
        (OpCode::Multi, Victim::Member),
        (OpCode::GetData, Victim::Member),
        (OpCode::Multi, Victim::Joiner),
        (OpCode::Create2, Victim::Joiner),
    ] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} of the {victim:?} lost by {how:?}");
            let base = unique_path("lossy");
            let (leaders, leader) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (members, other) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (joiners, joiner) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (one, two) = (member(&leader, &base, "one").await, member(&other, &base, "two").await);
            have(&[&one, &two], &[6, 6]).await;
            let proxy = match victim {
                Victim::Leader => &leaders,
                Victim::Member => &members,
                Victim::Joiner => &joiners,
            };
            let fault = lose(proxy, what, op, how);
            let three =
                within(&format!("{case}: joins"), SOON, eager(&joiner, &base, "three").join()).await.expect("it joins");
            have(&[&one, &two, &three], &[4, 4, 4]).await;
            within(&format!("{case}: fired"), SOON, fault.fired()).await;
            // Also those who had the right ones before it was fired.
            have(&[&one, &two, &three], &[4, 4, 4]).await;
            eventually(&format!("{case}: all nodes"), SOON, || async {
                nodes(&fixture.observer, &base).await == [3, 3, 12, 3]
            })
            .await;
            for member in [three, two, one] {
                within(&case, SOON, member.leave()).await;
            }
            nothing_is_left(fixture, &base, &case).await;
        })
        .await;
    }
}

/// The answers of a member that leaves, and of one that hands over to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_while_a_member_leaves_its_partitions_have_one_owner_in_the_end() {
    let fixture = Fixture::new("lossy").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} of a transaction of one that leaves lost by {how:?}");
        let base = unique_path("lossy");
        let (proxy, leaver) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let one = member(&fixture.client().await, &base, "one").await;
        let two = member(&leaver, &base, "two").await;
        have(&[&one, &two], &[6, 6]).await;
        let fault = lose(&proxy, what, OpCode::Multi, how);
        within(&case, SOON, two.leave()).await;
        within(&format!("{case}: fired"), SOON, fault.fired()).await;
        have(&[&one, &two], &[12, 0]).await;
        eventually(&case, SOON, || async { nodes(&fixture.observer, &base).await == [1, 1, 12, 1] }).await;
    })
    .await;
}

/// All have left: nothing of them may stay.
async fn nothing_is_left(fixture: &Fixture, base: &str, case: &str) {
    let left = tokio::time::timeout(SOON, async {
        while nodes(&fixture.observer, base).await != [0; 4] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    if left.await.is_err() {
        let names = ["members", "assignments", "owned", "leader"].map(|dir| format!("{base}/{dir}"));
        let names = names.map(async |dir| fixture.observer.children(&dir).await);
        panic!("{case}: left: {:?}", futures::future::join_all(names).await);
    }
}
