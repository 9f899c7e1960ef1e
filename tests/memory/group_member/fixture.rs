//! Shared by the tests of the group member.

use zookeeper_recipes::Client;
use zookeeper_recipes::group_member::{Change, Changes, GroupMember};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::{SOON, within};

pub(crate) const GROUP: &str = "/services/api";

/// A server, and two clients.
pub(crate) async fn setup() -> (TestingServer, Client, Client) {
    let server = TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    (server, one, two)
}

/// Joins with the id as data.
pub(crate) async fn join(client: &Client, id: &str) -> GroupMember {
    within("joined", SOON, GroupMember::join(client, GROUP, id, id)).await.expect("a member")
}

pub(crate) fn ids(member: &GroupMember) -> Vec<String> {
    member.members().into_keys().collect()
}

/// The next changes in words, until there are no more.
pub(crate) async fn words(changes: &mut Changes) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(change)) = tokio::time::timeout(SOON, changes.next()).await {
        words.push(match change {
            Change::Joined { id, .. } => format!("+{id}"),
            Change::Updated { id, .. } => format!("~{id}"),
            Change::Left { id, .. } => format!("-{id}"),
            Change::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        });
    }
    words
}
