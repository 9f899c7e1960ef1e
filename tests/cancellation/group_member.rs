//! GroupMember: joining, new data, leaving, and waiting for the others.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::Client;
use zookeeper_recipes::group_member::{Change, GroupMember};

use crate::harness::{Run, cases};

cases! {
    join: "GroupMember::join", at least 50 drops, 30 faults;
    join_by_the_builder: "GroupMemberBuilder::join", at least 50 drops, 30 faults;
    set_data: "GroupMember::set_data", at least 50 drops, 30 faults;
    leave: "GroupMember::leave", at least 50 drops, 30 faults;
    wait_for: "GroupMember::wait_for", at least 20 drops, 8 faults;
    changes: "Changes::next", at least 20 drops, 8 faults;
}

const GROUP: &str = "/services";
const OWN: &str = "/services/a";
const OTHER: &str = "/services/b";
/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

async fn member(client: &Client) -> GroupMember {
    let joining = GroupMember::join(client, GROUP, "a", "old");
    timeout(PATIENCE, joining).await.expect("it joins").expect("it is repeated")
}

async fn leaves(run: &Run, member: &GroupMember) {
    timeout(PATIENCE, member.leave()).await.expect("it ends").expect("it is repeated");
    assert_eq!(run.server().get(OWN), None);
}

/// After a drop, the node is deleted in the background, and the id is free for another try.
async fn join(run: &mut Run) {
    join_with(run, async |run, client| run.cut(GroupMember::join(client, GROUP, "a", "old")).await.done()).await;
}

async fn join_by_the_builder(run: &mut Run) {
    join_with(run, async |run, client| {
        run.cut(GroupMember::builder(client, GROUP, "a").data("old").join()).await.done()
    })
    .await;
}

async fn join_with(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &Client) -> Option<Result<GroupMember, zookeeper_recipes::group_member::Error>>,
) {
    run.directory(GROUP);
    let client = run.client().await;
    let first = match cut(run, &client).await {
        Some(joined) => joined.expect("it is repeated"),
        None => {
            run.in_the_end("it is gone", || run.server().children(GROUP).is_empty()).await;
            member(&client).await
        }
    };
    run.in_the_end("it is there", || run.server().get(OWN).as_deref() == Some(b"old")).await;
    leaves(run, &first).await;
}

/// Once polled, the data counts.
async fn set_data(run: &mut Run) {
    run.directory(GROUP);
    let client = run.client().await;
    let member = member(&client).await;
    if let Some(set) = run.cut(member.set_data("new")).await.done() {
        set.expect("it is repeated");
    }
    let data: &[u8] = if run.is_polled() { b"new" } else { b"old" };
    run.in_the_end("it has the data", || run.server().get(OWN).as_deref() == Some(data)).await;
    run.in_the_end("it sees its data", || member.members().get("a").map(Vec::as_slice) == Some(data)).await;
    leaves(run, &member).await;
}

/// Once polled, the node is deleted.
async fn leave(run: &mut Run) {
    run.directory(GROUP);
    let client = run.client().await;
    let member = member(&client).await;
    match run.cut(member.leave()).await.done() {
        Some(left) => {
            left.expect("it is repeated");
            assert_eq!(run.server().get(OWN), None);
        }
        None if run.is_polled() => run.in_the_end("it is gone", || run.server().get(OWN).is_none()).await,
        None => run.in_the_end("it is there", || run.server().get(OWN).is_some()).await,
    }
    leaves(run, &member).await;
    run.in_the_end("it sees that", || member.members().is_empty()).await;
}

/// The call only waits, and changes nothing.
async fn wait_for(run: &mut Run) {
    run.directory(GROUP);
    let client = run.client().await;
    let member = member(&client).await;
    let other = run.other_client().await;
    let other = GroupMember::join(&other, GROUP, "b", "").await.expect("nothing is wrong yet");
    if let Some(members) = run.cut(member.wait_for(|members| members.contains_key("b"))).await.done() {
        assert!(members.expect("it is open").contains_key("b"));
    }
    let members = timeout(PATIENCE, member.wait_for(|members| members.contains_key("b"))).await.expect("it comes");
    assert!(members.expect("it is open").contains_key("a"));
    other.leave().await.expect("left");
    assert_eq!(run.server().get(OTHER), None);
    leaves(run, &member).await;
}

/// The next call returns a change that was not returned.
async fn changes(run: &mut Run) {
    run.directory(GROUP);
    let client = run.client().await;
    let member = member(&client).await;
    let mut changes = member.changes();
    let mut now = changes.start();
    let other = run.other_client().await;
    let other = GroupMember::join(&other, GROUP, "b", "").await.expect("nothing is wrong yet");
    let mut change = run.cut(changes.next()).await.done();
    loop {
        match change.unwrap_or(None) {
            Some(Change::Joined { id, data }) => drop(now.insert(id, data)),
            Some(Change::Left { id, .. }) => drop(now.remove(&id)),
            _ => {}
        }
        if now.contains_key("a") && now.contains_key("b") {
            break;
        }
        change = Some(timeout(PATIENCE, changes.next()).await.expect("no change is missing"));
    }
    other.leave().await.expect("left");
    leaves(run, &member).await;
}
