//! Nodes that people touch: nothing is held twice, and everything is held again in the end.

use std::sync::Arc;

use futures::StreamExt;
use tokio::time::sleep;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::{Event, Owned, pin};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{BASE, eager, held, hold_within, joined, setup};
use crate::fixture::{SOON, T, requests, within};

/// The path of the only node in a directory whose name begins so.
fn node(server: &TestingServer, dir: &str, beginning: &str) -> String {
    let names = server.children(&format!("{BASE}/{dir}"));
    let name = names.iter().find(|name| name.starts_with(beginning)).expect("it is there");
    format!("{BASE}/{dir}/{name}")
}

/// After each of these, both members hold six partitions again, and never hold one twice.
#[tokio::test(start_paused = true)]
async fn whatever_is_deleted_or_spoiled_comes_back() {
    type Hand = (&'static str, fn(&TestingServer, &str));
    let hands: [Hand; 8] = [
        ("member", |server, id| server.delete_by_hand(&node(server, "members", id)).expect("deleted")),
        ("record", |server, id| server.delete_by_hand(&node(server, "assignments", id)).expect("deleted")),
        ("junk", |server, id| server.set_data_by_hand(&node(server, "assignments", id), "oops").expect("set")),
        ("empty", |server, id| server.set_data_by_hand(&node(server, "assignments", id), "").expect("set")),
        ("same", |server, id| {
            let path = node(server, "assignments", id);
            let data = server.get(&path).expect("it is there");
            server.set_data_by_hand(&path, data).expect("set");
        }),
        ("epoch", |server, _| server.set_data_by_hand(&format!("{BASE}/epoch"), "oops").expect("set")),
        ("no epoch", |server, _| server.delete_by_hand(&format!("{BASE}/epoch")).expect("deleted")),
        ("no config", |server, _| server.delete_by_hand(&format!("{BASE}/config")).expect("deleted")),
    ];
    for (case, hand) in hands {
        for victim in ["one", "two"] {
            let (server, clients) = setup(3).await;
            let one = joined(&clients[0], "one").await;
            let two = joined(&clients[1], "two").await;
            hold_within(&server, T, &[&one, &two], &[6, 6]).await;
            hand(&server, victim);
            tokio::time::sleep(SOON).await;
            // A change that needs every record.
            let three = joined(&clients[2], "three").await;
            within(case, T * 4, server.until(|| three.assigned().len() == 4)).await;
            hold_within(&server, T * 4, &[&one, &two, &three], &[4, 4, 4]).await;
        }
    }
}

/// The nodes of what a member holds keep it from others while its own node is gone.
#[tokio::test(start_paused = true)]
async fn a_member_whose_node_is_deleted_keeps_its_partitions_until_it_has_stopped() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    let (mut events, old) = (one.events(), two.assigned());
    // It does not hear of it.
    server.freeze_client(&clients[1]);
    server.delete_by_hand(&node(&server, "members", "two")).expect("deleted");
    let elsewhere = async {
        loop {
            if let Some(Event::HeldElsewhere { partitions }) = events.next().await {
                return partitions;
            }
        }
    };
    assert_eq!(within("it is reported", SOON * 7, elsewhere).await, 6);
    assert_eq!(one.assigned().len(), 6);
    assert!(old.iter().all(|partition| partition.is_held()), "by the clock, it may still work");
    server.thaw_client(&clients[1]);
    hold_within(&server, T * 2, &[&one, &two], &[6, 6]).await;
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_partition_that_is_deleted_moves_nothing_and_its_fence_is_refused() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0], "one").await;
    hold_within(&server, T, &[&one], &[12]).await;
    server.create_by_hand("/store", "", CreateMode::Persistent).expect("created");
    let victim = one.assigned()[0].clone();
    server.delete_by_hand(victim.fence().path()).expect("deleted");
    let write = clients[0].transaction().check(&victim.fence()).set_data("/store", "1", None);
    write.commit().await.expect_err("refused");
    // It is handed over like the others.
    let two = joined(&clients[1], "two").await;
    within("they share", T, server.until(|| (one.assigned().len(), two.assigned().len()) == (6, 6))).await;
    one.leave().await;
    hold_within(&server, T, &[&two], &[12]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_with_junk_in_its_node_is_reported_and_left_out() {
    let (server, clients) = setup(1).await;
    let one = joined(&clients[0], "one").await;
    let mut events = one.events();
    let junk = format!("{BASE}/members/junk~0123456789abcdef");
    server.create_by_hand(&junk, r#"{"weight":0}"#, CreateMode::Persistent).expect("created");
    server.create_by_hand(&format!("{BASE}/members/stranger"), "", CreateMode::Persistent).expect("created");
    let ignored = async {
        loop {
            if let Some(Event::MemberIgnored { member, why }) = events.next().await {
                return (member, why);
            }
        }
    };
    let (member, why) = within("it is reported", SOON, ignored).await;
    assert!(member == "junk" && why.contains("must be at least 1"), "{member}: {why}");
    hold_within(&server, T, &[&one], &[12]).await;
}

/// What a member that is waited for had goes to others if there is a node of it again that cannot be read.
#[tokio::test(start_paused = true)]
async fn what_a_member_had_that_comes_back_with_junk_goes_to_others() {
    let (server, clients) = setup(2).await;
    let join = async |client, id| eager(client, id).rebalance_delay(T * 100).join().await.expect("it joins");
    let (one, two) = (join(&clients[0], "one").await, join(&clients[1], "two").await);
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    clients[1].close().await.expect("it closes");
    // The session ends with the client, and nothing else moves.
    hold_within(&server, T, &[&one], &[6]).await;
    let junk = format!("{BASE}/members/two~0123456789abcdef");
    server.create_by_hand(&junk, "oops", CreateMode::Persistent).expect("created");
    hold_within(&server, T, &[&one], &[12]).await;
}

/// A member that cannot hand over is reported.
#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_hand_over_is_reported() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").grace_period(SOON * 20).join().await.expect("it joins");
    hold_within(&server, T, &[&one], &[12]).await;
    let mut events = one.events();
    let _two = joined(&clients[1], "two").await;
    let unreleased = async {
        loop {
            if let Some(Event::Unreleased { member, partitions }) = events.next().await {
                return (member, partitions);
            }
        }
    };
    assert_eq!(within("it is reported", SOON * 12, unreleased).await, ("one".to_owned(), 6));
}

/// A member is reported only if it hands over nothing: here another hand-over is always under way.
#[tokio::test(start_paused = true)]
async fn a_member_that_hands_over_one_by_one_is_not_reported() {
    let (server, clients) = setup(2).await;
    let two = joined(&clients[1], "two").await;
    let one = Arc::new(eager(&clients[0], "one").grace_period(SOON * 60).join().await.expect("it joins"));
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    let (who, mut events) = (Arc::clone(&one), two.events());
    tokio::spawn(async move {
        who.run(|partition: Owned| async move {
            partition.revoked().await;
            sleep(SOON * 6).await;
        })
        .await
    });
    for number in held(&one) {
        pin(&clients[1], BASE, &number.to_string(), "two").await.expect("pinned");
        sleep(SOON * 4).await;
    }
    let unreleased = async {
        while let Some(event) = events.next().await {
            assert!(!matches!(event, Event::Unreleased { .. }), "{event}");
        }
    };
    assert!(tokio::time::timeout(SOON * 5, unreleased).await.is_err(), "the events go on");
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
}

/// Deletes a node and all nodes below it.
fn sweep(server: &TestingServer, path: &str) {
    let mut paths = server.paths();
    paths.retain(|one| one == path || one.starts_with(&format!("{path}/")));
    for path in paths.iter().rev() {
        server.delete_by_hand(path).expect("deleted");
    }
}

/// A directory is deleted with everything in it, and no other member joins.
#[tokio::test(start_paused = true)]
async fn a_directory_that_is_deleted_comes_back() {
    for directory in ["assignments", "members", "owned", "leader"] {
        let (server, clients) = setup(2).await;
        let (one, two) = (joined(&clients[0], "one").await, joined(&clients[1], "two").await);
        hold_within(&server, T, &[&one, &two], &[6, 6]).await;
        sweep(&server, &format!("{BASE}/{directory}"));
        if directory == "owned" {
            // Their holders do not notice it, so they release them.
            one.assigned().iter().chain(&two.assigned()).for_each(Owned::release);
        }
        server.clear_records();
        sleep(T).await;
        let count = requests(&server).len();
        assert!(count < 200, "{directory}: {count} requests");
        hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    }
}

/// A record with a node below it cannot be deleted. It lists nothing then, and delays no one.
#[tokio::test(start_paused = true)]
async fn a_record_with_a_node_below_it_delays_no_one() {
    let (server, clients) = setup(4).await;
    let (one, two) = (joined(&clients[0], "one").await, joined(&clients[1], "two").await);
    let three = joined(&clients[2], "three").await;
    hold_within(&server, T, &[&one, &two, &three], &[4, 4, 4]).await;
    let record = format!("{BASE}/assignments/three");
    server.create_by_hand(&format!("{record}/note"), "", CreateMode::Persistent).expect("created");
    clients[2].close().await.expect("closed");
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    server.clear_records();
    sleep(T).await;
    assert!(requests(&server).len() < 10, "the leader is calm: {:?}", requests(&server));
    let again = joined(&clients[3], "three").await;
    hold_within(&server, T, &[&one, &two, &again], &[4, 4, 4]).await;
}

/// A version of -1 would mean any version. Records are created again long before they have it.
#[tokio::test(start_paused = true)]
async fn a_record_with_many_versions_is_created_again() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0], "one").await, joined(&clients[1], "two").await);
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    let path = format!("{BASE}/assignments/two");
    let version = || server.stat(&path).expect("it is there").version;
    let tokens: Vec<_> = two.assigned().iter().map(Owned::fencing_token).collect();
    server.set_version(&path, i32::MAX / 2 + 10).expect("set");
    // The next write of the member shows it to the leader.
    two.assigned()[0].release();
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    assert!(version() < 100, "{}", version());
    let kept = two.assigned().iter().filter(|one| tokens.contains(&one.fencing_token())).count();
    assert_eq!(kept, 5, "what it held it holds");
    let _three = joined(&clients[2], "three").await;
    server.until(|| one.assigned().len() == 4 && two.assigned().len() == 4).await;
}
