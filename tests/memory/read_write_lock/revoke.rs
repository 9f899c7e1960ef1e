//! A participant that is asked to release.

use zookeeper_recipes::read_write_lock::{LockLost, revoke};

use super::fixture::{gets, lock, reading, setup, waits_to_write, writing};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn readers_are_asked_to_make_room_for_a_writer() {
    let (_server, [one, two]) = setup().await;
    let readers = [reading(&one).await, reading(&one).await];
    let waiting = waits_to_write(&two).await;
    let participants = lock(&two).participants().await.expect("a list");
    assert_eq!(participants.len(), 3);
    for node in &participants[..2] {
        revoke(&two, node).await.expect("it is marked");
    }
    for reader in readers {
        assert_eq!(within("it is asked", SOON, reader.on_revoke()).await, Ok(()));
        assert!(reader.is_held());
        reader.release().await.expect("it was held");
    }
    assert!(gets(waiting).await.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_guard_is_asked_by_the_path_of_its_new_node() {
    let (server, [one, two]) = setup().await;
    let reader = writing(&one).await.downgrade().await.expect("it reads");
    revoke(&two, reader.node_path()).await.expect("it is marked");
    assert_eq!(within("it is asked", SOON, reader.on_revoke()).await, Ok(()));
    server.delete_by_hand(reader.node_path()).expect("it is there");
    within("it is told", SOON, reader.lost()).await;
    assert_eq!(reader.on_revoke().await, Err(LockLost));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_asked_and_downgraded_is_asked_again() {
    let (_server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    revoke(&two, writer.node_path()).await.expect("it is marked");
    assert_eq!(within("it is asked", SOON, writer.on_revoke()).await, Ok(()));
    let reader = writer.downgrade().await.expect("it reads");
    still_pending("that was the writer", &mut Box::pin(reader.on_revoke())).await;
    revoke(&two, reader.node_path()).await.expect("it is marked");
    assert_eq!(within("it is asked", SOON, reader.on_revoke()).await, Ok(()));
}
