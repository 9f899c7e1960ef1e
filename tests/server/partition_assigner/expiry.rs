//! Members and leaders whose sessions end, or that are cut off from the servers.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, SOON, counts, have, member, no_two_own, nodes, tokens};
use crate::support::{Fault, eventually, unique_path, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_session_is_killed_holds_again_with_greater_tokens() {
    for leads in [false, true] {
        let fixture = Fixture::new("killed").await;
        let base = fixture.path.as_str();
        let (proxy, other) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
        let client = fixture.client().await;
        let (one, two) = if leads {
            let two = member(&other, base, "two").await;
            (member(&client, base, "one").await, two)
        } else {
            let one = member(&client, base, "one").await;
            (one, member(&other, base, "two").await)
        };
        have(&[&one, &two], &[6, 6]).await;
        assert_eq!(two.is_leader(), leads);
        let before = tokens(&[&two]);
        // First it receives nothing, then its session is ended: it drops everything by its own clock.
        proxy.set(Fault::BlackHole).await;
        within("its lease ends", SOON, async {
            while counts(&[&two]) != [0] {
                no_two_own(&[&one, &two]);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        proxy.kill_session().await;
        have(&[&one, &two], &[12, 0]).await;
        proxy.set(Fault::Pass).await;
        have(&[&one, &two], &[6, 6]).await;
        let after = tokens(&[&two]);
        let is_later = |(name, token): (&String, &i64)| before.get(name).is_none_or(|before| token > before);
        assert!(after.iter().all(is_later), "{after:?} after {before:?}");
        eventually("no other nodes are there", SOON, || async {
            nodes(&fixture.observer, base).await == [2, 2, 12, 2]
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_has_nothing_before_others_have_it_whether_it_leads_or_not() {
    let fixture = Fixture::new("cutoff").await;
    let fixture = &fixture;
    let cases = [ErrorPolicy::Standard, ErrorPolicy::Session].map(|policy| [(policy, false), (policy, true)]);
    let cases = cases.concat().into_iter().map(async |(policy, leads)| {
        let base = unique_path("cutoff");
        let (proxy, client) = fixture.client_behind_proxy(SESSION, policy).await;
        let other = fixture.client().await;
        let (cut, stays) = if leads {
            let cut = member(&client, &base, "cut").await;
            (cut, member(&other, &base, "stays").await)
        } else {
            let stays = member(&other, &base, "stays").await;
            (member(&client, &base, "cut").await, stays)
        };
        have(&[&cut, &stays], &[6, 6]).await;
        assert_eq!(cut.is_leader(), leads);
        let before = tokens(&[&cut, &stays]);
        proxy.set(Fault::BlackHole).await;
        have(&[&cut, &stays], &[0, 12]).await;
        assert!(stays.is_leader() && !cut.is_leader());
        let after = tokens(&[&stays]);
        assert!(after.iter().all(|(name, token)| *token >= before[name]), "{after:?} after {before:?}");
        proxy.set(Fault::Pass).await;
        have(&[&cut, &stays], &[6, 6]).await;
        assert!(stays.is_leader());
        eventually("no other nodes are there", SOON, || async {
            nodes(&fixture.observer, &base).await == [2, 2, 12, 2]
        })
        .await;
    });
    join_all(cases).await;
}

/// A connection that breaks and comes back within the session moves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_that_the_session_survives_moves_nothing() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let fixture = Fixture::new("briefly").await;
        let base = fixture.path.as_str();
        let (proxy, client) = fixture.client_behind_proxy(SESSION * 3, policy).await;
        let one = member(&client, base, "one").await;
        let two = member(&fixture.client().await, base, "two").await;
        have(&[&one, &two], &[6, 6]).await;
        let before = tokens(&[&one, &two]);
        for _ in 0..3 {
            let connections = proxy.accepted();
            proxy.cut().await;
            eventually("it is back", SOON, || async { proxy.accepted() > connections }).await;
            have(&[&one, &two], &[6, 6]).await;
            within("it is settled", SOON, one.settled()).await.expect("it has not left");
        }
        assert_eq!(tokens(&[&one, &two]), before);
    }
}
