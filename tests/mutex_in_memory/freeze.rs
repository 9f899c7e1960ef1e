//! The process of a holder stands still for longer than its session, as by SIGSTOP.

use std::time::Duration;

use zookeeper_recipes::{CreateMode, ErrorKind};

use super::scene::{acquired, mutex, scene};
use crate::in_memory::{T, within};

const RESOURCE: &str = "/resource";

#[tokio::test(start_paused = true)]
async fn a_holder_that_stood_still_is_told_no_at_the_first_look_and_its_fenced_write_is_refused_but_not_its_unfenced() {
    let (server, one, two) = scene().await;
    server.create_by_hand(RESOURCE, "", CreateMode::Persistent).expect("a new node");
    let (mut holds, mut held) = (None, None);
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    // All of it in the process that stands still: it looks before anything else when it wakes.
    let work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let guard = mutex(&client).acquire().await.expect("held");
            let before = guard.is_held();
            let fence = guard.fence();
            let _ = tell.send(guard.fencing_token());
            let _ = gone.await;
            let after = guard.is_held();
            let fenced = client.transaction().check(&fence).set_data(RESOURCE, "late", None).commit().await;
            let unfenced = client.set(RESOURCE, "late", None).await;
            (before, after, fenced.map(drop), unfenced.map(drop))
        }
    });
    holds.replace(told.await.expect("it holds"));
    server.freeze_client(&one);
    let _ = go.send(());
    let next = mutex(&two);
    held.replace(within("the next one gets it", T * 2, next.acquire()).await.expect("held"));
    let next = held.expect("held");
    assert!(Some(next.fencing_token()) > holds);
    let write = two.transaction().check(&next.fence()).set_data(RESOURCE, "mine", None);
    write.commit().await.expect("the holder writes");
    tokio::time::sleep(T).await;
    server.thaw_client(&one);
    let (before, after, fenced, unfenced) = within("it wakes", T * 3, work).await.expect("no panic");
    assert!(before && !after);
    let refused = fenced.expect_err("the fence stands no more");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{refused}");
    unfenced.expect("nothing stops a write without a fence");
    assert_eq!(server.get(RESOURCE).as_deref(), Some(&b"late"[..]), "which is why there are fences");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_stood_still_takes_a_new_place() {
    let (server, one, two) = scene().await;
    let guard = acquired(&mutex(&one)).await;
    let mut waiting = server.spawn(&two, {
        let mutex = mutex(&two);
        async move { mutex.acquire().await.expect("held").fencing_token() }
    });
    super::scene::line_has(&server, 2).await;
    server.freeze_client(&two);
    tokio::time::sleep(T * 2).await;
    super::scene::line_has(&server, 1).await;
    let token = guard.fencing_token();
    super::scene::released(guard).await;
    server.thaw_client(&two);
    assert!(within("it gets it", T * 2, &mut waiting).await.expect("no panic") > token);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_shorter_than_the_lease_changes_nothing() {
    let (server, one, _) = scene().await;
    let guard = acquired(&mutex(&one)).await;
    for _ in 0..5 {
        server.freeze_client(&one);
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.thaw_client(&one);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(guard.is_held());
    }
}
