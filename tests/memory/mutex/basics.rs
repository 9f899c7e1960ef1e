//! The basic behaviour of a mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::mutex::InterProcessMutex;

use super::fixture::{PATH, acquired, line, line_has, mutex, released, setup};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_acquired_under_curators_name_and_released_with_its_node() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    assert!(guard.is_held());
    assert_eq!(guard.path(), PATH);
    let [node] = &line(&server)[..] else { panic!("one node") };
    let (uuid, number) = (&node[3..39], &node[40..]);
    assert_eq!((&node[..3], &node[39..40], number), ("_c_", "-", "lock-0000000000"), "{node}");
    assert_eq!(uuid.len(), 36);
    assert_eq!(guard.node_path(), format!("{PATH}/{node}"));
    let stat = server.stat(guard.node_path()).expect("it exists");
    assert_eq!(stat.czxid, guard.fencing_token());
    released(guard).await;
    assert!(line(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_directory_is_missing_makes_it_a_container() {
    let (server, client, _) = setup().await;
    let guard = InterProcessMutex::new(&client, "/deep/er/lock").expect("a good path").acquire().await.expect("held");
    assert_eq!(server.children("/deep/er/lock").len(), 1);
    released(guard).await;
    server.until(|| server.stat("/deep").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn many_tasks_of_one_object_hold_one_at_a_time_in_the_order_of_their_nodes_under_growing_tokens() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    let (inside, tokens) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let tasks = (0..20).map(|_| {
        let (mutex, inside, tokens) = (mutex.clone(), Arc::clone(&inside), Arc::clone(&tokens));
        server.spawn(&client, async move {
            for _ in 0..5 {
                let guard = mutex.acquire().await.expect("held");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                tokens.lock().expect("no panic").push(guard.fencing_token());
                tokio::time::sleep(Duration::from_millis(3)).await;
                assert!(guard.is_held());
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("released");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    let tokens = tokens.lock().expect("no panic").clone();
    assert_eq!(tokens.len(), 100);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert!(line(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_clients_hand_the_lock_over_and_a_drop_is_a_release() {
    let (server, one, two) = setup().await;
    let (one, two) = (mutex(&one), mutex(&two));
    let mut tokens = Vec::new();
    for _ in 0..10 {
        let first = acquired(&one).await;
        let mut second = Box::pin(two.acquire());
        still_pending("the lock is held", &mut second).await;
        tokens.push(first.fencing_token());
        drop(first);
        let second = within("the lock is handed over", SOON, second).await.expect("held");
        tokens.push(second.fencing_token());
        let mut third = Box::pin(one.acquire());
        still_pending("the lock is held", &mut third).await;
        released(second).await;
        drop(within("the lock is handed over", SOON, third).await.expect("held"));
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_acquire_of_the_same_task_waits_for_the_first() {
    let (_server, client, _) = setup().await;
    let mutex = mutex(&client);
    let hold = async {
        let guard = mutex.acquire().await.expect("held");
        let inside = tokio::time::Instant::now();
        tokio::time::sleep(SOON).await;
        released(guard).await;
        inside
    };
    let again = async {
        let guard = mutex.acquire().await.expect("held");
        let inside = tokio::time::Instant::now();
        released(guard).await;
        inside
    };
    let (first, second) = tokio::join!(hold, again);
    assert!(second >= first + SOON, "the branches of one join! do not share the lock");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_free_is_refused_to_who_does_not_wait_and_leaves_nothing_behind() {
    let (server, one, two) = setup().await;
    let (one, two) = (mutex(&one), mutex(&two));
    let guard = one.try_acquire().await.expect("an answer").expect("it is free");
    assert!(two.try_acquire().await.expect("an answer").is_none());
    assert!(one.try_acquire().await.expect("an answer").is_none());
    assert_eq!(line(&server).len(), 1);
    released(guard).await;
    assert!(two.try_acquire().await.expect("an answer").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_participants_come_in_order_the_holder_first() {
    let (_server, client, other) = setup().await;
    let mutex = mutex(&client);
    assert!(mutex.participants().await.expect("an answer").is_empty());
    let guard = acquired(&mutex).await;
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let seen = super::fixture::mutex(&other).participants().await.expect("an answer");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], guard.node_path());
    released(guard).await;
    assert_eq!(waiting.await.expect("held").node_path(), seen[1]);
}

#[tokio::test(start_paused = true)]
async fn foreign_children_are_ignored_and_curators_are_counted() {
    let (server, client, _) = setup().await;
    let by_hand = |name: &str| {
        let path = format!("{PATH}/{name}");
        server.create_by_hand(&path, "", CreateMode::Persistent).expect("a new node");
        path
    };
    server.set_sequence(PATH, 100).expect("it exists");
    for foreign in ["config", "lock-", "latch-0000000001", "_c_x-write-0000000001", "y__lock__0000000002"] {
        by_hand(foreign);
    }
    let mutex = mutex(&client);
    released(acquired(&mutex).await).await;
    let curators = by_hand("_c_11111111-2222-3333-4444-555555555555-lock-0000000003");
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("a Java service holds", &mut waiting).await;
    server.delete_by_hand(&curators).expect("it exists");
    released(within("it is our turn", SOON, waiting).await.expect("held")).await;
}

#[tokio::test(start_paused = true)]
async fn kazoos_nodes_count_when_asked_for() {
    let (server, client, _) = setup().await;
    server.set_sequence(PATH, 100).expect("it exists");
    let kazoos = format!("{PATH}/5fd1c4a7e9a84f5b9e5c1f0b4a2e8d11__lock__0000000001");
    server.create_by_hand(&kazoos, "", CreateMode::Persistent).expect("a new node");
    let strict = mutex(&client);
    released(acquired(&strict).await).await;
    let open = InterProcessMutex::builder(&client, PATH).also_count(["__lock__"]).build().expect("good options");
    assert_eq!(open.participants().await.expect("an answer"), std::slice::from_ref(&kazoos));
    let mut waiting = Box::pin(open.acquire());
    still_pending("kazoo holds", &mut waiting).await;
    server.delete_by_hand(&kazoos).expect("it exists");
    released(within("it is our turn", SOON, waiting).await.expect("held")).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_put_before_every_path_and_taken_away_again() {
    let server = zookeeper_recipes::testing::TestingServer::start();
    let client =
        zookeeper_recipes::Client::builder_for_testing(&server).namespace("/app").connect().await.expect("a client");
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    assert!(guard.node_path().starts_with("/locks/one/_c_"), "{}", guard.node_path());
    assert!(server.stat(&format!("/app{}", guard.node_path())).is_some());
    assert_eq!(mutex.participants().await.expect("an answer"), [guard.node_path()]);
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn work_runs_under_the_lock_and_the_lock_is_held_on_after_it() {
    let (_server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    assert_eq!(guard.run(async { 42 }).await, Ok(42));
    assert!(guard.is_held());
    released(guard).await;
}
