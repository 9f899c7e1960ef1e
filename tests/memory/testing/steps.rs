//! `after_each_step`: invariants that hold at every moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::testing::{Task, TestingServer};

use super::fixture::{connect, latch};

#[tokio::test(start_paused = true)]
async fn after_each_step_is_called_while_something_happens_and_only_then() {
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let check = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let server = TestingServer::builder().after_each_step(check).start();
    let client = connect(&server).await;
    latch(&client).await.wait_for_leadership().await.unwrap();
    let busy = steps.load(Ordering::Relaxed);
    assert!(busy > 10, "{busy} steps");
    let task = server.spawn(&client, async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    });
    task.await.unwrap();
    assert!(steps.load(Ordering::Relaxed) >= busy + 100, "each step of a task beside a client counts");
}

/// It sees what holds for no longer than a step.
#[tokio::test(start_paused = true)]
async fn after_each_step_sees_what_holds_for_one_step_only() {
    let (on, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (looking, counted) = (Arc::clone(&on), Arc::clone(&seen));
    let check = move || _ = counted.fetch_add(usize::from(looking.load(Ordering::Relaxed)), Ordering::Relaxed);
    let server = TestingServer::builder().after_each_step(check).start();
    let client = connect(&server).await;
    let task = server.spawn(&client, async move {
        on.store(true, Ordering::Relaxed);
        tokio::task::yield_now().await;
        on.store(false, Ordering::Relaxed);
    });
    task.await.unwrap();
    assert!(seen.load(Ordering::Relaxed) >= 1);
}

fn failing() -> TestingServer {
    let steps = AtomicUsize::new(0);
    let check = move || assert!(steps.fetch_add(1, Ordering::Relaxed) < 200, "two leaders at once");
    TestingServer::builder().after_each_step(check).start()
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_ends_the_simulation_and_is_among_the_panics() {
    let server = failing();
    let client = connect(&server).await;
    let after = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&after);
    let task: Task<()> = server.spawn(&client, async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(task.await.is_err(), "the task ends with its world");
    assert_eq!(server.panics(), ["two leaders at once"]);
    let steps = after.load(Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(after.load(Ordering::Relaxed), steps, "nothing runs any more");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "steps.rs:79:12: the simulation has ended: [\"two leaders at once\"]")]
async fn until_tells_of_a_check_that_failed() {
    let server = failing();
    let client = connect(&server).await;
    let _latch = latch(&client).await;
    server.until(|| false).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "steps.rs:86:12: the condition did not hold within 600s")]
async fn until_has_an_end() {
    let server = TestingServer::start();
    server.until(|| false).await;
}
