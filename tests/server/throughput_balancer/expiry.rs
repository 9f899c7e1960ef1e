//! Members and leaders whose sessions end, or that are cut off from the servers.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::set_max_throughput;

use super::fixture::{Fixture, SOON, eager, have, joined, member};
use crate::support::{Fault, eventually, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_session_is_killed_registers_again_and_its_limiter_follows() {
    let fixture = Fixture::new("killed").await;
    let base = fixture.path.as_str();
    let client = fixture.client().await;
    set_max_throughput(&client, base, 1_000).await.expect("set");
    let one = member(&client, base).await;
    let (proxy, other) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let limiter = ShareLimiter::new(0);
    let two = joined(eager(&other, base).limiter(&limiter)).await;
    have(&[&one, &two], &[500, 500], 1000).await;
    assert_eq!(limiter.rate(), 500);
    let old = two.member_id().expect("it is registered");
    // First it receives nothing, then its session is ended: it drops its share by its own clock.
    proxy.set(Fault::BlackHole).await;
    within("it is closed", SOON, async {
        while limiter.rate() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    proxy.kill_session().await;
    have(&[&one, &two], &[1000, 0], 1000).await;
    proxy.set(Fault::Pass).await;
    have(&[&one, &two], &[500, 500], 1000).await;
    assert_eq!(limiter.rate(), 500);
    assert_ne!(two.member_id(), Some(old));
    within("a permit", SOON, limiter.acquire(1)).await.expect("a burst of one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_has_nothing_before_others_have_its_share_whether_it_leads_or_not() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        for leads in [false, true] {
            let fixture = Fixture::new("cutoff").await;
            let base = fixture.path.as_str();
            let (proxy, client) = fixture.client_behind_proxy(SESSION, policy).await;
            set_max_throughput(&client, base, 1_000).await.expect("set");
            let other = fixture.client().await;
            let (cut, stays) = if leads {
                let cut = member(&client, base).await;
                (cut, member(&other, base).await)
            } else {
                let stays = member(&other, base).await;
                (member(&client, base).await, stays)
            };
            have(&[&cut, &stays], &[500, 500], 1000).await;
            assert_eq!(cut.is_leader(), leads);
            proxy.set(Fault::BlackHole).await;
            have(&[&cut, &stays], &[0, 1000], 1000).await;
            assert!(stays.is_leader() && !cut.is_leader());
            proxy.set(Fault::Pass).await;
            have(&[&cut, &stays], &[500, 500], 1000).await;
            assert!(stays.is_leader());
            eventually("no other member is there", SOON, || async {
                super::fixture::nodes(&fixture, base).await == [2, 2, 2]
            })
            .await;
        }
    }
}
