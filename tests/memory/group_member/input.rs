//! Input that makes no sense.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::group_member::{Error, Format, GroupMember};

use super::fixture::{GROUP, setup};

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_at_once() {
    let (_server, client, _) = setup().await;
    for path in ["", "/", "relative", "/a//b"] {
        let error = GroupMember::join(&client, path, "m1", "").await.expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    for id in ["", "a/b"] {
        let error = GroupMember::join(&client, GROUP, id, "").await.expect_err(id);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{id:?}")) && error.to_string().contains(GROUP), "{error}");
    }
    let error = GroupMember::join(&client, GROUP, "..", "").await.expect_err("not a name");
    assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
    let party = GroupMember::builder(&client, GROUP, "a/b").format(Format::Party);
    let error = party.clone().data("x").join().await.expect_err("a party has no data");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let member = party.join().await.expect("the id is data");
    let error = member.set_data("x").await.expect_err("a party has no data");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_the_error_of_join() {
    let (server, client, _) = setup().await;
    server.create_by_hand("/services", "", zookeeper_recipes::CreateMode::Persistent).expect("created");
    server.deny("/services");
    let error = GroupMember::join(&client, GROUP, "m1", "").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}
