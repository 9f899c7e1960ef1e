//! The table of the documentation: who leads, and what each has.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::throughput_balancer::{Error, Event, max_throughput, members, set_max_throughput};

use super::fixture::{BASE, MAXIMUM, eager, have, have_within, joined, setup};
use super::transition::told;
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn members_come_and_go_and_the_maximum_changes() {
    let (server, clients) = setup(5).await;
    let c1 = joined(&clients[0]).await;
    have(&server, &[&c1], &[1000]).await;
    assert!(c1.is_leader());
    let c2 = joined(&clients[1]).await;
    have(&server, &[&c1, &c2], &[500, 500]).await;
    let c3 = joined(&clients[2]).await;
    have(&server, &[&c1, &c2, &c3], &[333, 333, 333]).await;
    let c4 = joined(&clients[3]).await;
    have(&server, &[&c1, &c2, &c3, &c4], &[250, 250, 250, 250]).await;
    assert!(c1.is_leader() && !c2.is_leader() && !c3.is_leader() && !c4.is_leader());
    let names: Vec<_> = [&c1, &c2, &c3, &c4].iter().filter_map(|member| member.member_id()).collect();
    assert_eq!(names, ["client-0000000000", "client-0000000001", "client-0000000002", "client-0000000003"]);

    clients[0].close().await.expect("closed");
    have(&server, &[&c1, &c2, &c3, &c4], &[0, 333, 333, 333]).await;
    assert!(c2.is_leader() && !c1.is_leader() && !c3.is_leader());
    within("it leaves", SOON, c4.leave()).await;
    have(&server, &[&c2, &c3, &c4], &[500, 500, 0]).await;
    c3.set_max_throughput(500).await.expect("set");
    have(&server, &[&c2, &c3], &[250, 250]).await;
    let c5 = joined(&clients[4]).await;
    have(&server, &[&c2, &c3, &c5], &[166, 166, 166]).await;
    assert!(c2.is_leader());

    let members = c5.members().await.expect("members");
    let seen: Vec<_> = members.iter().map(|member| (member.throughput, member.is_leader)).collect();
    assert_eq!(seen, [(166, true), (166, false), (166, false)]);
    assert!(server.panics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_may_not_lead_has_its_share_and_leaves_the_election_to_others() {
    let (server, clients) = setup(4).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let before = server.count(&clients[1], Operation::List);
    let follower = |client| within("it joins", SOON, eager(client).candidate(false).join());
    let two = follower(&clients[1]).await.expect("it joins");
    have(&server, &[&one, &two], &[500, 500]).await;
    assert_eq!(server.count(&clients[1], Operation::List), before, "it lists nothing");
    within("it leaves", SOON, one.leave()).await;
    have(&server, &[&one, &two], &[0, 500]).await;
    let three = follower(&clients[2]).await.expect("it joins");
    have(&server, &[&two, &three], &[500, 0]).await;
    assert!(!two.is_leader() && !three.is_leader(), "no candidate is left");
    let (mut of_two, mut of_three) = (two.events(), three.events());
    tokio::time::sleep(Duration::from_secs(6)).await;
    let undecided = Event::Undecided { member: three.member_id().expect("it is registered") };
    assert_eq!((told(&mut of_two), told(&mut of_three)), (vec![], vec![undecided]), "one of them has a share");
    let four = joined(&clients[3]).await;
    have(&server, &[&two, &three, &four], &[333; 3]).await;
    assert!(four.is_leader());
    assert_eq!(four.members().await.expect("members").iter().filter(|member| member.is_leader).count(), 1);
    within("it leaves", SOON, two.leave()).await;
    have(&server, &[&three, &four], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_does_not_say_that_it_has_no_decision() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let two = joined(&clients[1]).await;
    let mut events = two.events();
    server.refuse(&clients[1]);
    server.disconnect(&clients[1]);
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.heal();
    have_within(&server, T, &[&one, &two], &[500, 500]).await;
    let told = told(&mut events);
    assert!(!told.iter().any(|event| matches!(event, Event::Undecided { .. })), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_crashes_is_missed_when_its_session_is_over() {
    let (server, clients) = setup(3).await;
    let (c1, c2, c3) = (joined(&clients[0]).await, joined(&clients[1]).await, joined(&clients[2]).await);
    have(&server, &[&c1, &c2, &c3], &[333, 333, 333]).await;
    server.freeze_client(&clients[0]);
    have_within(&server, T * 2, &[&c1, &c2, &c3], &[0, 500, 500]).await;
    assert!(c2.is_leader() && !c1.is_leader());
    server.thaw_client(&clients[0]);
    have_within(&server, T, &[&c1, &c2, &c3], &[333, 333, 333]).await;
    assert_eq!(c1.member_id().as_deref(), Some("client-0000000003"));
    assert!(c2.is_leader());
}

#[tokio::test(start_paused = true)]
async fn weights_and_bounds_are_the_members_own() {
    use zookeeper_recipes::throughput_balancer::Allocation;
    let (server, clients) = setup(3).await;
    let fair = |client| eager(client).allocation(Allocation::FairShare);
    let a = fair(&clients[0]).join().await.expect("it joins");
    let b = fair(&clients[1]).max(100).join().await.expect("it joins");
    let c = fair(&clients[2]).weight(2).join().await.expect("it joins");
    have(&server, &[&a, &b, &c], &[300, 100, 600]).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_the_maximum_and_the_members_without_being_one() {
    let (server, clients) = setup(3).await;
    let operator = &clients[2];
    assert_eq!(max_throughput(operator, "/elsewhere").await, Ok(None));
    assert_eq!(members(operator, "/elsewhere").await, Ok(Vec::new()));
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    assert_eq!((max_throughput(operator, BASE).await, one.max_throughput().await), (Ok(Some(1_000)), Ok(Some(1_000))));
    let all = members(operator, BASE).await.expect("members");
    assert_eq!(Ok(&all), two.members().await.as_ref());
    let shown: Vec<_> = all.iter().map(|member| (member.id.as_str(), member.throughput, member.is_leader)).collect();
    assert_eq!(shown, [("client-0000000000", 500, true), ("client-0000000001", 500, false)]);
    server.set_data_by_hand(MAXIMUM, "-5").expect("set");
    let error = max_throughput(operator, BASE).await.expect_err("no maximum");
    assert!(
        matches!(error, Error::InvalidMaximum { .. }) && error.to_string().contains("\"-5\" is negative"),
        "{error}"
    );
    let error = members(operator, "no/slash").await.expect_err("no path");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
}

#[tokio::test(start_paused = true)]
async fn zero_is_a_share_too_and_a_wait_for_the_first_decision_returns_it() {
    let (server, clients) = setup(2).await;
    set_max_throughput(&clients[0], BASE, 1).await.expect("set");
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    for member in [&one, &two] {
        let mut shares = member.share();
        let decided = shares.wait_for(|share| share.is_current() && share.epoch() > 0);
        let share = within("the first decision", SOON * 4, decided).await.expect("it is a member").clone();
        assert!(share.throughput() <= 1);
    }
    have(&server, &[&one, &two], &[0, 0]).await;
}
