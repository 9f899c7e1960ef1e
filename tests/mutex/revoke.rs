//! Asking a holder to let go, with Curator's mark, both ways.

use zookeeper_recipes::mutex::revoke;

use super::words::{SOON, Scene, Waiting, acquired, mutex, released};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_is_curators_when_written_and_when_read() {
    let scene = Scene::with_directory("revoke").await;
    let (one, two) = (scene.client().await, scene.client().await);
    let (one_lock, two_lock) = (mutex(&one, &scene.path), mutex(&two, &scene.path));

    // Ours, as anybody reads it.
    let guard = acquired(&one_lock).await;
    let waiting = Waiting::behind(&scene, &two_lock, 1).await;
    let holder = two_lock.participants().await.expect("an answer").swap_remove(0);
    assert_eq!(holder, guard.node_path());
    revoke(&two, &holder).await.expect("marked");
    assert_eq!(scene.observer.data(&holder).await.as_deref(), Some(&b"__REVOKE__"[..]));
    within("it is told", SOON, guard.on_revoke()).await.expect("held");
    assert!(guard.is_held());
    released(guard).await;

    // Anybody's, as ours reads it.
    let guard = waiting.turn().await;
    let (told, ()) = tokio::join!(within("it is told", SOON, guard.on_revoke()), async {
        tokio::time::sleep(super::words::A_WHILE).await;
        scene.observer.set_data(guard.node_path(), b"__REVOKE__").await;
    });
    told.expect("held");
    released(guard).await;
}
