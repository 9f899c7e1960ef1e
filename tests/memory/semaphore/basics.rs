//! Permits are acquired, all or none, in order, and released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::semaphore::InterProcessSemaphore;

use super::fixture::{LEASES, LINE, PATH, acquired, nodes, nodes_are, released, semaphore, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn as_many_hold_as_there_are_permits_and_the_next_one_waits_for_a_release() {
    let (server, [one, two]) = setup().await;
    let (one, two) = (semaphore(&one, 3), semaphore(&two, 3));
    let mut guards = vec![acquired(&one, 1).await, acquired(&two, 1).await, acquired(&one, 1).await];
    assert!(guards.iter().all(|guard| guard.is_held() && guard.permits() == 1));
    let mut waiting = Box::pin(two.acquire(1));
    still_pending("all are taken", &mut waiting).await;
    assert!(one.try_acquire(1).await.expect("an answer").is_none());
    released(guards.remove(1)).await;
    let fourth = within("one is free", SOON, waiting).await.expect("held");
    assert!(fourth.is_held());
    assert_eq!(one.participants().await.expect("a list").len(), 3);
    drop((guards, fourth));
    nodes_are(&server, (0, 0)).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_acquired_at_once_or_not_at_all() {
    let (server, [one, two]) = setup().await;
    let (one, two) = (semaphore(&one, 5), semaphore(&two, 5));
    let three = acquired(&one, 3).await;
    assert_eq!((three.permits(), three.node_paths().count()), (3, 3));
    assert!(two.try_acquire(3).await.expect("an answer").is_none(), "two are free");
    assert_eq!(nodes(&server), (0, 3));
    let two_more = two.try_acquire(2).await.expect("an answer").expect("two are free");
    let mut all = Box::pin(one.acquire(5));
    still_pending("all are taken", &mut all).await;
    drop(two_more);
    still_pending("three are taken", &mut all).await;
    released(three).await;
    let all = within("all are free", SOON, all).await.expect("held");
    assert_eq!(all.permits(), 5);
    released(all).await;
    assert_eq!((nodes(&server), server.watches()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn the_first_that_waits_is_not_overtaken_by_one_that_wants_less() {
    let (_server, [one, two, three]) = setup().await;
    let held = acquired(&semaphore(&one, 3), 2).await;
    let (two, three) = (semaphore(&two, 3), semaphore(&three, 3));
    let mut wants_two = Box::pin(two.acquire(2));
    still_pending("one is free", &mut wants_two).await;
    let mut wants_one = Box::pin(three.acquire(1));
    still_pending("another is ahead", &mut wants_one).await;
    assert!(three.try_acquire(1).await.expect("an answer").is_none(), "others are ahead");
    drop(held);
    let two = within("it is first", SOON, wants_two).await.expect("held");
    let one = within("one is left", SOON, wants_one).await.expect("held");
    assert!(two.is_held() && one.is_held());
}

#[tokio::test(start_paused = true)]
async fn there_are_never_more_than_the_permits_whatever_each_takes() {
    const PERMITS: u32 = 7;
    let (server, clients) = setup::<4>().await;
    let taken = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..20u32 {
        let client = &clients[number as usize % clients.len()];
        let (semaphore, taken, most) = (semaphore(client, PERMITS), Arc::clone(&taken), Arc::clone(&most));
        tasks.push(server.spawn(client, async move {
            for turn in 0..10 {
                let wanted = 1 + (number + turn) % PERMITS;
                let guard = semaphore.acquire(wanted).await.expect("held");
                let now = taken.fetch_add(wanted, Ordering::SeqCst) + wanted;
                assert!(now <= PERMITS, "{now}");
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(3)).await;
                assert!(guard.is_held());
                taken.fetch_sub(wanted, Ordering::SeqCst);
                guard.release().await.expect("they were held");
            }
        }));
    }
    for task in tasks {
        within("its turns come", T * 3, task).await.expect("no panic");
    }
    assert_eq!(most.load(Ordering::SeqCst), PERMITS, "all are used");
    assert_eq!((nodes(&server), server.watches()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_frees_its_permits() {
    let (_server, [one, two]) = setup().await;
    let held = acquired(&semaphore(&one, 1), 1).await;
    let two = semaphore(&two, 1);
    let mut waiting = Box::pin(two.acquire(1));
    still_pending("it is taken", &mut waiting).await;
    one.close().await.expect("closed");
    let other = within("it is free", SOON, waiting).await.expect("held");
    assert!(other.is_held());
    assert!(!held.is_held());
}

#[tokio::test(start_paused = true)]
async fn with_one_permit_it_is_a_mutex_whose_token_grows() {
    let (_server, [one, two]) = setup().await;
    let mut last = 0;
    for client in [&one, &two, &one] {
        let guard = acquired(&semaphore(client, 1), 1).await;
        assert!(semaphore(&two, 1).try_acquire(1).await.expect("an answer").is_none());
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        released(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_nodes_are_those_of_curator() {
    let (server, [client]) = setup().await;
    let semaphore = InterProcessSemaphore::builder(&client, PATH).permits(2).data("worker-7").build().expect("good");
    let guard = acquired(&semaphore, 2).await;
    nodes_are(&server, (0, 2)).await;
    let mut czxids = Vec::new();
    for path in guard.node_paths() {
        let name = path.strip_prefix(LEASES).expect("a lease");
        let (uuid, number) = name.strip_prefix("/_c_").and_then(|name| name.split_once("-lease-")).expect("protected");
        assert_eq!((uuid.len(), number.len()), (36, 10), "{name}");
        let stat = server.stat(path).expect("it exists");
        assert_eq!(Some(stat.ephemeral_owner), client.session_id());
        assert_eq!(server.get(path).as_deref(), Some(&b"worker-7"[..]));
        czxids.push(stat.czxid);
    }
    assert_eq!(Some(guard.fencing_token()), czxids.into_iter().max());
    let mut paths: Vec<_> = guard.node_paths().map(str::to_owned).collect();
    paths.sort_by_key(|path| path.rsplit('-').next().map(str::to_owned));
    assert_eq!(semaphore.participants().await.expect("a list"), paths);
    let mut waiting = Box::pin(semaphore.acquire(1));
    still_pending("all are taken", &mut waiting).await;
    let line = server.children(LINE);
    assert!(line.iter().all(|name| name.starts_with("_c_") && name.contains("-lock-")), "{line:?}");
    assert_eq!(nodes(&server), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn missing_directories_are_made_and_whatever_is_among_the_leases_counts() {
    let server = zookeeper_recipes::testing::TestingServer::start();
    let client = server.client().await.expect("a client");
    let semaphore = semaphore(&client, 2);
    assert_eq!(semaphore.participants().await.expect("a list"), [""; 0]);
    let guard = acquired(&semaphore, 1).await;
    server.create_by_hand(&format!("{LEASES}/by-hand"), "", CreateMode::Persistent).expect("a new node");
    assert!(semaphore.try_acquire(1).await.expect("an answer").is_none(), "as in Curator");
    assert_eq!(semaphore.participants().await.expect("a list").len(), 2);
    released(guard).await;
    released(acquired(&semaphore, 1).await).await;
}
