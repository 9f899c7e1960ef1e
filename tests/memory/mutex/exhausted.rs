//! The 32-bit counter of the directory comes to its end.

use zookeeper_recipes::mutex::InterProcessMutex;

use super::fixture::{PATH, acquired, line, mutex, released, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn tokens_and_order_hold_across_the_end_of_the_counter() {
    let (server, client, _) = setup().await;
    server.set_sequence(PATH, i32::MAX - 3).expect("it exists");
    let mutex = mutex(&client);
    let first = acquired(&mutex).await;
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let mutex = mutex.clone();
            server.spawn(&client, async move {
                let guard = mutex.acquire().await.expect("held");
                let token = guard.fencing_token();
                guard.release().await.expect("released");
                token
            })
        })
        .collect();
    server.until(|| line(&server).len() == 9).await;
    let mut tokens = vec![first.fencing_token()];
    released(first).await;
    for waiting in waiting {
        tokens.push(within("its turn comes", T, waiting).await.expect("no panic"));
    }
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 9, "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_spent_directory_that_the_client_made_is_removed_with_its_last_holder_and_the_counter_starts_again() {
    const MADE: &str = "/locks/made";
    for drops in [true, false] {
        let (server, client, _) = setup().await;
        let mutex = InterProcessMutex::new(&client, MADE).expect("a good path");
        released(acquired(&mutex).await).await;
        server.set_sequence(MADE, i32::MAX - 3).expect("it exists");
        let before = acquired(&mutex).await;
        let token = before.fencing_token();
        if drops {
            drop(before);
        } else {
            released(before).await;
        }
        // Sooner than the server takes empty containers away.
        within("the directory is deleted", SOON, server.until(|| server.stat(MADE).is_none())).await;
        let after = acquired(&mutex).await;
        assert!(after.node_path().ends_with("lock-0000000000"), "{}", after.node_path());
        assert!(after.fencing_token() > token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_directory_that_another_client_made_or_wrote_to_stays() {
    for written in [true, false] {
        let (server, client, _) = setup().await;
        let path = if written { "/locks/made" } else { PATH };
        let mutex = InterProcessMutex::new(&client, path).expect("a good path");
        released(acquired(&mutex).await).await;
        if written {
            server.set_data_by_hand(path, "an operator's").expect("it exists");
        }
        server.set_sequence(path, i32::MAX - 3).expect("it exists");
        released(acquired(&mutex).await).await;
        drop(acquired(&mutex).await);
        tokio::time::sleep(SOON).await;
        assert!(server.stat(path).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_directory_stays_while_a_client_waits_in_it() {
    let (server, one, two) = setup().await;
    server.set_sequence(PATH, i32::MAX - 3).expect("it exists");
    let first = acquired(&mutex(&one)).await;
    let two = mutex(&two);
    let mut waiting = Box::pin(two.acquire());
    still_pending("the lock is held", &mut waiting).await;
    released(first).await;
    let second = within("it is its turn", SOON, waiting).await.expect("held");
    assert!(second.is_held() && server.stat(second.node_path()).is_some());
}
