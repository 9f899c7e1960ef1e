//! Nodes deleted by hand: leases, and nodes of the line.

use zookeeper_recipes::semaphore::Error;
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{LEASES, LINE, PATH, acquired, nodes, nodes_are, released, semaphore, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn all_permits_are_lost_with_any_lease_and_the_fence_is_refused() {
    for at in 0..2 {
        let (server, [one, two]) = setup().await;
        server.create_by_hand("/result", "", CreateMode::Persistent).expect("a new node");
        let guard = acquired(&semaphore(&one, 2), 2).await;
        let write = || one.transaction().check(&guard.fence()).set_data("/result", "mine", None).commit();
        write().await.expect("it holds");
        let lost = guard.node_paths().nth(at).expect("two leases").to_owned();
        let mut told = Box::pin(guard.lost());
        still_pending("it holds", &mut told).await;
        server.delete_by_hand(&lost).expect("it exists");
        within("it is told", SOON, told).await;
        assert!(!guard.is_held());
        assert!(guard.run(async {}).await.is_err());
        assert_eq!(write().await.expect_err("refused").kind(), ErrorKind::Fenced);
        let other = acquired(&semaphore(&two, 2), 1).await;
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        assert!(other.is_held());
        nodes_are(&server, (0, 1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lease_is_deleted_makes_another_and_leaves_nothing() {
    let (server, [one, two]) = setup().await;
    let held = acquired(&semaphore(&one, 2), 2).await;
    let two = semaphore(&two, 2);
    let mut waiting = Box::pin(two.acquire(2));
    still_pending("they are taken", &mut waiting).await;
    let ours: Vec<String> = held.node_paths().map(str::to_owned).collect();
    for _ in 0..3 {
        let paths = server.children(LEASES).into_iter().map(|name| format!("{LEASES}/{name}"));
        let pending = paths.into_iter().find(|path| !ours.contains(path)).expect("a lease of the waiter");
        server.delete_by_hand(&pending).expect("it exists");
        still_pending("they are taken", &mut waiting).await;
        server.until(|| nodes(&server) == (1, 4)).await;
        assert!(server.stat(&pending).is_none());
    }
    released(held).await;
    let guard = within("they are free", SOON, waiting).await.expect("held");
    assert_eq!(nodes(&server).1, 2);
    released(guard).await;
    nodes_are(&server, (0, 0)).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_first_of_the_line_that_loses_its_node_gives_its_leases_to_the_next() {
    let (server, [one, two, three]) = setup().await;
    let held = acquired(&semaphore(&one, 2), 1).await;
    nodes_are(&server, (0, 1)).await;
    // Two that want both permits: if each kept a lease, neither would ever have both.
    let (two, three) = (semaphore(&two, 2), semaphore(&three, 2));
    let mut first = Box::pin(two.acquire(2));
    still_pending("one is taken", &mut first).await;
    let place = server.children(LINE).pop().expect("one waits");
    let mut next = Box::pin(three.acquire(2));
    still_pending("one is ahead", &mut next).await;
    server.delete_by_hand(&format!("{LINE}/{place}")).expect("it exists");
    let both = async { tokio::join!(&mut first, &mut next) };
    assert!(tokio::time::timeout(SOON, both).await.is_err(), "one is taken");
    assert_eq!(nodes(&server), (2, 3), "only the one that is first now has leases");
    released(held).await;
    let next = within("it is the first", T, next).await.expect("held");
    still_pending("both are taken", &mut first).await;
    released(next).await;
    released(within("it has a place again", T, first).await.expect("held")).await;
    nodes_are(&server, (0, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_further_back_whose_node_is_deleted_takes_another_place() {
    let (server, [one, two, three]) = setup().await;
    let held = acquired(&semaphore(&one, 1), 1).await;
    nodes_are(&server, (0, 1)).await;
    let (two, three) = (semaphore(&two, 1), semaphore(&three, 1));
    let mut first = Box::pin(two.acquire(1));
    still_pending("it is taken", &mut first).await;
    let ahead = server.children(LINE);
    let mut next = Box::pin(three.acquire(1));
    still_pending("one is ahead", &mut next).await;
    let place = server.children(LINE).into_iter().find(|name| !ahead.contains(name)).expect("another");
    server.delete_by_hand(&format!("{LINE}/{place}")).expect("it exists");
    still_pending("one is ahead", &mut next).await;
    assert_eq!(nodes(&server), (2, 2));
    released(held).await;
    released(within("it is free", SOON, first).await.expect("held")).await;
    released(within("it is free", SOON, next).await.expect("held")).await;
}

#[tokio::test(start_paused = true)]
async fn all_directories_may_be_deleted_under_a_holder_and_those_that_wait() {
    let (server, [one, two, three]) = setup().await;
    let held = acquired(&semaphore(&one, 1), 1).await;
    nodes_are(&server, (0, 1)).await;
    let (two, three) = (semaphore(&two, 1), semaphore(&three, 1));
    let mut first = Box::pin(two.acquire(1));
    still_pending("it is taken", &mut first).await;
    let mut next = Box::pin(three.acquire(1));
    still_pending("one is ahead", &mut next).await;
    for dir in [LEASES, LINE] {
        for name in server.children(dir) {
            server.delete_by_hand(&format!("{dir}/{name}")).expect("it exists");
        }
        server.delete_by_hand(dir).expect("it is empty");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    // Those that wait make all of it again. The order may be another.
    let (one, other) = within("it is free", T, async {
        tokio::select! {
            guard = &mut first => (guard.expect("held"), &mut next),
            guard = &mut next => (guard.expect("held"), &mut first),
        }
    })
    .await;
    assert!(one.is_held());
    assert!(tokio::time::timeout(SOON, &mut *other).await.is_err(), "it is taken");
    released(one).await;
    released(within("it is free", T, other).await.expect("held")).await;
    assert!(held.release().await.is_ok(), "it was not watched");
    nodes_are(&server, (0, 0)).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.watches(), 0);
}
