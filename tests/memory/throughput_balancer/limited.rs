//! A limiter that follows the share: never ahead of what was acknowledged, and never past the lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::limiter::{Error as LimiterError, ShareLimiter};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::{OnSuspended, ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{BASE, eager, have, have_within, joined, node, setup};
use crate::fixture::{SOON, T, polled, within};

async fn limited(client: &Client, limiter: &ShareLimiter) -> ThroughputBalancer {
    within("it joins", SOON, eager(client).limiter(limiter).join()).await.expect("it joins")
}

/// The number behind a name in a member's record.
fn number(record: &[u8], name: &str) -> Option<u64> {
    let record = String::from_utf8_lossy(record);
    let (_, rest) = record.split_once(&format!(r#""{name}":"#))?;
    rest.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn it_grants_the_share_and_nothing_from_the_moment_on_at_which_the_member_leaves_or_is_dropped() {
    for dropped in [false, true] {
        let (server, clients) = setup(2).await;
        // Whatever it was before.
        let limiter = ShareLimiter::new(1_000_000);
        let one = limited(&clients[0], &limiter).await;
        have(&server, &[&one], &[1000]).await;
        let two = joined(&clients[1]).await;
        have(&server, &[&one, &two], &[500, 500]).await;
        assert_eq!(limiter.rate(), 500);
        limiter.acquire(1).await.expect("a burst of one");
        let begun = Instant::now();
        for _ in 0..100 {
            limiter.acquire(1).await.expect("a burst of one");
        }
        assert_eq!(begun.elapsed(), Duration::from_millis(190), "500 a second, and five were there");
        if dropped {
            drop(one);
        } else {
            let leaving = one.leave();
            tokio::pin!(leaving);
            assert!(futures::poll!(leaving.as_mut()).is_pending());
            assert_eq!(limiter.rate(), 0, "at once");
            leaving.await;
        }
        assert_eq!(limiter.rate(), 0);
        have(&server, &[&two], &[1000]).await;
        assert_eq!(limiter.rate(), 0, "the next share is none of its member's");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lowered_share_is_acknowledged_only_when_the_limiter_grants_no_more() {
    let world: Arc<OnceLock<TestingServer>> = Arc::default();
    let (limiter, looks) = (ShareLimiter::new(0), Arc::new(AtomicU64::new(0)));
    let (seen, asked, counted) = (Arc::clone(&world), limiter.clone(), Arc::clone(&looks));
    let server = TestingServer::builder()
        .after_each_step(move || {
            let Some(server) = seen.get() else { return };
            let record = server.get("/throughput/client/client-0000000000").unwrap_or_default();
            let values = ["epoch", "sequence", "throughput"].map(|name| number(&record, name));
            let [Some(epoch), Some(sequence), Some(throughput)] = values else { return };
            let acknowledged = format!("client-0000000000~{epoch}.{sequence}");
            if epoch > 0 && server.children("/throughput/ack").contains(&acknowledged) {
                assert!(asked.rate() <= throughput, "{} where {throughput} is acknowledged", asked.rate());
                counted.fetch_add(1, Ordering::Relaxed);
            }
        })
        .start();
    world.set(server.clone()).expect("once");
    let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
    set_max_throughput(&clients[0], BASE, 1_000).await.expect("set");
    let one = limited(&clients[0], &limiter).await;
    have(&server, &[&one], &[1000]).await;
    for _ in 0..5 {
        let two = joined(&clients[1]).await;
        have(&server, &[&one, &two], &[500, 500]).await;
        assert_eq!(limiter.rate(), 500);
        two.leave().await;
        have(&server, &[&one], &[1000]).await;
        assert_eq!(limiter.rate(), 1000);
    }
    assert!(looks.load(Ordering::Relaxed) > 50, "acknowledged shares were seen");
    assert_eq!(server.panics(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_it_grants_what_the_member_chose_also_while_the_process_is_frozen() {
    for (policy, granted) in [(OnSuspended::Zero, 0), (OnSuspended::Keep, 500), (OnSuspended::AtMost(70), 70)] {
        for frozen in [false, true] {
            let (server, clients) = setup(2).await;
            let limiter = ShareLimiter::new(0);
            let one = joined(&clients[0]).await;
            let builder = eager(&clients[1]).on_suspended(policy).limiter(&limiter);
            let two = builder.join().await.expect("it joins");
            have(&server, &[&one, &two], &[500, 500]).await;
            if frozen {
                server.freeze_client(&clients[1]);
            } else {
                server.refuse(&clients[1]);
                server.disconnect(&clients[1]);
            }
            // No task of the client runs meanwhile: only the clock decides.
            sleep(T).await;
            assert_eq!(limiter.rate(), granted, "{policy:?}, frozen: {frozen}");
            sleep(T).await;
            assert_eq!(limiter.rate(), granted, "{policy:?}, frozen: {frozen}");
            server.thaw_client(&clients[1]);
            server.heal();
            have_within(&server, T, &[&one, &two], &[500, 500]).await;
            assert_eq!(limiter.rate(), 500);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_permit_when_the_session_is_lost_gets_it_from_the_next_share() {
    let (server, clients) = setup(1).await;
    let limiter = ShareLimiter::new(0);
    let member = limited(&clients[0], &limiter).await;
    have(&server, &[&member], &[1000]).await;
    assert!(server.expire_session(&clients[0]));
    server.refuse(&clients[0]);
    server.disconnect(&clients[0]);
    server.until(|| limiter.rate() == 0).await;
    // The accumulated permits are lost with the share.
    let waits = limiter.acquire(1);
    tokio::pin!(waits);
    assert!(tokio::time::timeout(T, waits.as_mut()).await.is_err());
    server.heal();
    within("a permit", T, waits).await.expect("a burst of one");
    assert_eq!((limiter.rate(), member.member_id().as_deref()), (1000, Some("client-0000000001")));
}

#[tokio::test(start_paused = true)]
async fn when_the_members_node_is_deleted_by_hand_it_is_closed_until_the_next_share() {
    let (server, clients) = setup(2).await;
    let limiter = ShareLimiter::new(0);
    let (one, two) = (joined(&clients[0]).await, limited(&clients[1], &limiter).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.delete_by_hand(&node(&two)).expect("deleted");
    within("it is closed", SOON, server.until(|| limiter.rate() == 0)).await;
    have_within(&server, T * 2, &[&one, &two], &[500, 500]).await;
    assert_eq!(limiter.rate(), 500);
}

#[tokio::test(start_paused = true)]
async fn until_the_first_share_and_after_a_failed_join_it_grants_nothing() {
    let (server, clients) = setup(1).await;
    server.create_by_hand("/throughput/client", "", CreateMode::Persistent).expect("created");
    server.deny("/throughput/client");
    let limiter = ShareLimiter::new(70);
    let error = within("an answer", SOON, eager(&clients[0]).limiter(&limiter).join()).await;
    assert_eq!((error.expect_err("no permission").kind(), limiter.rate()), (ErrorKind::NoAuth, 0));
    // There is no server: it waits.
    server.stop();
    sleep(SOON).await;
    limiter.set_rate(70).expect("no member drives it");
    let joining = eager(&clients[0]).limiter(&limiter).join();
    tokio::pin!(joining);
    assert!(futures::poll!(joining.as_mut()).is_pending());
    assert_eq!(limiter.rate(), 0);
}

#[tokio::test(start_paused = true)]
async fn joining_dropped_at_any_poll_closes_it() {
    for times in 1..24 {
        let (server, clients) = setup(1).await;
        let limiter = ShareLimiter::new(70);
        let joined = polled(times, eager(&clients[0]).limiter(&limiter).join()).await;
        if let Some(joined) = &joined {
            have(&server, &[joined.as_ref().expect("it joins")], &[1000]).await;
            assert_eq!(limiter.rate(), 1000);
        }
        drop(joined);
        assert_eq!(limiter.rate(), 0, "after {times} polls");
        sleep(SOON).await;
        assert_eq!(limiter.rate(), 0, "after {times} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn only_its_member_sets_the_rate_until_that_is_dropped() {
    let (server, clients) = setup(2).await;
    let limiter = ShareLimiter::new(70);
    let one = limited(&clients[0], &limiter).await;
    have(&server, &[&one], &[1000]).await;
    let error = eager(&clients[1]).limiter(&limiter).join().await.expect_err("it is taken");
    assert!(error.to_string().contains("follows another member"), "{error}");
    // The next one can have it at once, also while the one before is on its way out.
    drop(one);
    let two = limited(&clients[1], &limiter).await;
    have(&server, &[&two], &[1000]).await;
    let lease = Arc::new(());
    let held = Arc::clone(&lease);
    let refused = [
        limiter.set_rate(5_000),
        limiter.set_rate_while(5_000, move || Arc::strong_count(&held) > 0),
        limiter.set_rate_until(5_000, Instant::now() + T),
    ];
    assert_eq!(refused, [Err(LimiterError::Driven); 3]);
    assert_eq!((limiter.rate(), Arc::strong_count(&lease)), (1000, 1), "nothing has changed, and nothing is kept");

    two.leave().await;
    assert_eq!(limiter.rate(), 0);
    limiter.set_rate(70).expect("its member has left");
    drop(two);
    sleep(T).await;
    assert_eq!(limiter.rate(), 70);
}

#[tokio::test(start_paused = true)]
async fn a_closed_one_stays_closed_whatever_its_member_is_given() {
    let (server, clients) = setup(2).await;
    let limiter = ShareLimiter::new(0);
    let one = limited(&clients[0], &limiter).await;
    have(&server, &[&one], &[1000]).await;
    limiter.close();
    assert_eq!(limiter.acquire(1).await, Err(LimiterError::Closed));
    let error = eager(&clients[1]).limiter(&limiter).join().await.expect_err("it is of no use");
    assert!(error.to_string().contains("the limiter is closed"), "{error}");
    // Its member acknowledges nevertheless, or the other one would have nothing.
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 500]).await;
    one.leave().await;
    have(&server, &[&two], &[1000]).await;
    assert_eq!((limiter.rate(), limiter.try_acquire(1)), (0, Err(LimiterError::Closed)));
    assert_eq!(limiter.set_rate(1), Err(LimiterError::Closed));
}
