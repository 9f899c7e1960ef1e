//! Members join, change and leave.

use zookeeper_recipes::group_member::{Error, Format, GroupMember};
use zookeeper_recipes::testing::{Data, Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{GROUP, ids, join, setup, words};
use crate::fixture::{SOON, T, still_pending, within};

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
async fn an_id_that_another_session_has_is_refused_with_its_owner() {
    let (server, one, two) = setup().await;
    let first = join(&one, "same").await;
    let taken = within("it is refused", SOON, GroupMember::join(&two, GROUP, "same", "second")).await;
    let error = taken.expect_err("the id is taken");
    let session = one.session_id().expect("it has one");
    let (path, id, data) = (GROUP.into(), "same".to_owned(), b"same".to_vec());
    assert_eq!(error, Error::Taken { path, id, session, data });
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::NodeExists, true));
    for part in [GROUP, &format!("{session:#x}"), "data \"same\"", "GroupMemberBuilder::wait"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(server.get(&format!("{GROUP}/same")).as_deref(), Some(&b"same"[..]), "it is left alone");
    first.leave().await.expect("left");
    let second = within("it is free", SOON, GroupMember::join(&two, GROUP, "same", "second")).await;
    assert_eq!(second.expect("a member").members()["same"], b"second");
}

/// A kazoo party names nodes at random, so no id is ever taken there.
#[tokio::test(start_paused = true)]
async fn an_id_is_taken_only_where_it_names_the_node() {
    let (_server, one, two) = setup().await;
    let of = |client| GroupMember::builder(client, GROUP, "same").format(Format::Party).join();
    let (first, second) = futures::join!(of(&one), of(&two));
    assert_eq!(
        (ids(&first.expect("a member")), ids(&second.expect("a member"))),
        (vec!["same".into()], vec!["same".into()])
    );
}

/// The servers keep the session of the process that was stopped, or has lost its way to them, for a while.
#[tokio::test(start_paused = true)]
async fn a_join_that_goes_on_in_the_next_session_is_not_refused_by_its_own_node() {
    let (server, one, _) = setup().await;
    server.create_by_hand("/services", "", CreateMode::Persistent).expect("created");
    server.create_by_hand(GROUP, "", CreateMode::Persistent).expect("created");
    server.refuse(&one);
    server.lose_next_reply(&one, Operation::Create, Loss::Applied);
    let former = one.session_id();
    let mut joining = Box::pin(GroupMember::join(&one, GROUP, "m1", "m1"));
    still_pending("there is no connection", &mut joining).await;
    // No session times out, so the node stays.
    server.stop();
    server.heal();
    let gives_up = server.until(|| one.session_id() != former);
    let _ = tokio::time::timeout(T * 4, futures::future::select(Box::pin(gives_up), &mut joining)).await;
    server.restart(Data::Kept);
    let _member = within("it has joined", T * 6, joining).await.expect("a member");
    assert_eq!(server.children(GROUP), ["m1"]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_session_has_is_waited_for() {
    let (server, one, two) = setup().await;
    let first = join(&one, "same").await;
    let mut joining = Box::pin(GroupMember::builder(&two, GROUP, "same").data("second").wait().join());
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
    let mut joining = Box::pin(GroupMember::builder(&two, GROUP, "same").data("second").wait().join());
    still_pending("the id is taken", &mut joining).await;
    drop(joining);
    for times in 1..12 {
        drop(crate::fixture::polled(times, GroupMember::join(&two, GROUP, "m2", "")).await);
        tokio::time::sleep(SOON).await;
        assert_eq!(server.children(GROUP), ["same"], "{times}");
    }
}
