//! A directory in which nodes may be made but neither seen nor deleted.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::Operation;

use super::fixture::{LEASES, LINE, counted, make_count, nodes, nodes_are, released, semaphore, set_count, setup};
use crate::fixture::{SOON, T, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_call_without_permission_is_refused_and_leaves_nothing_when_that_is_restored() {
    for dir in [LINE, LEASES] {
        let (server, [one, two]) = setup().await;
        server.deny(dir);
        let error = within("it is told", SOON, semaphore(&one, 1).acquire(1)).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
        assert!(error.to_string().contains(dir), "{error}");
        server.allow(dir);
        within("the line is free", T * 4, async { released(semaphore(&two, 1).acquire(1).await.expect("held")).await })
            .await;
        nodes_are(&server, (0, 0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_refused_look_no_further_lease_is_made_until_the_first_are_gone() {
    let (server, [client]) = setup().await;
    make_count(&server, 1);
    let semaphore = counted(&client);
    let mut waiting = Box::pin(semaphore.acquire(2));
    still_pending("there is one", &mut waiting).await;
    let leases = server.children(LEASES);
    server.deny(LEASES);
    // The number wakes it, and it may not list.
    set_count(&server, 2);
    let error = within("it is told", SOON, waiting).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(leases.iter().all(|lease| error.to_string().contains(lease)), "{error}");
    assert_eq!(server.children(LEASES), leases);
    tokio::time::sleep(SOON).await;
    server.clear_records();
    for _ in 0..3 {
        let error = semaphore.acquire(1).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
        assert_eq!(semaphore.try_acquire(1).await.expect_err("refused").kind(), ErrorKind::NoAuth);
    }
    // Those of the places in the line alone.
    let creates = requests(&server).into_iter().filter(|of| *of == Operation::Create).count();
    assert_eq!((creates, nodes(&server).1), (6, 2));
    server.allow(LEASES);
    let retried = async {
        loop {
            match semaphore.acquire(2).await {
                Ok(guard) => return released(guard).await,
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within("they are deleted", T * 4, retried).await;
    nodes_are(&server, (0, 0)).await;
}
