//! Curator's names and data, and what others do in the same directory.

use std::time::Duration;

use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{PATH, latch, latch_at, leads, line_becomes, name_of, no_latch_leads_for, node_of, setup, waits};
use crate::fixture::SOON;

/// A participant as Curator makes it: protected, ephemeral and sequential. Its path.
async fn curator_enters(client: &Client, uuid: &str, id: &str) -> String {
    let created = client.create(&format!("{PATH}/_c_{uuid}-latch-"), id, CreateMode::EphemeralSequential).await;
    created.expect("the node is created")
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[tokio::test(start_paused = true)]
async fn name_data_owner_and_parents_of_a_node_are_curators() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let (top, dir) = ("/format", "/format/deep/line");
    let mut latches = Vec::new();
    for (expected_number, id) in ["node-1", "", "größer"].into_iter().enumerate() {
        let latch = latch_at(&client, dir, id);
        if expected_number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        let node = node_of(&latch);
        let uuid_and_number = name_of(&node).strip_prefix("_c_").expect("protected");
        let (uuid, number) = uuid_and_number.rsplit_once("-latch-").expect("a latch");
        assert!(is_uuid(uuid), "{uuid}");
        assert_eq!(number, format!("{expected_number:010}"));
        assert_eq!(server.get(&node).as_deref(), Some(id.as_bytes()));
        assert_eq!(server.stat(&node).map(|stat| stat.ephemeral_owner), client.session_id());
        latches.push(latch);
    }
    assert_eq!(server.get(dir).as_deref(), Some(&b""[..]));
    for latch in latches {
        latch.close().await.expect("closed");
    }
    // Containers: the server removes them once they are empty, from the bottom up.
    server.until(|| server.stat(dir).is_none()).await;
    server.until(|| server.stat(top).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn participants_of_curator_share_the_same_queue() {
    const BEFORE: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";
    const BEHIND: &str = "00000000-0000-4000-8000-000000000000";
    let (server, [client, other]) = setup().await;
    // The one before us has the greatest uuid, the one behind us the least: only numbers count.
    let before = curator_enters(&other, BEFORE, "before").await;
    let ours = latch(&client, "ours");
    waits(&ours).await;
    curator_enters(&other, BEHIND, "behind").await;
    let next = latch(&client, "next");
    waits(&next).await;

    line_becomes(&ours, &["before", "ours", "behind", "next"]).await;
    let leader = ours.leader().await.expect("read").expect("there is a leader");
    assert_eq!((leader.id.as_str(), leader.path.as_str()), ("before", before.as_str()));
    no_latch_leads_for(SOON, &[&ours, &next]).await;

    server.delete_by_hand(&before).expect("it exists");
    leads(&ours).await;
    ours.close().await.expect("closed");
    line_becomes(&next, &["behind", "next"]).await;
    no_latch_leads_for(SOON, &[&next]).await;
    let behind = next.leader().await.expect("read").expect("there is a leader");
    server.delete_by_hand(&behind.path).expect("it exists");
    leads(&next).await;
}

#[tokio::test(start_paused = true)]
async fn children_that_are_no_participants_do_not_count() {
    let (server, [client]) = setup().await;
    let strangers = [
        "foo-0000000000",
        "lock-0000000000",
        "_c_00000000-0000-4000-8000-000000000000-lock-0000000000",
        "latch-",
        "latch-12a",
        "0000000000",
    ];
    for name in strangers {
        server.create_by_hand(&format!("{PATH}/{name}"), "stranger", CreateMode::Persistent).expect("a new node");
    }
    let first = latch(&client, "first");
    leads(&first).await;
    let second = latch(&client, "second");
    waits(&second).await;
    line_becomes(&second, &["first", "second"]).await;
    for name in strangers {
        server.delete_by_hand(&format!("{PATH}/{name}")).expect("it exists");
    }
    no_latch_leads_for(SOON, &[&second]).await;
    assert!(first.has_leadership());
    first.close().await.expect("closed");
    leads(&second).await;
}

#[tokio::test(start_paused = true)]
async fn data_written_to_the_leaders_node_promotes_no_participant_and_the_election_continues() {
    let (server, [client, other]) = setup().await;
    let leader = latch(&client, "leader");
    let leadership = leads(&leader).await;
    let second = latch(&other, "second");
    waits(&second).await;
    let third = latch(&client, "third");
    waits(&third).await;
    let node = node_of(&leader);

    // Curator's revoke marker first.
    for data in [&b"__REVOKE__"[..], b"", b"something else", &[0; 1000]] {
        let before = other.request_counts();
        server.set_data_by_hand(&node, data).expect("it exists");
        // The event was taken in: the watch is set again.
        server.until(|| (other.request_counts() - before).watches == 1).await;
        no_latch_leads_for(Duration::from_millis(100), &[&second, &third]).await;
        assert!(leadership.is_held(), "{} bytes", data.len());
    }
    // A waiter's data are as harmless.
    let waiting = node_of(&second);
    server.set_data_by_hand(&waiting, b"__REVOKE__").expect("it exists");
    no_latch_leads_for(SOON, &[&second, &third]).await;
    assert!(leadership.is_held());

    leader.close().await.expect("closed");
    leads(&second).await;
    assert!(!third.has_leadership());
    second.close().await.expect("closed");
    leads(&third).await;
}

#[tokio::test(start_paused = true)]
async fn numbers_past_the_end_of_the_counter_come_after_all_others_in_the_order_of_their_creation() {
    let (server, [client, other]) = setup().await;
    // As text the negative ones would come first, and their uuids would decide among equal numbers.
    let late =
        [("e", "2147483647"), ("d", "-2147483648"), ("c", "2147483647"), ("b", "-2147483647"), ("a", "2147483647")];
    let mut paths = Vec::new();
    for (digit, number) in late {
        let uuid = digit.repeat(8) + "-0000-4000-8000-000000000000";
        let path = format!("{PATH}/_c_{uuid}-latch-{number}");
        other.create(&path, format!("late {digit}"), CreateMode::Ephemeral).await.expect("a new node");
        paths.push(path);
    }
    // Ours come later, with small numbers, and come before them all.
    let first = latch(&client, "first");
    leads(&first).await;
    let second = latch(&client, "second");
    waits(&second).await;
    let order = ["first", "second", "late e", "late d", "late c", "late b", "late a"];
    line_becomes(&second, &order).await;
    // Without ours the eldest of them leads, and so on.
    second.close().await.expect("closed");
    first.close().await.expect("closed");
    for (path, next) in paths.iter().zip(&order[2..]) {
        let leader = first.leader().await.expect("read").expect("there is a leader");
        assert_eq!((leader.id.as_str(), &leader.path), (*next, path));
        server.delete_by_hand(path).expect("it exists");
    }
    assert_eq!(first.leader().await, Ok(None));
}
