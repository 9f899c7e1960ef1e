//! Requests and answers that get lost, of leaders and members: never more than the maximum, and in the end all is
//! right.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::throughput_balancer::set_max_throughput;

use super::fixture::{Fixture, SOON, eager, for_each_loss, have, lose, member, nodes};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy)]
enum Victim {
    Leader,
    Member,
    Joiner,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_all_members_have_their_shares_in_the_end() {
    let fixture = Fixture::new("lossy").await;
    let fixture = &fixture;
    for (op, victim) in [
        (OpCode::Multi, Victim::Leader),
        (OpCode::GetChildren2, Victim::Leader),
        (OpCode::Multi, Victim::Member),
        (OpCode::GetData, Victim::Member),
        (OpCode::Create2, Victim::Joiner),
    ] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} of the {victim:?} lost by {how:?}");
            let base = unique_path("lossy");
            let (leaders, leader) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (members, other) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (joiners, joiner) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            set_max_throughput(&leader, &base, 1_000).await.expect("set");
            let (one, two) = (member(&leader, &base).await, member(&other, &base).await);
            have(&[&one, &two], &[500, 500], 1000).await;
            let proxy = match victim {
                Victim::Leader => &leaders,
                Victim::Member => &members,
                Victim::Joiner => &joiners,
            };
            let fault = lose(proxy, what, op, how);
            let three = within(&case, SOON, eager(&joiner, &base).join()).await.expect("it joins");
            have(&[&one, &two, &three], &[333, 333, 333], 1000).await;
            fault.fired().await;
            // Also those whose share was right before it was fired.
            have(&[&one, &two, &three], &[333, 333, 333], 1000).await;
            assert_eq!(nodes(fixture, &base).await, [3, 3, 3], "{case}");
            for member in [three, two, one] {
                within(&case, SOON, member.leave()).await;
            }
            assert_eq!(nodes(fixture, &base).await, [0, 0, 0], "{case}");
        })
        .await;
    }
}
