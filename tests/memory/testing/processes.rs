//! Processes: `freeze_client`, `thaw_client`, and what `spawn` runs beside a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::ConnectionState::{Lost, Reconnected};
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::testing::{Task, TaskGone, TestingServer};

use super::fixture::{A_MOMENT, States, T, connect, latch, session};

#[tokio::test(start_paused = true)]
async fn freeze_client_stops_the_tasks_of_that_client_and_no_other() {
    let server = TestingServer::start();
    let clients = [connect(&server).await, connect(&server).await];
    let ticks = [const { AtomicUsize::new(0) }; 2].map(Arc::new);
    for (client, ticks) in clients.iter().zip(&ticks) {
        let ticks = Arc::clone(ticks);
        server.spawn(client, async move {
            loop {
                sleep(Duration::from_millis(100)).await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let seen = || [0, 1].map(|one| ticks[one].load(Ordering::Relaxed));
    sleep(Duration::from_millis(1_050)).await;
    assert_eq!(seen(), [10, 10]);
    server.freeze_client(&clients[0]);
    assert!(server.is_frozen(&clients[0]) && !server.is_frozen(&clients[1]));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(seen(), [10, 30]);
    // Twice is as good as once.
    server.freeze_client(&clients[0]);
    server.thaw_client(&clients[0]);
    assert!(!server.is_frozen(&clients[0]));
    sleep(Duration::from_secs(1)).await;
    let [thawed, other] = seen();
    assert!((20..=21).contains(&thawed) && other == 40, "{thawed} and {other}");
    server.thaw_client(&clients[1]);
    assert_eq!(server.panics(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_frozen_for_longer_than_its_session_learns_it_when_it_wakes() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
    let mut states = States::of(&client).await;
    let begun = Instant::now();
    server.freeze_client(&client);
    server.until(|| session(&server, &client).is_none()).await;
    let lived = begun.elapsed();
    assert!(lived <= T + A_MOMENT && lived > T / 2, "{lived:?}");
    assert_eq!(other.exists("/mine").await.unwrap(), None);
    sleep(T * 5).await;
    states.are_at_rest();
    server.thaw_client(&client);
    let known = tokio::time::timeout(T / 2, async {
        // By chance it looks at its clock first, or at its socket.
        while client.connection_state() != Lost && client.connection_state() != Reconnected {
            sleep(Duration::from_millis(1)).await;
        }
    });
    known.await.expect("it knows soon");
    server.until(|| client.connection_state() == Reconnected).await;
    client.exists("/").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_frozen_for_a_moment_continues_as_if_nothing_had_happened() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let (mut states, id) = (States::of(&client).await, client.session_id());
    for _ in 0..5 {
        server.freeze_client(&client);
        sleep(T / 5).await;
        server.thaw_client(&client);
        sleep(T / 5).await;
    }
    client.exists("/").await.unwrap();
    assert_eq!(client.session_id(), id);
    states.are_at_rest();
}

/// User code whose process resumes was a leader, and sees at its first check that it no longer is.
#[tokio::test(start_paused = true)]
async fn a_frozen_leader_says_no_at_its_first_look_after_the_thaw() {
    for seed in 0..10 {
        let server = TestingServer::builder().seed(seed).start();
        let (client, other) = (connect(&server).await, connect(&server).await);
        let first = Arc::new(latch(&client).await);
        let leadership = first.wait_for_leadership().await.unwrap();
        let second = latch(&other).await;
        let looking = Arc::clone(&first);
        let look = server.spawn(&client, async move {
            // Due in the middle of the freeze.
            sleep(T).await;
            (looking.has_leadership(), leadership.is_held())
        });
        sleep(Duration::from_secs(1)).await;
        server.freeze_client(&client);
        second.wait_for_leadership().await.unwrap();
        sleep(T).await;
        server.thaw_client(&client);
        assert_eq!(look.await, Ok((false, false)), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn spawn_hands_the_outcome_over() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let task = server.spawn(&client, async {
        sleep(Duration::from_secs(1)).await;
        7
    });
    assert_eq!(task.await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_handle_continues_and_an_aborted_one_does_not() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let ended = Arc::new(AtomicUsize::new(0));
    let work = || {
        let ended = Arc::clone(&ended);
        async move {
            sleep(Duration::from_secs(1)).await;
            ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    drop(server.spawn(&client, work()));
    let mut aborted = server.spawn(&client, work());
    aborted.abort();
    assert_eq!(aborted.await, Err(TaskGone));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_its_task_alone_and_is_among_the_panics() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    assert_eq!(server.panics(), [""; 0]);
    let task: Task<()> = server.spawn(&client, async { panic!("a defect of the service") });
    assert_eq!(task.await, Err(TaskGone));
    assert_eq!(server.panics(), ["a defect of the service"]);
    client.exists("/").await.expect("the client continues");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_client_that_is_dropped_leaves_nothing_behind_once_the_server_is_dropped() {
    for busy in [false, true] {
        // Held by the world, by the client, and by what runs beside it.
        let probe = Arc::new(());
        let (world, listener, work) = (Arc::clone(&probe), Arc::clone(&probe), Arc::clone(&probe));
        let server = TestingServer::builder().after_each_step(move || drop(Arc::clone(&world))).start();
        let client = connect(&server).await;
        let latch = latch(&client).await;
        client.add_listener(move |_| {
            let held = Arc::clone(&listener);
            async move { drop(held) }
        });
        if busy {
            let client = client.clone();
            server.spawn(&client.clone(), async move {
                let _kept = (work, client);
                sleep(T * 2).await;
            });
        } else {
            drop(work);
        }
        latch.wait_for_leadership().await.expect("it is alone");
        server.freeze_client(&client);
        let other = server.clone();
        drop((server, latch, client));
        sleep(T * 10).await;
        assert!(Arc::strong_count(&probe) > 1, "it is frozen for as long as another handle could thaw it");
        drop(other);
        sleep(T * 10).await;
        assert_eq!(Arc::strong_count(&probe), 1, "another owner is left");
    }
}
