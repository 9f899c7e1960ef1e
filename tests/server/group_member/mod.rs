//! The group member on real servers.

use std::time::Duration;

use zookeeper_recipes::group_member::{Change, GroupMember};
use zookeeper_recipes::{Client, ErrorPolicy};

use crate::fixture::{Fixture, SOON};
use crate::support::within;

async fn join(client: &Client, group: &str, id: &str) -> GroupMember {
    within("it joins", SOON, GroupMember::join(client, group, id, id)).await.expect("a member")
}

async fn sees(member: &GroupMember, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(id, data)| ((*id).to_owned(), data.as_bytes().to_vec())).collect();
    let holds = member.wait_for(|members| members.clone().into_iter().eq(expected.iter().cloned()));
    within("the members are these", SOON, holds).await.expect("members");
}

/// Curator's TestGroupMember.testBasic, and what another client sees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_see_each_other_their_data_and_who_leaves() {
    let fixture = Fixture::new("group").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let first = join(&one, &fixture.path, "1").await;
    sees(&first, &[("1", "1")]).await;
    let second = join(&two, &fixture.path, "2").await;
    for member in [&first, &second] {
        sees(member, &[("1", "1"), ("2", "2")]).await;
    }
    let path = format!("{}/2", fixture.path);
    assert_eq!(fixture.observer.owner(&path).await, two.session_id());
    within("written", SOON, second.set_data("other")).await.expect("written");
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"other"[..]));
    sees(&first, &[("1", "1"), ("2", "other")]).await;
    within("it leaves", SOON, second.leave()).await.expect("left");
    assert!(!fixture.observer.exists(&path).await, "gone for sure");
    sees(&first, &[("1", "1")]).await;
    // A node that a Java service would make.
    fixture.observer.create_ephemeral(&format!("{}/java", fixture.path), b"10.0.0.2").await;
    sees(&first, &[("1", "1"), ("java", "10.0.0.2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_session_leaves_and_joins_again() {
    let fixture = Fixture::new("group").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(4), ErrorPolicy::Standard).await;
    let other = fixture.client().await;
    let first = join(&other, &fixture.path, "1").await;
    let second = join(&client, &fixture.path, "2").await;
    sees(&first, &[("1", "1"), ("2", "2")]).await;
    let mut changes = first.changes();
    proxy.kill_session().await;
    proxy.cut().await;
    let left = within("it has left", SOON, changes.next()).await;
    assert!(matches!(left, Some(Change::Left { ref id, .. }) if id == "2"), "{left:?}");
    let joined = within("it is back", SOON, changes.next()).await;
    assert!(matches!(joined, Some(Change::Joined { ref id, .. }) if id == "2"), "{joined:?}");
    for member in [&first, &second] {
        sees(member, &[("1", "1"), ("2", "2")]).await;
    }
}
