//! Bad input, and members' nodes that people touch.

use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::throughput_balancer::{Error, Event, MAX_THROUGHPUT, ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{
    BASE, Slow, all_joined, eager, have, have_within, joined, node, records, register_by_hand, setup, throughput,
};
use super::transition::told;
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_meant_is_refused_at_once() {
    let (_server, clients) = setup(1).await;
    let client = &clients[0];
    let builder = || ThroughputBalancer::builder(client, BASE);
    for (builder, why) in [
        (builder().weight(0), "a weight of 0; must be at least 1"),
        (builder().min(5).max(4), "a min of 5, above the max of 4"),
        (builder().debounce(SOON, Duration::ZERO), "must be at least that"),
    ] {
        let error = builder.join().await.expect_err("refused");
        assert!(matches!(&error, Error::InvalidOption { .. }) && error.to_string().contains(why), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let error = ThroughputBalancer::builder(client, "no/slash").join().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    let error = set_max_throughput(client, BASE, MAX_THROUGHPUT + 1).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    client.close().await.expect("closed");
    assert!(matches!(builder().join().await, Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn without_permission_joining_is_an_error() {
    let (server, clients) = setup(1).await;
    server.create_by_hand("/throughput/client", "", CreateMode::Persistent).expect("created");
    server.deny("/throughput/client");
    let error = within("an answer", SOON, eager(&clients[0]).join()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
}

#[tokio::test(start_paused = true)]
async fn junk_among_the_members_is_told_of_and_the_others_are_served() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    let mut events = one.events();
    server.create_by_hand("/throughput/client/client-junk", "hello", CreateMode::Persistent).expect("created");
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 500]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let ignored = ignored(&mut events);
    assert!(
        matches!(&ignored[..], [(member, 0, why)] if member == "client-junk" && why.contains("hello")),
        "{ignored:?}"
    );
    assert_eq!(two.members().await.expect("members").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_node_is_deleted_or_spoiled_by_hand_registers_again_and_nothing_is_given_twice() {
    let hands: [fn(&zookeeper_recipes::testing::TestingServer, &str); 3] = [
        |server, node| server.delete_by_hand(node).expect("deleted"),
        |server, node| server.set_data_by_hand(node, "oops").expect("set"),
        |server, node| {
            let old = String::from_utf8(server.get(node).expect("it is there")).expect("text");
            server.set_data_by_hand(node, old.replace(r#""throughput":500"#, r#""throughput":9000"#)).expect("set");
        },
    ];
    for (case, hand) in hands.into_iter().enumerate() {
        for victim in 0..2 {
            let (server, clients) = setup(2).await;
            let members = all_joined(&clients).await;
            let both: Vec<_> = members.iter().collect();
            have(&server, &both, &[500, 500]).await;
            let (old, mut slow) = (node(both[victim]), Slow::of(both[victim]));
            assert_eq!(slow.given().await, 500);
            hand(&server, &old);
            // The follower of the share has not received it yet, so no other member gets any of it.
            tokio::time::sleep(T * 2).await;
            assert_eq!((throughput(both[victim]), throughput(both[1 - victim])), (0, 500), "{case}");
            drop(slow);
            have_within(&server, T * 2, &both, &[500, 500]).await;
            assert_ne!(node(both[victim]), old, "{case}");
            assert_eq!(records(&server).len(), 4);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_without_its_acknowledgement_keeps_its_share_and_is_told_of_until_it_registers_again() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let (mut events, name) = (one.events(), two.member_id().expect("it is registered"));
    let acks = server.children("/throughput/ack");
    let ack = acks.iter().find(|ack| ack.starts_with(&name)).expect("its acknowledgement");
    server.delete_by_hand(&format!("/throughput/ack/{ack}")).expect("deleted");
    let three = joined(&clients[2]).await;
    have(&server, &[&one, &two, &three], &[250, 500, 250]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let ignored = ignored(&mut events);
    assert!(matches!(&ignored[..], [(member, 500, why)] if *member == name && why.contains("no ack")), "{ignored:?}");
    // The next leader knows as much.
    server.set_data_by_hand("/throughput/epoch", "me").expect("set");
    set_max_throughput(&clients[0], BASE, 1_100).await.expect("set");
    have(&server, &[&one, &two, &three], &[300, 500, 300]).await;
    server.delete_by_hand(&node(&two)).expect("deleted");
    have(&server, &[&one, &two, &three], &[366; 3]).await;
    assert_eq!(server.children("/throughput/ack").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_epoch_or_directory_that_is_touched_by_hand_costs_a_new_look() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.set_data_by_hand("/throughput/epoch", "me").expect("set");
    let three = joined(&clients[2]).await;
    have(&server, &[&one, &two, &three], &[333; 3]).await;
    server.delete_by_hand("/throughput/epoch").expect("deleted");
    three.leave().await;
    have(&server, &[&one, &two], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_of_another_program_takes_part_by_the_same_two_nodes() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let foreign = register_by_hand(&server, r#"{"throughput":0,"who":"java"}"#);
    have(&server, &[&one], &[500]).await;
    let record = || serde_free(&server.get(&format!("{BASE}/client/{foreign}")).expect("it is there"));
    server.until(|| record().contains(r#""throughput":500"#)).await;
    assert!(record().contains(r#""who":"java""#));
    let two = joined(&clients[1]).await;
    server.until(|| record().contains(r#""throughput":333"#)).await;
    // It follows 500 until it says otherwise.
    have(&server, &[&one, &two], &[250, 250]).await;
    let field = |name: &str| {
        let record = record();
        let rest = record.split_once(&format!("\"{name}\":")).expect("a field").1;
        rest.split([',', '}']).next().expect("a value").to_owned()
    };
    let ack = format!("{BASE}/ack/{foreign}~{}.{}", field("epoch"), field("sequence"));
    server.create_by_hand(&ack, "", CreateMode::Persistent).expect("created");
    have(&server, &[&one, &two], &[333, 333]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pair_whose_record_becomes_readable_is_served_when_the_next_member_comes_or_the_maximum_changes() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let foreign = format!("{BASE}/client/{}", register_by_hand(&server, "{}"));
    have(&server, &[&one], &[1000]).await;
    server.set_data_by_hand(&foreign, r#"{"throughput":0}"#).expect("set");
    set_max_throughput(&clients[0], BASE, 600).await.expect("set");
    have(&server, &[&one], &[300]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_node_is_closed_to_the_leader_is_told_of_and_the_others_are_served() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut events = one.events();
    let denied = two.member_id().expect("it is registered");
    server.deny(&node(&two));
    set_max_throughput(&clients[0], BASE, 1_200).await.expect("set");
    let three = joined(&clients[2]).await;
    // It keeps what it has; the others divide the rest.
    have(&server, &[&one, &two, &three], &[350, 500, 350]).await;
    set_max_throughput(&clients[0], BASE, 600).await.expect("set");
    have(&server, &[&one, &two, &three], &[50, 500, 50]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let ignored = ignored(&mut events);
    assert!(matches!(&ignored[..], [(member, 500, _)] if *member == denied), "{ignored:?}");
    assert_eq!(three.members().await.expect("members").len(), 2);
    server.allow(&node(&two));
    set_max_throughput(&clients[0], BASE, 900).await.expect("set");
    have(&server, &[&one, &two, &three], &[300; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_could_not_be_written_is_served_with_the_next_change() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.deny(&node(&two));
    set_max_throughput(&clients[0], BASE, 800).await.expect("set");
    have(&server, &[&one, &two], &[300, 500]).await;
    server.allow(&node(&two));
    set_max_throughput(&clients[0], BASE, 600).await.expect("set");
    have(&server, &[&one, &two], &[300, 300]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lowered_maximum_is_kept_also_where_a_member_holds_a_share_without_a_node() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut slow = Slow::of(&two);
    assert_eq!(slow.given().await, 500);
    server.delete_by_hand(&node(&two)).expect("deleted");
    set_max_throughput(&clients[0], BASE, 600).await.expect("set");
    have(&server, &[&one], &[100]).await;
    drop(slow);
    have(&server, &[&one, &two], &[300, 300]).await;
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_that_were_refused_for_a_while_block_nothing_afterwards() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.deny("/throughput/ack");
    set_max_throughput(&clients[0], BASE, 600).await.expect("set");
    server.until(|| throughput(&one) == 0 && throughput(&two) == 0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.allow("/throughput/ack");
    have_within(&server, Duration::from_secs(40), &[&one, &two], &[300, 300]).await;
    assert_eq!(records(&server).len(), 4, "{:#?}", records(&server));
}

/// Its version is another one, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_written_again_by_hand_changes_nothing() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    for times in 1..=2 {
        for node in [node(&one), node(&two)] {
            for _ in 0..times {
                let record = server.get(&node).expect("it is there");
                server.set_data_by_hand(&node, record).expect("set");
            }
        }
        let three = joined(&clients[2]).await;
        have(&server, &[&one, &two, &three], &[333, 333, 333]).await;
        within("it leaves", SOON, three.leave()).await;
        have(&server, &[&one, &two], &[500, 500]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_given_up_is_not_taken_up_again() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let old = node(&two);
    server.deny("/throughput/client");
    let record = serde_free(&server.get(&old).expect("it is there"));
    server.set_data_by_hand(&old, record.replace(r#""throughput":500"#, r#""throughput":9000"#)).expect("set");
    server.until(|| throughput(&two) == 0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.allow("/throughput/client");
    have_within(&server, Duration::from_secs(40), &[&one, &two], &[500, 500]).await;
    assert_ne!(node(&two), old);
}

#[tokio::test(start_paused = true)]
async fn leaving_is_retried_until_it_is_allowed() {
    let (server, clients) = setup(2).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    server.deny("/throughput/client");
    let mut leaving = Box::pin(two.leave());
    assert!(tokio::time::timeout(SOON, &mut leaving).await.is_err(), "its node is there");
    server.allow("/throughput/client");
    within("it has left", Duration::from_secs(40), leaving).await;
    have(&server, &[&one], &[1000]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_acknowledges_costs_no_more_writes_than_there_are_decisions() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    let silent = format!("{BASE}/client/{}", register_by_hand(&server, r#"{"throughput":0}"#));
    have(&server, &[&one], &[500]).await;
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[250, 250]).await;
    let version = server.stat(&silent).expect("it is there").version;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((server.stat(&silent).expect("it is there").version, version), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_closed_to_the_leader_is_told_and_tried_again_ever_more_slowly() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let mut events = one.events();
    server.deny("/throughput/epoch");
    let two = joined(&clients[1]).await;
    server.clear_records();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let failed = told(&mut events);
    assert!(matches!(&failed[..], [Event::Failed { error }, ..] if error.kind() == ErrorKind::NoAuth), "{failed:?}");
    assert!(failed.len() < 10 && crate::fixture::requests(&server).len() < 100, "{failed:?}");
    assert!(one.is_leader(), "a refused write is no proof that another member leads");
    server.allow("/throughput/epoch");
    have_within(&server, Duration::from_secs(40), &[&one, &two], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_made_by_hand_blocks_no_member() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    server.create_by_hand("/throughput/ack/foo~1.2", "", CreateMode::Persistent).expect("created");
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 500]).await;
    one.leave().await;
    have(&server, &[&two], &[1000]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_record_was_deleted_before_a_leader_saw_it_blocks_all_raises_and_is_reported() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let mut events = one.events();
    let (stranger, name) = (server.client().await.expect("a client"), "/throughput/ack/client-0000000077~1.2");
    stranger.create(name, b"", CreateMode::Ephemeral).await.expect("created");
    // Nothing is settled, also where no share is to be raised.
    told(&mut events);
    set_max_throughput(&clients[1], BASE, 900).await.expect("set");
    have(&server, &[&one], &[900]).await;
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[450, 0]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let all = told(&mut events);
    let ignored = all.iter().filter(
        |event| matches!(event, Event::MemberIgnored { member, held: u64::MAX, .. } if member == "client-0000000077"),
    );
    assert_eq!(ignored.count(), 1, "{all:?}");
    assert!(!all.iter().any(|event| matches!(event, Event::Settled { .. })), "{all:?}");
    let exceeded: Vec<_> = all.iter().filter(|event| matches!(event, Event::Exceeded { .. })).collect();
    assert_eq!(exceeded, [&Event::Exceeded { maximum: 900, by: 100 }], "of what is not known there is no number");
    stranger.close().await.expect("closed");
    have(&server, &[&one, &two], &[450, 450]).await;
    assert_eq!(told(&mut events).last(), Some(&Event::Settled { maximum: 900, members: 2, shared: 900 }));
}

#[tokio::test(start_paused = true)]
async fn what_is_known_to_be_held_counts_beside_what_is_not() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut events = one.events();
    let acks = server.children("/throughput/ack");
    let ack = acks.iter().find(|ack| ack.starts_with(&two.member_id().expect("a name"))).expect("its acknowledgement");
    server.delete_by_hand(&format!("/throughput/ack/{ack}")).expect("deleted");
    let stranger = server.client().await.expect("a client");
    stranger.create("/throughput/ack/client-0000000077~1.2", b"", CreateMode::Ephemeral).await.expect("created");
    set_max_throughput(&clients[2], BASE, 600).await.expect("set");
    have(&server, &[&one, &two], &[100, 500]).await;
    let all = told(&mut events);
    assert!(all.contains(&Event::Exceeded { maximum: 600, by: 400 }), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_no_member_can_have_is_refused() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let names = [(); 2].map(|()| register_by_hand(&server, &format!(r#"{{"throughput":{}}}"#, u64::MAX)));
    let two = joined(&clients[1]).await;
    have(&server, &[&one, &two], &[500, 500]).await;
    assert!(one.is_leader() && server.panics().is_empty(), "{names:?}");
}

/// The version of a deleted node starts at zero again. A leader that acts on the previous maximum must still be
/// refused.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_given_twice_costs_its_new_owner_nothing() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    set_max_throughput(&clients[0], BASE, 500).await.expect("set");
    have(&server, &[&one], &[500]).await;
    // The directory is deleted by hand, with all that is in it; it is created again, and names begin with 0.
    let old = node(&one);
    server.freeze_client(&clients[0]);
    server.delete_by_hand(&old).expect("deleted");
    server.delete_by_hand("/throughput/client").expect("deleted");
    let two = joined(&clients[1]).await;
    assert_eq!(node(&two), old);
    let owner = server.stat(&old).expect("it is there").ephemeral_owner;
    server.thaw_client(&clients[0]);
    have_within(&server, T * 2, &[&one, &two], &[250, 250]).await;
    assert_eq!(node(&two), old);
    assert_eq!(server.stat(&old).expect("it is there").ephemeral_owner, owner);
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_acknowledgement_still_exists_is_not_given_twice() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let old = node(&one);
    server.freeze_client(&clients[0]);
    server.delete_by_hand(&old).expect("deleted");
    server.delete_by_hand("/throughput/client").expect("deleted");
    let two = joined(&clients[1]).await;
    assert_ne!(node(&two), old);
    server.thaw_client(&clients[0]);
    have_within(&server, T * 2, &[&one, &two], &[500, 500]).await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_was_refused_half_way_leaves_nothing_behind() {
    let (server, clients) = setup(1).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    let (mut events, old) = (one.events(), one.member_id().expect("it is registered"));
    server.delay(&clients[0], Duration::from_millis(50));
    server.delete_by_hand(&node(&one)).expect("deleted");
    // The answer to its create is on the way, and is lost; then all is refused.
    let is_new = || server.children("/throughput/client").iter().any(|name| *name != old);
    server.until(is_new).await;
    server.disconnect(&clients[0]);
    server.deny("/throughput/client");
    server.heal();
    while !matches!(events.next().await.expect("events"), Event::Failed { .. }) {}
    server.allow("/throughput/client");
    have_within(&server, Duration::from_secs(40), &[&one], &[1000]).await;
    assert_eq!(records(&server).len(), 2, "{:#?}", records(&server));
}

/// The ignored nodes that were reported until now: their names, held amounts and reasons.
fn ignored(events: &mut zookeeper_recipes::throughput_balancer::Events) -> Vec<(String, u64, String)> {
    let ignored = |event| match event {
        Event::MemberIgnored { member, held, why } => Some((member, held, why)),
        _ => None,
    };
    told(events).into_iter().filter_map(ignored).collect()
}

fn serde_free(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
