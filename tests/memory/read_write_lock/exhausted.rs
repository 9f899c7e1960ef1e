//! The 32-bit counter of the directory comes to its end.

use super::fixture::{PATH, line_has, lock, setup};
use crate::fixture::{T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn readers_and_writers_keep_their_order_across_the_end_of_the_counter() {
    let (server, [one, two]) = setup().await;
    server.set_sequence(PATH, i32::MAX - 2).expect("it exists");
    let mut tokens = Vec::new();
    let mut waiting = Vec::new();
    let first = lock(&one).write().acquire().await.expect("it writes");
    for number in 0..9 {
        let lock = lock(if number % 2 == 0 { &one } else { &two });
        waiting.push(server.spawn(&one, async move {
            if number % 3 == 0 {
                let guard = lock.write().acquire().await.expect("it writes");
                let reading = guard.downgrade().await.expect("it reads");
                reading.fencing_token()
            } else {
                lock.read().acquire().await.expect("it reads").fencing_token()
            }
        }));
        line_has(&server, number + 2).await;
    }
    drop(first);
    for waiting in waiting {
        tokens.push(within("its turn comes", T, waiting).await.expect("no panic"));
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_beyond_the_end_of_the_counter_keeps_the_first_place() {
    let (server, [one, two]) = setup().await;
    server.set_sequence(PATH, i32::MAX).expect("it exists");
    let writer = lock(&one).write().acquire().await.expect("it writes");
    let other = lock(&two).write();
    let mut waiting = Box::pin(other.acquire());
    still_pending("one writes", &mut waiting).await;
    let reader = writer.downgrade().await.expect("it reads");
    still_pending("one reads", &mut waiting).await;
    let participants = lock(&two).participants().await.expect("a list");
    assert_eq!(participants[0], reader.node_path());
    reader.release().await.expect("it was held");
    drop(within("it writes", T, waiting).await.expect("it writes"));
}
