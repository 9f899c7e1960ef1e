//! Asking a holder to let go, with Curator's mark, both ways.

use zookeeper_recipes::mutex::revoke;

use super::fixture::{Fixture, SOON, Waiting, acquired, mutex, released};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_is_curators_when_written_and_when_read() {
    let fixture = Fixture::with_directory("revoke").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let (one_lock, two_lock) = (mutex(&one, &fixture.path), mutex(&two, &fixture.path));

    // Our mark, as other libraries read it.
    let guard = acquired(&one_lock).await;
    let waiting = Waiting::behind(&fixture, &two_lock, 1).await;
    let holder = two_lock.participants().await.expect("an answer").swap_remove(0);
    assert_eq!(holder, guard.node_path());
    revoke(&two, &holder).await.expect("marked");
    assert_eq!(fixture.observer.data(&holder).await.as_deref(), Some(&b"__REVOKE__"[..]));
    within("it is told", SOON, guard.on_revoke()).await.expect("held");
    assert!(guard.is_held());
    released(guard).await;

    // A mark of another library, as ours reads it.
    let guard = waiting.turn().await;
    let (told, ()) = tokio::join!(within("it is told", SOON, guard.on_revoke()), async {
        tokio::time::sleep(super::fixture::A_WHILE).await;
        fixture.observer.set_data(guard.node_path(), b"__REVOKE__").await;
    });
    told.expect("held");
    released(guard).await;
}
