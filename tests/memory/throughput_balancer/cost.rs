//! The cost: requests, and when they are sent; and leaving, also half way.

use std::time::Duration;

use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::throughput_balancer::ThroughputBalancer;

use zookeeper_recipes::CreateMode;

use super::fixture::{BASE, all_joined, eager, have, have_within, joined, records, setup, throughput};
use crate::fixture::{SOON, T, polled, requests, within};

fn count(requests: &[Operation], of: Operation) -> usize {
    requests.iter().filter(|operation| **operation == of).count()
}

#[tokio::test(start_paused = true)]
async fn a_wave_costs_a_multi_for_the_lowers_one_for_the_raises_and_a_read_and_an_acknowledgement_of_each() {
    let (server, clients) = setup(10).await;
    let members = all_joined(&clients).await;
    have(&server, &members.iter().collect::<Vec<_>>(), &[100; 10]).await;
    server.clear_records();
    members[0].set_max_throughput(500).await.expect("set");
    have(&server, &members.iter().collect::<Vec<_>>(), &[50; 10]).await;
    let sent = requests(&server);
    // One for the lowers, and ten acknowledgements.
    assert_eq!(count(&sent, Operation::Multi), 11, "{sent:?}");
    assert_eq!(count(&sent, Operation::List), 1, "acknowledgements are read by one list: {sent:?}");
    // The lowered members read their node; the leader and the client that sets the maximum read that.
    assert_eq!(count(&sent, Operation::GetData), 12, "{sent:?}");
    server.clear_records();
    members[0].set_max_throughput(1000).await.expect("set");
    have(&server, &members.iter().collect::<Vec<_>>(), &[100; 10]).await;
    let sent = requests(&server);
    assert_eq!((count(&sent, Operation::Multi), count(&sent, Operation::List)), (1, 0), "{sent:?}");
    server.clear_records();
    tokio::time::sleep(T * 3).await;
    assert_eq!(requests(&server), [], "nothing polls");
}

#[tokio::test(start_paused = true)]
async fn those_who_come_within_the_quiet_time_are_reckoned_with_at_once() {
    let (server, clients) = setup(21).await;
    let patient = |client| {
        let (quiet, at_most) = (Duration::from_millis(200), Duration::from_secs(60));
        ThroughputBalancer::builder(client, BASE).debounce(quiet, at_most).join()
    };
    let mut members = vec![patient(&clients[0]).await.expect("it joins")];
    have(&server, &[&members[0]], &[1000]).await;
    let writes = || {
        let node = format!("{BASE}/client/client-0000000000");
        server.stat(&node).expect("it is there").version
    };
    assert_eq!(writes(), 1);
    for client in &clients[1..] {
        members.push(patient(client).await.expect("it joins"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    have(&server, &members.iter().collect::<Vec<_>>(), &[47; 21]).await;
    assert_eq!(writes(), 2, "twenty came, and the shares were changed once");
}

#[tokio::test(start_paused = true)]
async fn more_than_a_thousand_are_written_in_chunks() {
    let (server, clients) = setup(1).await;
    for directory in ["client", "ack"] {
        server.create_by_hand(&format!("{BASE}/{directory}"), "", CreateMode::Persistent).expect("created");
    }
    // The counter of the directory is that of our members, so they do not collide with those of other programs here.
    for number in 1..=2_501 {
        let name = format!("client-{:010}", 1_000_000 + number);
        server
            .create_by_hand(&format!("{BASE}/client/{name}"), r#"{"throughput":0}"#, CreateMode::Persistent)
            .expect("created");
        server.create_by_hand(&format!("{BASE}/ack/{name}~0.0"), "", CreateMode::Persistent).expect("created");
    }
    let one = joined(&clients[0]).await;
    zookeeper_recipes::throughput_balancer::set_max_throughput(&clients[0], BASE, 5_004).await.expect("set");
    have(&server, &[&one], &[2]).await;
    server.clear_records();
    one.set_max_throughput(7_506).await.expect("set");
    have(&server, &[&one], &[3]).await;
    assert_eq!(count(&requests(&server), Operation::Multi), 3);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_or_is_dropped_has_nothing_and_leaves_nothing() {
    for dropped in [false, true] {
        let (server, clients) = setup(2).await;
        let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
        have(&server, &[&one, &two], &[500, 500]).await;
        let share = one.share();
        if dropped {
            drop(one);
        } else {
            within("it leaves", SOON, one.leave()).await;
            within("twice is fine", SOON, one.leave()).await;
            assert_eq!(one.member_id(), None);
        }
        have(&server, &[&two], &[1000]).await;
        assert_eq!(share.get().throughput(), 0);
        assert_eq!((records(&server).len(), server.children("/throughput/leader").len()), (2, 1));
        assert!(two.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn joining_or_leaving_dropped_at_any_poll() {
    for times in 0..24 {
        let (server, clients) = setup(1).await;
        let joining = polled(times, eager(&clients[0]).join()).await;
        let joined = joining.is_some();
        drop(joining);
        tokio::time::sleep(SOON).await;
        assert_eq!(records(&server), Vec::<String>::new(), "after {times} polls");
        assert_eq!(server.children("/throughput/leader"), Vec::<String>::new(), "after {times} polls");
        assert_eq!(server.watches(), 0, "after {times} polls");
        assert!(joined || times < 20, "polled often enough, it joins");
    }
    for times in 0..8 {
        let (server, clients) = setup(1).await;
        let member = joined(&clients[0]).await;
        have(&server, &[&member], &[1000]).await;
        let left = polled(times, member.leave()).await;
        tokio::time::sleep(SOON).await;
        let gone = records(&server).is_empty() && throughput(&member) == 0;
        assert_eq!(gone, times > 0, "after {times} polls");
        assert!(left.is_none() || times > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_maximum_counts_at_once_however_long_the_quiet_time_is() {
    let (server, clients) = setup(2).await;
    let patient = |client| {
        let (quiet, at_most) = (Duration::from_secs(60), Duration::from_secs(600));
        ThroughputBalancer::builder(client, BASE).debounce(quiet, at_most).join()
    };
    let one = patient(&clients[0]).await.expect("it joins");
    have_within(&server, Duration::from_secs(70), &[&one], &[1000]).await;
    let two = patient(&clients[1]).await.expect("it joins");
    have(&server, &[&one, &two], &[1000, 0]).await;
    one.set_max_throughput(600).await.expect("set");
    have(&server, &[&one, &two], &[300, 300]).await;
}
