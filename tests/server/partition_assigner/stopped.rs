//! A process that leads, or a member, is stopped (SIGSTOP) for longer than its session, or killed.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{PartitionAssigner, PartitionAssignerBuilder};

use super::fixture::{A_WHILE, Fixture, SOON, builder, connect, counts, eager, have, joined, member, nodes, tokens};
use crate::support::elsewhere::{Elsewhere, ordered, say};
use crate::support::{eventually, unique_path, within};

/// The code of the other process, in all tests.
const OTHER: &str = concat!(module_path!(), "::one_that_was_stopped_has_nothing_when_it_wakes_and_writes_nothing");
const SESSION: Duration = Duration::from_secs(2);
/// For how long partitions are reserved for a member that vanished. It is longer than anything here takes.
const DELAY: Duration = Duration::from_secs(600);

/// Starts a process, and waits until it holds so many partitions. Returns whether it leads.
async fn start(fixture: &Fixture, id: &str, resource: &str, count: usize) -> (Elsewhere, bool) {
    let count = count.to_string();
    let mut process = Elsewhere::start(OTHER, &[&fixture.server.connect_string(), &fixture.path, id, resource, &count]);
    let word = process.word().await;
    let (held, leads) = word.split_once(' ').expect("a number, and whether it leads");
    assert_eq!(held, count);
    (process, leads == "true")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_stopped_has_nothing_when_it_wakes_and_writes_nothing() {
    if let Some(order) = ordered() {
        return take_part(order).await;
    }
    for leads in [true, false] {
        let fixture = Fixture::new("stopped").await;
        let base = fixture.path.as_str();
        let resource = unique_path("resource");
        fixture.observer.create(&resource, b"").await;
        let client = fixture.client().await;
        let (mut stopped, other) = if leads {
            let (stopped, is_leader) = start(&fixture, "stopped", &resource, 12).await;
            assert!(is_leader);
            (stopped, member(&client, base, "other").await)
        } else {
            let other = member(&client, base, "other").await;
            let (stopped, is_leader) = start(&fixture, "stopped", &resource, 6).await;
            assert!(!is_leader);
            (stopped, other)
        };
        have(&[&other], &[6]).await;
        stopped.tell("keep").await;
        assert_eq!(stopped.word().await, format!("6 {leads}"));
        stopped.stop().await;
        have(&[&other], &[12]).await;
        assert!(other.is_leader());
        let before = tokens(&[&other]);
        let epoch = fixture.observer.stat(&format!("{base}/epoch")).await.expect("there is a leader");

        // Its first command is ready when it resumes.
        stopped.tell("write").await;
        stopped.go_on();
        assert_eq!(stopped.word().await, "0 false", "partitions and leadership at the first look");
        let refused = stopped.word().await;
        assert!(refused.split(' ').all(|kind| ["SessionLost", "Fenced"].contains(&kind)), "{refused}");
        assert_eq!(refused.split(' ').count(), 6, "{refused}");
        have(&[&other], &[6]).await;
        let now = fixture.observer.stat(&format!("{base}/epoch")).await;
        assert_eq!(now.map(|now| now.mzxid), Some(epoch.mzxid), "no other member has taken over");
        let after = tokens(&[&other]);
        assert!(after.iter().all(|(name, token)| before[name] == *token), "what stays is held all the time");
        assert_eq!(fixture.observer.data(&resource).await.as_deref(), Some(&b""[..]));
        eventually("it is there again", SOON, || async { nodes(&fixture.observer, base).await == [2, 2, 12, 2] }).await;
        stopped.end().await;
        have(&[&other], &[12]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_process_that_leads_is_killed_another_one_leads_and_assigns_what_it_had() {
    let fixture = Fixture::new("killedleader").await;
    let base = fixture.path.as_str();
    let (killed, is_leader) = start(&fixture, "killed", "/", 12).await;
    assert!(is_leader);
    let (one, two) =
        (member(&fixture.client().await, base, "one").await, member(&fixture.client().await, base, "two").await);
    have(&[&one, &two], &[4, 4]).await;
    let before = tokens(&[&one, &two]);
    // While it makes room for another one, or not.
    let three = member(&fixture.client().await, base, "three").await;
    killed.kill().await;
    have(&[&one, &two, &three], &[4, 4, 4]).await;
    assert!(one.is_leader() && !two.is_leader() && !three.is_leader());
    assert_eq!(nodes(&fixture.observer, base).await, [3, 3, 12, 3]);
    let after = tokens(&[&one, &two, &three]);
    assert!(before.iter().all(|(name, token)| after[name] >= *token), "{after:?} after {before:?}");
}

/// The options of a member whose partitions stay reserved for it.
fn waiting(client: &Client, base: &str, id: &str) -> PartitionAssignerBuilder {
    eager(client, base, id).rebalance_delay(DELAY)
}

/// A member that was killed, then the leader: no other member gets what they had, and they get it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_member_had_is_kept_for_it_while_it_restarts() {
    let fixture = Fixture::new("restart").await;
    let base = fixture.path.as_str();
    let one = joined(waiting(&fixture.client().await, base, "one")).await;
    let two = joined(waiting(&fixture.client().await, base, "two")).await;
    let (killed, is_leader) = start(&fixture, "killed", "/", 4).await;
    assert!(!is_leader);
    have(&[&one, &two], &[4, 4]).await;
    let (mine, words) = (tokens(&[&one, &two]), killed.kill().await);
    assert!(words.is_empty(), "{words:?}");
    assert_is_kept(&fixture, &[&one, &two], &[4, 4], 0).await;
    let (mut again, is_leader) = start(&fixture, "killed", "/", 4).await;
    assert!(!is_leader);
    assert_eq!(tokens(&[&one, &two]), mine, "nothing has moved");

    // Now the leader leaves in the same way, and comes back by another process. The new leader waits as well.
    let theirs = tokens(&[&one]);
    within("it leaves", SOON, one.leave_for_restart()).await;
    eventually("another one leads", SOON, || async { two.is_leader() }).await;
    assert_is_kept(&fixture, &[&one, &two], &[0, 4], 4).await;
    let one = joined(waiting(&fixture.client().await, base, "one")).await;
    have(&[&one, &two], &[4, 4]).await;
    let after = tokens(&[&one]);
    assert!(after.keys().eq(theirs.keys()), "{after:?}, not {theirs:?}");
    assert!(after.iter().all(|(name, token)| *token > theirs[name]), "{after:?} after {theirs:?}");
    again.tell("keep").await;
    assert_eq!(again.word().await, "4 false");
    again.end().await;
    // It has left: others get what it had at once.
    have(&[&one, &two], &[6, 6]).await;
}

/// Waits until the nodes of those that are gone are gone, and checks that no other member gets their
/// partitions. The other process holds so many.
async fn assert_is_kept(fixture: &Fixture, members: &[&PartitionAssigner], expected: &[usize], elsewhere: usize) {
    let held = expected.iter().sum::<usize>() + elsewhere;
    let base = fixture.path.as_str();
    eventually("their nodes are gone", SOON, || async { nodes(&fixture.observer, base).await[2] == held }).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(counts(members), expected);
    assert_eq!(nodes(&fixture.observer, base).await[2], held);
}

/// In the other process: says what it holds and whether it leads, at first when it holds so many partitions, and then
/// with each order. It keeps what it holds then, or writes with the fences of what it has kept.
async fn take_part([server, base, id, resource, count]: [String; 5]) {
    let client = connect(builder(&server, SESSION)).await;
    let member = joined(eager(&client, &base, &id)).await;
    have(&[&member], &[count.parse().expect("a number")]).await;
    let mut kept = Vec::new();
    say(format_args!("{} {}", counts(&[&member])[0], member.is_leader()));
    loop {
        let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().and_then(Result::ok));
        let Some(order) = order.await.expect("no panic") else { break };
        say(format_args!("{} {}", counts(&[&member])[0], member.is_leader()));
        if order == "keep" {
            kept = member.assigned();
            continue;
        }
        let mut kinds = Vec::new();
        for partition in &kept {
            let write = client.transaction().check(&partition.fence()).set_data(&resource, "late", None);
            let refused = within("an answer", SOON, write.commit()).await.err();
            kinds.push(refused.map_or("accepted".to_owned(), |error| format!("{:?}", error.kind())));
        }
        say(kinds.join(" "));
    }
    within("it leaves", SOON, member.leave()).await;
}
