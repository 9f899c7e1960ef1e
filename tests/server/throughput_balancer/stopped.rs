//! A process that leads is stopped (SIGSTOP) for longer than its session, or killed.

use std::time::Duration;

use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};

use super::fixture::{Fixture, SOON, builder, connect, have, member, nodes, throughputs};
use crate::support::elsewhere::{Elsewhere, ordered, say};
use crate::support::{eventually, within};

/// The code of the other process, in both tests.
const LEADER: &str =
    concat!(module_path!(), "::a_leader_that_was_stopped_has_nothing_when_it_wakes_and_changes_nothing");
const SESSION: Duration = Duration::from_secs(2);
/// It is stopped while it waits for others to come.
const QUIET: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_has_nothing_when_it_wakes_and_changes_nothing() {
    if let Some(order) = ordered() {
        return take_part(order).await;
    }
    let fixture = Fixture::new("stopped").await;
    let base = fixture.path.as_str();
    let client = fixture.client().await;
    set_max_throughput(&client, base, 1_000).await.expect("set");
    let mut stopped = Elsewhere::start(LEADER, &[&fixture.server.connect_string(), base]);
    assert_eq!(stopped.word().await, "1000 1000 true");

    // It is about to make room for another one.
    let other = member(&client, base).await;
    stopped.stop().await;
    have(&[&other], &[1000], 1000).await;
    assert!(other.is_leader());
    set_max_throughput(&client, base, 600).await.expect("set");
    have(&[&other], &[600], 1000).await;
    let epoch = fixture.observer.stat(&format!("{base}/epoch")).await.expect("there is a leader");

    // Its first command is ready when it resumes.
    stopped.tell("look").await;
    stopped.go_on();
    assert_eq!(stopped.word().await, "0 0 false", "share, limiter and leadership at the first look");
    have(&[&other], &[300], 600).await;
    assert!(other.is_leader());
    let (node, now) = (
        format!("{base}/client/{}", other.member_id().expect("registered")),
        fixture.observer.stat(&format!("{base}/epoch")).await,
    );
    assert_eq!(now.map(|now| now.mzxid), Some(epoch.mzxid), "no other member has taken over");
    let record = String::from_utf8(fixture.observer.data(&node).await.expect("it is there")).expect("text");
    assert!(record.contains(&format!(r#""epoch":{},"#, epoch.mzxid)), "{record}");
    eventually("it is there again", SOON, || async { nodes(&fixture, base).await == [2, 2, 2] }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_process_that_leads_is_killed_another_one_leads_and_has_its_share() {
    let fixture = Fixture::new("killedleader").await;
    let base = fixture.path.as_str();
    let client = fixture.client().await;
    set_max_throughput(&client, base, 1_000).await.expect("set");
    let mut killed = Elsewhere::start(LEADER, &[&fixture.server.connect_string(), base]);
    assert_eq!(killed.word().await, "1000 1000 true");
    let (one, two) = (member(&client, base).await, member(&fixture.client().await, base).await);
    have(&[&one, &two], &[333, 333], 667).await;
    killed.tell("look").await;
    assert_eq!(killed.word().await, "333 333 true");
    // In the middle of a lowering, or not.
    set_max_throughput(&client, base, 900).await.expect("set");
    killed.kill().await;
    have(&[&one, &two], &[450, 450], 900).await;
    assert!(one.is_leader() && !two.is_leader());
    assert_eq!(nodes(&fixture, base).await, [2, 2, 2]);
}

/// In the other process.
async fn take_part([server, base]: [String; 2]) {
    let client = connect(builder(&server, SESSION)).await;
    let limiter = ShareLimiter::new(0);
    let options = ThroughputBalancer::builder(&client, &*base).debounce(QUIET, QUIET).limiter(&limiter);
    let member = within("it joins", SOON, options.join()).await.expect("it joins");
    have(&[&member], &[1000], 1000).await;
    loop {
        say(format_args!("{} {} {}", throughputs(&[&member])[0], limiter.rate(), member.is_leader()));
        let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().is_some());
        if !order.await.expect("no panic") {
            return;
        }
    }
}
