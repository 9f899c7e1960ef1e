//! A group member and kazoo's parties.

use zookeeper_recipes::group_member::{Format, GroupMember};

use super::PATIENCE;
use super::kazoo::Kazoo;
use crate::fixture::Fixture;
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_party_and_ours_see_each_other_come_and_go() {
    for (format, kind) in [(Format::Party, "Party"), (Format::ShallowParty, "ShallowParty")] {
        let fixture = Fixture::new("party").await;
        let client = fixture.client().await;
        let joining = GroupMember::builder(&client, &fixture.path, "rust-1").format(format).join();
        let member = within("it joins", PATIENCE, joining).await.expect("a member");
        let kazoo = Kazoo::party(&fixture.server.connect_string(), &fixture.path, kind, "rust-1");
        let both = member.wait_for(|members| members.len() == 2);
        let members = within("kazoo comes", PATIENCE, both).await.expect("members");
        assert_eq!(members.into_keys().collect::<Vec<_>>(), ["kazoo-1", "rust-1"], "{kind}");
        fixture.observer.wait_until_exists(&format!("{}-seen", fixture.path)).await;
        within("it leaves", PATIENCE, member.leave()).await.expect("left");
        within("kazoo has seen it go", PATIENCE, kazoo.ends()).await;
        within("kazoo goes", PATIENCE, member.wait_for(|members| members.is_empty())).await.expect("members");
    }
}
