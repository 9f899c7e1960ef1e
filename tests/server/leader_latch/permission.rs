//! Paths without permission: an error for who waits, no storm of requests, and a way back.

use std::time::Duration;

use zookeeper::{Acl, AuthId, Permission};
use zookeeper_recipes::leader_latch::{Error, LatchStatus, LeaderLatch};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{Fixture, latch, leads_in_the_end, reaches};
use crate::support::{Observer, within};

/// An ACL that grants all clients this permission, and ADMIN.
fn only(permission: Permission) -> Vec<Acl> {
    vec![Acl::new(permission | Permission::ADMIN, AuthId::anyone())]
}

async fn set_acl(observer: &Observer, path: &str, permission: Permission) {
    let set = observer.client().set_acl(path, &only(permission), None).await;
    set.expect("the ACL is set");
}

/// The wait ends with `NoAuth`, and for two seconds there are few requests.
async fn is_refused_quietly(client: &Client, latch: &LeaderLatch) {
    let refused = within("the waiter is told", Duration::from_secs(5), latch.wait_for_leadership()).await;
    match refused {
        Err(Error::Client { error: source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::NoAuth, "{source}");
            assert!(source.to_string().contains(latch.path()), "{source}");
        }
        other => panic!("{other:?}"),
    }
    reaches(latch, LatchStatus::Failed).await;
    let before = client.request_counts();
    // An observation: how many requests there are in this time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sent = client.request_counts() - before;
    println!("{}: {} requests in two seconds", latch.path(), sent.total());
    assert!(sent.total() <= 10, "{sent:?}");
    assert!(!latch.has_leadership());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_allows_no_children_is_an_error_until_it_does() {
    let fixture = Fixture::new("no-create").await;
    fixture.observer.create_with_acl(&fixture.path, b"", &only(Permission::READ)).await;
    let client = fixture.client().await;
    let latch = fixture.latch(&client, "refused");
    is_refused_quietly(&client, &latch).await;
    set_acl(&fixture.observer, &fixture.path, Permission::ALL).await;
    leads_in_the_end(&latch).await;
    assert_eq!(fixture.nodes().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_below_which_no_directory_can_be_made_is_an_error_until_it_can() {
    let fixture = Fixture::new("no-parents").await;
    fixture.observer.create_with_acl(&fixture.path, b"", &only(Permission::READ)).await;
    let client = fixture.client().await;
    let latch = latch(&client, &format!("{}/deep/line", fixture.path), "refused");
    is_refused_quietly(&client, &latch).await;
    set_acl(&fixture.observer, &fixture.path, Permission::ALL).await;
    leads_in_the_end(&latch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_listed_is_an_error_and_gathers_no_nodes() {
    let fixture = Fixture::new("no-read").await;
    let blind = Permission::CREATE | Permission::DELETE;
    fixture.observer.create_with_acl(&fixture.path, b"", &only(blind)).await;
    let client = fixture.client().await;
    let latch = fixture.latch(&client, "blind");
    is_refused_quietly(&client, &latch).await;
    set_acl(&fixture.observer, &fixture.path, Permission::ALL).await;
    leads_in_the_end(&latch).await;
    // Those of the failed attempts are gone.
    assert_eq!(fixture.observer.wait_for_children(&fixture.path, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_not_be_deleted_is_an_error_of_the_close_and_is_removed_with_the_session() {
    let fixture = Fixture::new("no-delete").await;
    let sticky = Permission::CREATE | Permission::READ;
    fixture.observer.create_with_acl(&fixture.path, b"", &only(sticky)).await;
    let client = fixture.client().await;
    let latch = fixture.latch(&client, "sticky");
    leads_in_the_end(&latch).await;
    match latch.close().await {
        Err(Error::Client { error: source, .. }) => assert_eq!(source.kind(), ErrorKind::NoAuth),
        other => panic!("{other:?}"),
    }
    assert!(!latch.has_leadership());
    assert_eq!(fixture.nodes().await.len(), 1);
    client.close().await.expect("the server is told");
    assert_eq!(fixture.nodes().await, [""; 0]);
}
