//! The znodes of Curator's groups and of kazoo's parties.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::group_member::{Change, Format, GroupMember};

use super::fixture::{GROUP, ids, join, setup};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn curators_members_are_ephemeral_and_named_as_their_ids() {
    let (server, one, _) = setup().await;
    let member = GroupMember::join(&one, GROUP, "m1", "data").await.expect("a member");
    assert_eq!(server.get(&format!("{GROUP}/m1")).as_deref(), Some(&b"data"[..]));
    assert_ne!(server.stat(&format!("{GROUP}/m1")).expect("it is there").ephemeral_owner, 0);
    // As another client makes it.
    server.create_by_hand(&format!("{GROUP}/java"), "10.0.0.2", CreateMode::Persistent).expect("created");
    let members = within("seen", SOON, member.wait_for(|members| members.len() == 2)).await.expect("members");
    assert_eq!(members["java"], b"10.0.0.2");
}

#[tokio::test(start_paused = true)]
async fn kazoos_parties() {
    let (server, one, two) = setup().await;
    for format in [Format::Party, Format::ShallowParty] {
        let group = format!("/party/{format:?}");
        let joined = |client, id: &str| GroupMember::builder(client, &group, id).format(format).join();
        let first = joined(&one, "a-1").await.expect("a member");
        let second = joined(&two, "b-2").await.expect("a member");
        assert_eq!(ids(&second), ["a-1", "b-2"]);
        let (name, data) = match format {
            Format::Party => ("0123456789abcdef0123456789abcdef__party__", "kazoo-3"),
            _ => ("0123456789abcdef0123456789abcdef-kazoo-3", ""),
        };
        server.create_by_hand(&format!("{group}/{name}"), data, CreateMode::Persistent).expect("created");
        within("seen", SOON, first.wait_for(|members| members.len() == 3)).await.expect("members");
        assert_eq!(ids(&first), ["a-1", "b-2", "kazoo-3"]);
        let names = server.children(&group);
        assert!(names.iter().all(|name| name.len() >= 33 && (name.contains("__party__") || name.contains('-'))));
        if format == Format::Party {
            server.create_by_hand(&format!("{group}/other"), "not a member", CreateMode::Persistent).expect("created");
            tokio::time::sleep(SOON).await;
            assert_eq!(first.members().len(), 3);
        }
        second.leave().await.expect("left");
        assert_eq!(ids(&second), ["a-1", "kazoo-3"]);
    }
}

/// As after a crash and a new start, until the servers end the first session.
#[tokio::test(start_paused = true)]
async fn a_party_with_two_nodes_of_one_id_has_one_member_until_both_are_gone() {
    let (_server, one, two) = setup().await;
    for format in [Format::Party, Format::ShallowParty] {
        let group = format!("/party/{format:?}");
        let joined = |client, id: &str| GroupMember::builder(client, &group, id).format(format).join();
        let observer = joined(&one, "observer").await.expect("a member");
        let mut changes = observer.changes();
        let before = joined(&one, "twice").await.expect("a member");
        let after = joined(&two, "twice").await.expect("a member");
        before.leave().await.expect("left");
        joined(&two, "between").await.expect("a member").leave().await.expect("left");
        within("seen", SOON, observer.wait_for(|members| members.len() == 2)).await.expect("members");
        assert_eq!(ids(&observer), ["observer", "twice"], "{format:?}");
        after.leave().await.expect("left");
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != "- twice") {
            match within("a change", SOON, changes.next()).await.expect("the member lives") {
                Change::Joined { id, .. } => seen.push(format!("+ {id}")),
                Change::Left { id, .. } => seen.push(format!("- {id}")),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, ["+ twice", "+ between", "- between", "- twice"], "{format:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_group_is_a_container() {
    let (server, one, _) = setup().await;
    let member = join(&one, "m1").await;
    member.leave().await.expect("left");
    drop(member);
    tokio::time::sleep(std::time::Duration::from_secs(200)).await;
    assert!(server.stat(GROUP).is_none(), "it goes with its last member");
}
