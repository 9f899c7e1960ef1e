//! Never more than the maximum: members that are slow, stand still or are cut off, and leaders that die half way.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::throughput_balancer::{Event, OnSuspended, ThroughputBalancer, set_max_throughput};

use super::fixture::{BASE, Slow, all_joined, eager, have, have_within, joined, records, setup, throughput};
use crate::fixture::{SOON, T, client_with, polled, within};

/// The events until now.
pub(super) fn told(events: &mut zookeeper_recipes::throughput_balancer::Events) -> Vec<Event> {
    std::iter::from_fn(|| events.next().now_or_never().flatten()).collect()
}

fn sum(members: &[&ThroughputBalancer]) -> u64 {
    members.iter().map(|member| throughput(member)).sum()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_has_not_applied_its_lowered_share_blocks_what_it_holds_and_is_told_of() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut events = one.events();
    let mut slow = Slow::of(&two);
    assert_eq!(slow.given().await, 500);
    let three = joined(&clients[2]).await;
    server.until(|| throughput(&three) == 167).await;
    // The rest is soon divided among the other members alone.
    have(&server, &[&one, &two, &three], &[250, 333, 250]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!((throughput(&one), throughput(&three)), (250, 250));
    let unacked = Event::Unacked { member: two.member_id().expect("it is registered"), held: 500 };
    assert!(told(&mut events).contains(&unacked));
    slow.apply(2);
    assert_eq!(slow.given().await, 333);
    have(&server, &[&one, &two, &three], &[333, 333, 333]).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_acknowledges_by_returning() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let _listening = one.on_share(|_share| tokio::time::sleep(Duration::from_secs(20)));
    // It is told the present one, and takes its time.
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 0]).await;
    have_within(&server, Duration::from_secs(60), &[&one, &two], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_member_that_is_frozen_holds_is_given_when_its_share_is_zero_by_the_clock() {
    for leader_is_frozen in [false, true] {
        let (server, clients) = setup(3).await;
        let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
        have(&server, &[&one, &two], &[500, 500]).await;
        let (still, other) = if leader_is_frozen { (0, &two) } else { (1, &one) };
        server.freeze_client(&clients[still]);
        let three = joined(&clients[2]).await;
        let begun = tokio::time::Instant::now();
        while throughput(other) != 500 || throughput(&three) != 500 {
            assert!(sum(&[&one, &two, &three]) <= 1000, "{:#?}", records(&server));
            assert!(begun.elapsed() < T * 3, "{:#?}", records(&server));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.thaw_client(&clients[still]);
        have_within(&server, T, &[&one, &two, &three], &[333, 333, 333]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_drops_to_zero_before_others_have_its_share() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.black_hole(&clients[1]);
    let begun = tokio::time::Instant::now();
    while throughput(&one) != 1000 {
        assert!(sum(&[&one, &two]) <= 1000 && begun.elapsed() < T * 3);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.heal();
    have_within(&server, T, &[&one, &two], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lowering_is_reckoned_with_by_the_next_leader_as_by_the_one_that_died_in_it() {
    let (server, clients) = setup(4).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut slow = Slow::of(&two);
    assert_eq!(slow.given().await, 500);
    let three = joined(&clients[2]).await;
    have(&server, &[&one, &two, &three], &[250, 333, 250]).await;
    // The leader dies; the next one knows from the nodes alone that 500 may still be applied.
    clients[0].close().await.expect("closed");
    have(&server, &[&two, &three], &[500, 500]).await;
    let four = joined(&clients[3]).await;
    have(&server, &[&two, &three, &four], &[333, 250, 250]).await;
    assert!(two.is_leader());
    slow.apply(10);
    have(&server, &[&two, &three, &four], &[333, 333, 333]).await;
}

#[tokio::test(start_paused = true)]
async fn a_take_over_rewrites_nothing_that_is_right() {
    let (server, clients) = setup(3).await;
    let members = all_joined(&clients).await;
    have(&server, &members.iter().collect::<Vec<_>>(), &[333; 3]).await;
    let before = records(&server);
    // Its place in the line of leaders is deleted by hand: the next one leads, and finds everything as it should be.
    let line = server.children("/throughput/leader");
    let first = line.iter().min_by_key(|name| name.rsplit('-').next().map(str::to_owned)).expect("a leader");
    server.delete_by_hand(&format!("/throughput/leader/{first}")).expect("deleted");
    tokio::time::sleep(SOON).await;
    assert!(!members[0].is_leader() && members[1].is_leader());
    assert_eq!(records(&server), before);
}

#[tokio::test(start_paused = true)]
async fn a_lowered_maximum_is_exceeded_for_a_moment_which_is_told_and_a_raised_one_is_not() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut events = one.events();
    two.set_max_throughput(300).await.expect("set");
    have(&server, &[&one, &two], &[150, 150]).await;
    assert_eq!(
        told(&mut events),
        [Event::Exceeded { maximum: 300, by: 700 }, Event::Settled { maximum: 300, members: 2, shared: 300 },]
    );
    one.set_max_throughput(u64::from(u32::MAX)).await.expect("set");
    have(&server, &[&one, &two], &[2_147_483_647; 2]).await;
    let settled = Event::Settled { maximum: u64::from(u32::MAX), members: 2, shared: 4_294_967_294 };
    assert_eq!(told(&mut events), [settled]);
    one.set_max_throughput(0).await.expect("set");
    have(&server, &[&one, &two], &[0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_without_a_lease_is_the_members_own_choice() {
    for (policy, applied) in [
        (OnSuspended::Zero, 0),
        (OnSuspended::Keep, 500),
        (OnSuspended::AtMost(70), 70),
        (OnSuspended::AtMost(900), 500),
    ] {
        let (server, clients) = setup(2).await;
        let one = joined(&clients[0]).await;
        let two = eager(&clients[1]).on_suspended(policy).join().await.expect("it joins");
        have(&server, &[&one, &two], &[500, 500]).await;
        server.refuse(&clients[1]);
        server.disconnect(&clients[1]);
        have_within(&server, T, &[&two], &[applied]).await;
        assert!(!two.share().get().is_current());
        tokio::time::sleep(T * 2).await;
        assert_eq!(throughput(&two), applied);
        server.heal();
        have_within(&server, T, &[&one, &two], &[500, 500]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reserved_for_what_a_member_applies_without_a_lease() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    let two = eager(&clients[1]).on_suspended(OnSuspended::AtMost(70)).join().await.expect("it joins");
    have(&server, &[&one, &two], &[500, 500]).await;
    server.refuse(&clients[1]);
    server.disconnect(&clients[1]);
    have_within(&server, T * 2, &[&one, &two], &[1000, 70]).await;
    server.heal();
    have_within(&server, T, &[&one, &two], &[500, 500]).await;
    two.leave().await;
    have(&server, &[&one], &[1000]).await;
}

#[tokio::test(start_paused = true)]
async fn a_maximum_that_was_lowered_without_a_leader_is_applied_without_waiting() {
    let (server, clients) = setup(3).await;
    let patient = |client| ThroughputBalancer::builder(client, BASE).debounce(T * 10, T * 10);
    let one = joined(&clients[0]).await;
    let two = patient(&clients[1]).join().await.expect("it joins");
    have(&server, &[&one, &two], &[500, 500]).await;
    server.freeze_client(&clients[0]);
    set_max_throughput(&clients[2], BASE, 300).await.expect("set");
    have_within(&server, T * 2, &[&two], &[300]).await;
    assert!(two.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_leads_until_it_is_gone() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut slow = Slow::of(&one);
    assert_eq!(slow.given().await, 500);
    let mut leaving = Box::pin(one.leave());
    assert!(polled(1, &mut leaving).await.is_none(), "a member still applies its share");
    let three = joined(&clients[2]).await;
    have(&server, &[&one, &two, &three], &[0, 250, 250]).await;
    assert!(one.is_leader());
    drop(slow);
    leaving.await;
    have(&server, &[&two, &three], &[500, 500]).await;
    assert!(two.is_leader());
}

#[tokio::test(start_paused = true)]
async fn after_a_short_cut_the_share_is_there_again_under_the_same_name() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let name = two.member_id();
    for client in &clients {
        server.disconnect(client);
        have(&server, &[&one, &two], &[500, 500]).await;
    }
    assert_eq!(two.member_id(), name);
}

#[tokio::test(start_paused = true)]
async fn whatever_reply_is_lost_to_a_leader_or_a_member_all_members_have_their_shares_in_the_end() {
    for operation in
        [None, Some(Operation::Create), Some(Operation::Multi), Some(Operation::GetData), Some(Operation::List)]
    {
        for loss in [Loss::Applied, Loss::NotApplied] {
            for victim in 0..3 {
                let (server, clients) = setup(3).await;
                let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
                have(&server, &[&one, &two], &[500, 500]).await;
                server.lose_next_reply(&clients[victim], operation, loss);
                let three = eager(&clients[2]).join().await.expect("it joins");
                have_within(&server, T * 2, &[&one, &two, &three], &[333; 3]).await;
                let case = format!("{operation:?} {loss:?} {victim}: {:#?}", records(&server));
                assert_eq!(server.children("/throughput/client").len(), 3, "{case}");
                assert_eq!(server.children("/throughput/ack").len(), 3, "{case}");
                for member in [&one, &two, &three] {
                    member.leave().await;
                }
                assert_eq!(records(&server), Vec::<String>::new());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_the_session_policy_a_share_outlasts_a_short_cut_and_ends_with_the_lease() {
    let (server, _clients) = setup(1).await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let member = joined(&client).await;
    have(&server, &[&member], &[1000]).await;
    let mut shares = member.share();
    shares.mark_unchanged();
    for _ in 0..3 {
        server.disconnect(&client);
        tokio::time::sleep(SOON).await;
        assert_eq!(throughput(&member), 1000);
    }
    assert!(!shares.has_changed(), "an unchanged share is not reported");
    server.refuse(&client);
    server.disconnect(&client);
    let zero = member.share();
    within("the lease ends", T, async { zero.clone().wait_for(|share| share.throughput() == 0).await.map(drop) })
        .await
        .expect("the member is there");
    server.heal();
    have_within(&server, T * 3, &[&member], &[1000]).await;
}

#[tokio::test(start_paused = true)]
async fn the_events_end_when_the_member_has_left_or_its_client_is_closed() {
    for closed in [false, true] {
        let (_server, clients) = setup(1).await;
        let member = joined(&clients[0]).await;
        let events = member.events();
        if closed {
            clients[0].close().await.expect("closed");
        } else {
            member.leave().await;
        }
        within("they end", T, events.collect::<Vec<_>>()).await;
        assert!(within("they have ended", SOON, member.events().collect::<Vec<_>>()).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_a_listener_is_kept_by_the_client() {
    let (server, clients) = setup(1).await;
    let member = joined(&clients[0]).await;
    have(&server, &[&member], &[1000]).await;
    server.deny(&format!("{BASE}/client"));
    server.expire_session(&clients[0]);
    let error = async {
        loop {
            match clients[0].last_error() {
                Some(error) if error.to_string().contains("throughput") => return error,
                _ => tokio::time::sleep(SOON).await,
            }
        }
    };
    let error = within("the error is reported", T * 3, error).await;
    assert!(error.to_string().contains("permission"), "{error}");
    server.allow(&format!("{BASE}/client"));
    have_within(&server, T * 9, &[&member], &[1000]).await;
}
