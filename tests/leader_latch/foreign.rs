//! Curator's names and data, and what others do in the same directory.

use std::time::Duration;

use zookeeper::{Acls, CreateMode};

use super::scene::{A_WHILE, SOON, Scene, latch, leads, line_becomes, name_of, nobody_leads_for, stands};
use crate::support::{Observer, eventually};

/// A participant as Curator makes it: protected, ephemeral and sequential. Its path.
async fn curator_enters(observer: &Observer, dir: &str, uuid: &str, id: &str) -> String {
    let prefix = format!("{dir}/_c_{uuid}-latch-");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let created = observer.client().create(&prefix, id.as_bytes(), &options).await;
    let (_, number) = created.expect("the node is created");
    format!("{prefix}{number}")
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_data_owner_and_parents_of_a_node_are_curators() {
    let scene = Scene::new("format").await;
    let client = scene.client().await;
    let dir = format!("{}/deep/line", scene.path);
    let mut latches = Vec::new();
    for (expected_number, id) in ["node-1", "", "größer"].into_iter().enumerate() {
        let latch = latch(&client, &dir, id);
        if expected_number == 0 {
            leads(&latch).await;
        } else {
            stands(&latch).await;
        }
        let node = latch.our_path().expect("it has a node");
        let uuid_and_number = name_of(&node).strip_prefix("_c_").expect("protected");
        let (uuid, number) = uuid_and_number.rsplit_once("-latch-").expect("a latch");
        assert!(is_uuid(uuid), "{uuid}");
        assert_eq!(number, format!("{expected_number:010}"));
        let (data, stat) = scene.observer.get(&node).await.expect("the node exists");
        assert_eq!(data, id.as_bytes());
        assert_eq!(Some(stat.ephemeral_owner), client.session_id());
        latches.push(latch);
    }
    assert_eq!(scene.observer.data(&dir).await.as_deref(), Some(&b""[..]));
    for latch in latches {
        latch.close().await.expect("closed");
    }
    // Containers: the server removes them once they are empty, from the bottom up.
    scene.observer.wait_until_gone(&dir).await;
    scene.observer.wait_until_gone(&scene.path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_of_curator_stand_in_the_same_line() {
    const BEFORE: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";
    const BEHIND: &str = "00000000-0000-4000-8000-000000000000";
    let scene = Scene::with_directory("mixed").await;
    let client = scene.client().await;
    // The one before us has the greatest uuid, the one behind us the least: only numbers count.
    let before = curator_enters(&scene.observer, &scene.path, BEFORE, "before").await;
    let ours = scene.latch(&client, "ours");
    stands(&ours).await;
    curator_enters(&scene.observer, &scene.path, BEHIND, "behind").await;
    let next = scene.latch(&client, "next");
    stands(&next).await;

    line_becomes(&ours, &["before", "ours", "behind", "next"]).await;
    let leader = ours.leader().await.expect("read").expect("somebody leads");
    assert_eq!((leader.id.as_str(), leader.path.as_str()), ("before", before.as_str()));
    nobody_leads_for(A_WHILE, &[&ours, &next]).await;

    scene.observer.delete(&before).await;
    leads(&ours).await;
    ours.close().await.expect("closed");
    line_becomes(&next, &["behind", "next"]).await;
    nobody_leads_for(A_WHILE, &[&next]).await;
    let behind = next.leader().await.expect("read").expect("somebody leads");
    scene.observer.delete(&behind.path).await;
    leads(&next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_are_no_participants_do_not_count() {
    let scene = Scene::with_directory("strangers").await;
    let client = scene.client().await;
    let strangers = [
        "foo-0000000000",
        "lock-0000000000",
        "_c_00000000-0000-4000-8000-000000000000-lock-0000000000",
        "latch-",
        "latch-12a",
        "0000000000",
    ];
    for name in strangers {
        scene.observer.create(&format!("{}/{name}", scene.path), b"stranger").await;
    }
    let first = scene.latch(&client, "first");
    leads(&first).await;
    let second = scene.latch(&client, "second");
    stands(&second).await;
    line_becomes(&second, &["first", "second"]).await;
    for name in strangers {
        scene.observer.delete(&format!("{}/{name}", scene.path)).await;
    }
    nobody_leads_for(A_WHILE, &[&second]).await;
    assert!(first.has_leadership());
    first.close().await.expect("closed");
    leads(&second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_written_to_the_leaders_node_promotes_nobody_and_the_line_goes_on() {
    let scene = Scene::new("written").await;
    let (client, other) = (scene.client().await, scene.client().await);
    let leader = scene.latch(&client, "leader");
    let leadership = leads(&leader).await;
    let second = scene.latch(&other, "second");
    stands(&second).await;
    let third = scene.latch(&client, "third");
    stands(&third).await;
    let node = leader.our_path().expect("a leader has a node");

    // Curator's revoke marker first.
    for data in [&b"__REVOKE__"[..], b"", b"something else", &[0; 1000]] {
        let before = other.request_counts();
        scene.observer.set_data(&node, data).await;
        // The event was taken in: the watch is armed anew.
        eventually("the waiter watches again", SOON, || async { (other.request_counts() - before).watches == 1 }).await;
        nobody_leads_for(Duration::from_millis(100), &[&second, &third]).await;
        assert!(leadership.is_held(), "{} bytes", data.len());
    }
    // A waiter's data are as harmless.
    let waiting = second.our_path().expect("a waiter has a node");
    scene.observer.set_data(&waiting, b"__REVOKE__").await;
    nobody_leads_for(A_WHILE, &[&second, &third]).await;
    assert!(leadership.is_held());

    leader.close().await.expect("closed");
    leads(&second).await;
    assert!(!third.has_leadership());
    second.close().await.expect("closed");
    leads(&third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_past_the_end_of_the_counter_stand_behind_all_others_in_the_order_of_their_creation() {
    let scene = Scene::with_directory("exhausted").await;
    let client = scene.client().await;
    // As text the negative ones would come first, and their uuids would decide among equal numbers.
    let late =
        [("e", "2147483647"), ("d", "-2147483648"), ("c", "2147483647"), ("b", "-2147483647"), ("a", "2147483647")];
    let mut paths = Vec::new();
    for (digit, number) in late {
        let uuid = digit.repeat(8) + "-0000-4000-8000-000000000000";
        let path = format!("{}/_c_{uuid}-latch-{number}", scene.path);
        scene.observer.create_ephemeral(&path, format!("late {digit}").as_bytes()).await;
        paths.push(path);
    }
    // Ours come later, with small numbers, and stand before them all.
    let first = scene.latch(&client, "first");
    leads(&first).await;
    let second = scene.latch(&client, "second");
    stands(&second).await;
    let order = ["first", "second", "late e", "late d", "late c", "late b", "late a"];
    line_becomes(&second, &order).await;
    // Without ours the eldest of them leads, and so on.
    second.close().await.expect("closed");
    first.close().await.expect("closed");
    for (path, next) in paths.iter().zip(&order[2..]) {
        let leader = first.leader().await.expect("read").expect("somebody leads");
        assert_eq!((leader.id.as_str(), &leader.path), (*next, path));
        scene.observer.delete(path).await;
    }
    assert_eq!(first.leader().await, Ok(None));
}
