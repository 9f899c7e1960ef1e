//! The requests of a lock, counted on the wire.

use std::time::Duration;

use zookeeper_recipes::{Client, ErrorPolicy};

use super::fixture::{A_WHILE, Fixture, SOON, Waiting, acquired, mutex, released};
use crate::support::{Fault, OpCode, Proxy, eventually, within};

/// Everything that came over the wire, without what keeps the session.
fn on_the_wire(proxy: &Proxy) -> Vec<OpCode> {
    let all = proxy.requests().into_iter().map(|request| request.op);
    all.filter(|op| !matches!(op, OpCode::Ping | OpCode::Sync)).collect()
}

async fn client(fixture: &Fixture) -> (Proxy, Client) {
    // So long a session that no ping comes in between.
    fixture.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_lock_costs_three_requests_and_four_if_its_holder_wants_to_be_told_of_a_loss() {
    let fixture = Fixture::with_directory("free").await;
    let (proxy, client) = client(&fixture).await;
    let lock = mutex(&client, &fixture.path);
    for told in [false, true, false] {
        proxy.forget_requests();
        let before = client.request_counts();
        let guard = acquired(&lock).await;
        if told {
            guard.run(tokio::time::sleep(A_WHILE)).await.expect("held");
        }
        released(guard).await;
        let counts = client.request_counts() - before;
        assert_eq!(counts.total(), if told { 4 } else { 3 }, "{counts:?}");
        let mut expected = vec![OpCode::Create2, OpCode::GetChildren2, OpCode::GetData, OpCode::Delete];
        if !told {
            expected.remove(2);
        }
        assert_eq!(on_the_wire(&proxy), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_five_requests_a_cycle_and_the_next_holder_none_on_its_way() {
    let fixture = Fixture::with_directory("contended").await;
    let holder = mutex(&fixture.client().await, &fixture.path);
    let (proxy, client) = client(&fixture).await;
    let lock = mutex(&client, &fixture.path);
    for _ in 0..3 {
        let held = acquired(&holder).await;
        proxy.forget_requests();
        let waiting = Waiting::behind(&fixture, &lock, 1).await;
        let entered = [OpCode::Create2, OpCode::GetChildren2, OpCode::GetData, OpCode::GetData];
        eventually("both watches are sent", SOON, || async { on_the_wire(&proxy).len() == 4 }).await;
        assert_eq!(on_the_wire(&proxy), entered);
        tokio::time::sleep(A_WHILE).await;
        proxy.forget_requests();
        released(held).await;
        let guard = waiting.turn().await;
        assert_eq!(on_the_wire(&proxy), [], "the event was enough");
        released(guard).await;
        assert_eq!(on_the_wire(&proxy), [OpCode::Delete]);
    }
}

/// Two flights: requests that belong together are sent together. The second part is not held back until the first is
/// acknowledged, which takes forty milliseconds where the server has nothing to answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_acquire_and_its_release_leave_in_two_flights() {
    const CYCLES: usize = 15;
    const APART: Duration = Duration::from_millis(10);
    let fixture = Fixture::with_directory("flights").await;
    let (proxy, client) = client(&fixture).await;
    let lock = mutex(&client, &fixture.path);
    released(acquired(&lock).await).await;
    let mut gaps = Vec::new();
    for _ in 0..CYCLES {
        proxy.forget_requests();
        proxy.set(Fault::HoldAnswers).await;
        let acquiring = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        let first = [OpCode::Create2, OpCode::GetChildren2];
        eventually("the first flight needs no answer", SOON, || async { on_the_wire(&proxy) == first }).await;
        let sent = proxy.requests();
        let sent = sent.iter().filter(|request| first.contains(&request.op)).map(|request| request.at);
        let sent: Vec<_> = sent.collect();
        gaps.push(sent[1] - sent[0]);
        proxy.set(Fault::Pass).await;
        let guard = within("it is acquired", SOON, acquiring).await.expect("no panic").expect("free");
        released(guard).await;
        assert_eq!(on_the_wire(&proxy), [OpCode::Create2, OpCode::GetChildren2, OpCode::Delete]);
    }
    gaps.sort_unstable();
    println!("between create and list: {gaps:?}");
    // A busy machine may be late now and then.
    assert!(gaps[CYCLES / 2] < APART, "{gaps:?}");
}
