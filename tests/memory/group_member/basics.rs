//! Members join, change and leave.

use zookeeper_recipes::group_member::GroupMember;

use super::fixture::{GROUP, ids, join, setup, words};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn members_see_each_other_their_data_and_who_leaves() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    assert_eq!(ids(&first), ["m1"]);
    let mut changes = first.changes();
    let second = join(&two, "m2").await;
    assert_eq!(ids(&second), ["m1", "m2"]);
    let members = within("seen", SOON, first.wait_for(|members| members.len() == 2)).await.expect("members");
    assert_eq!(members.get("m2").map(Vec::as_slice), Some(&b"m2"[..]));
    second.set_data("other").await.expect("written");
    within("seen", SOON, first.wait_for(|members| members["m2"] == b"other")).await.expect("members");
    second.leave().await.expect("left");
    assert_eq!(server.children(GROUP), ["m1"], "gone for sure");
    assert_eq!(words(&mut changes).await, ["+m2", "~m2", "-m2"]);
    assert_eq!(ids(&first), ["m1"]);
    assert_eq!(ids(&second), ["m1"], "it can look on");
    second.leave().await.expect("it has left already");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_member_leaves() {
    let (server, one, two) = setup().await;
    let first = join(&one, "m1").await;
    let second = join(&two, "m2").await;
    drop(second);
    within("seen", SOON, first.wait_for(|members| members.len() == 1)).await.expect("members");
    assert_eq!(server.children(GROUP), ["m1"]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_session_has_is_waited_for() {
    let (server, one, two) = setup().await;
    let first = join(&one, "same").await;
    let mut joining = Box::pin(GroupMember::join(&two, GROUP, "same", "second"));
    still_pending("the id is taken", &mut joining).await;
    assert_eq!(server.get(&format!("{GROUP}/same")).as_deref(), Some(&b"same"[..]), "it is left alone");
    first.leave().await.expect("left");
    let second = within("it is free", SOON, joining).await.expect("a member");
    assert_eq!(server.get(&format!("{GROUP}/same")).as_deref(), Some(&b"second"[..]));
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_join_that_is_dropped_leaves_nothing() {
    let (server, one, two) = setup().await;
    let _first = join(&one, "same").await;
    let mut joining = Box::pin(GroupMember::join(&two, GROUP, "same", "second"));
    still_pending("the id is taken", &mut joining).await;
    drop(joining);
    for times in 1..12 {
        drop(crate::fixture::polled(times, GroupMember::join(&two, GROUP, "m2", "")).await);
        tokio::time::sleep(SOON).await;
        assert_eq!(server.children(GROUP), ["same"], "{times}");
    }
}
