//! Asking a holder to let go, with Curator's mark.

use zookeeper_recipes::mutex::{LockLost, revoke};
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{PATH, acquired, mutex, released, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_holder_that_listens_is_told_lets_go_and_the_next_one_holds() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let next = mutex(&two);
    let mut waiting = Box::pin(next.acquire());
    let mut asked = Box::pin(guard.on_revoke());
    still_pending("no other client has asked", &mut asked).await;
    still_pending("the lock is held", &mut waiting).await;
    let holder = next.participants().await.expect("an answer").swap_remove(0);
    revoke(&two, &holder).await.expect("marked");
    assert_eq!(server.get(&holder).as_deref(), Some(&b"__REVOKE__"[..]), "ten bytes, as Curator writes and reads them");
    assert_eq!(within("it is told", SOON, asked).await, Ok(()));
    assert!(guard.is_held(), "it is a request, no more");
    released(guard).await;
    drop(within("the next one holds", SOON, waiting).await.expect("held"));
}

#[tokio::test(start_paused = true)]
async fn a_mark_set_before_the_holder_listened_is_not_missed() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    revoke(&two, guard.node_path()).await.expect("marked");
    assert_eq!(within("it is told", SOON, guard.on_revoke()).await, Ok(()));
    assert_eq!(within("and told again", SOON, guard.on_revoke()).await, Ok(()));
    released(guard).await;

    // Nor one that was set while it still waited.
    let first = acquired(&mutex(&one)).await;
    let two_mutex = mutex(&two);
    let mut waiting = Box::pin(two_mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let waiter = two_mutex.participants().await.expect("an answer").swap_remove(1);
    revoke(&one, &waiter).await.expect("marked");
    still_pending("the lock is held", &mut waiting).await;
    released(first).await;
    let second = waiting.await.expect("held");
    assert_eq!(within("it is told", SOON, second.on_revoke()).await, Ok(()));
    assert!(second.is_held() && server.stat(second.node_path()).is_some());
}

#[tokio::test(start_paused = true)]
async fn other_data_written_by_hand_is_no_revocation_and_is_survived() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let two = mutex(&two);
    let mut waiting = Box::pin(two.acquire());
    let mut asked = Box::pin(guard.on_revoke());
    still_pending("no other client has asked", &mut asked).await;
    still_pending("the lock is held", &mut waiting).await;
    for data in ["", "__REVOKE_", "__REVOKE__ ", "please"] {
        server.set_data_by_hand(guard.node_path(), data).expect("it exists");
        still_pending("no other client has asked", &mut asked).await;
        still_pending("the lock is held", &mut waiting).await;
    }
    server.set_data_by_hand(guard.node_path(), "__REVOKE__").expect("it exists");
    assert_eq!(within("it is told", SOON, asked).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_is_not_revoked() {
    let (server, one, _) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mut asked = Box::pin(guard.on_revoke());
    still_pending("no other client has asked", &mut asked).await;
    server.expire_session(&one);
    assert_eq!(within("it is told", T, asked).await, Err(LockLost));
}

#[tokio::test(start_paused = true)]
async fn to_revoke_a_node_that_is_gone_is_fine_and_a_lost_reply_is_repeated() {
    let (server, one, two) = setup().await;
    revoke(&two, &format!("{PATH}/_c_x-lock-0000000077")).await.expect("there is no holder to ask");
    for loss in [Loss::Applied, Loss::NotApplied] {
        let guard = within("held", T, mutex(&one).acquire()).await.expect("held");
        let lost = server.lost_replies();
        server.lose_next_reply(&two, Operation::SetData, loss);
        revoke(&two, guard.node_path()).await.expect("marked");
        assert_eq!(server.lost_replies(), lost + 1);
        assert_eq!(within("it is told", SOON, guard.on_revoke()).await, Ok(()));
    }
}
