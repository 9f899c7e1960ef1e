//! Sessions that end, nodes that are deleted, processes that stand still.

use zookeeper_recipes::group_member::Members;
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{GROUP, ids, join, setup, words};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_member_whose_session_ends_leaves_and_joins_again() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let second = join(&two, "m2").await;
    second.set_data("latest").await.expect("written");
    within("seen", SOON, first.wait_for(|members| members["m2"] == b"latest")).await.expect("members");
    let mut changes = first.changes();
    for _ in 0..3 {
        server.refuse(&two);
        server.expire_session(&two);
        assert_eq!(words(&mut changes).await, ["-m2"]);
        assert_eq!(ids(&second), ["m1", "m2"], "a member always counts itself");
        server.heal();
        tokio::time::sleep(T * 2).await;
        assert_eq!(words(&mut changes).await, ["+m2"]);
        assert_eq!(first.members()["m2"], b"latest");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_by_hand_comes_back() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let _second = join(&two, "m2").await;
    let mut changes = first.changes();
    server.delete_by_hand(&format!("{GROUP}/m2")).expect("deleted");
    tokio::time::sleep(SOON).await;
    assert_eq!(words(&mut changes).await.last().map(String::as_str), Some("+m2"));
    assert_eq!(server.children(GROUP).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_in_an_outage_is_reported_once() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let second = join(&two, "m2").await;
    let mut changes = first.changes();
    server.refuse(&one);
    server.disconnect(&one);
    second.leave().await.expect("left");
    let _third = join(&two, "m3").await;
    server.heal();
    tokio::time::sleep(T).await;
    assert_eq!(words(&mut changes).await, ["-m2", "+m3", "synced"]);
    assert_eq!(ids(&first), ["m1", "m3"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_session_is_a_member_again() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let _second = join(&two, "m2").await;
    server.freeze_client(&two);
    within("it has failed", T * 3, first.wait_for(|members| members.len() == 1)).await.expect("members");
    server.thaw_client(&two);
    within("it is back", T * 3, first.wait_for(|members| members.len() == 2)).await.expect("members");
    assert_eq!(server.children(GROUP).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_it() {
    let (_server, one, _) = setup().await;
    let first = join(&one, "m1").await;
    let mut changes = first.changes();
    one.close().await.expect("closed");
    assert!(within("the end", SOON, changes.next()).await.is_none());
    let error = first.wait_for(|members| members.is_empty()).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(first.set_data("x").await.expect_err("closed").kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn of_two_calls_at_once_the_later_data_counts_everywhere() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let second = join(&two, "m2").await;
    for (early, late) in [("a", "b"), ("c", "d")] {
        let (one, two) = futures::join!(second.set_data(early), second.set_data(late));
        one.and(two).expect("written");
        assert_eq!(second.members()["m2"], late.as_bytes());
        within("seen", SOON, first.wait_for(|members| members["m2"] == late.as_bytes())).await.expect("members");
    }
    // Data that is refused for its size changes nothing.
    second.set_data(vec![0; 2 << 20]).await.expect_err("too much");
    server.refuse(&two);
    server.expire_session(&two);
    within("it is away", T, first.wait_for(|members| members.len() == 1)).await.expect("members");
    assert_eq!(second.members()["m2"], b"d");
}

#[tokio::test(start_paused = true)]
async fn the_node_of_another_session_counts_and_not_our_data_also_in_an_outage() {
    let (server, one, two) = setup().await;
    let member = join(&two, "m").await;
    server.refuse(&two);
    server.expire_session(&two);
    one.create(&format!("{GROUP}/m"), "theirs", CreateMode::Ephemeral).await.expect("it is free");
    server.heal();
    let is_theirs = |members: &Members| members["m"] == b"theirs";
    within("it is seen", SOON, member.wait_for(is_theirs)).await.expect("members");
    server.refuse(&two);
    server.disconnect(&two);
    tokio::time::sleep(T / 4).await;
    assert!(is_theirs(&member.members()), "{:?}", member.state().get());
    server.heal();
    one.delete(&format!("{GROUP}/m"), None).await.expect("it is there");
    within("ours is there", SOON, member.wait_for(|members| members["m"] == b"m")).await.expect("members");
}
