//! The process of a holder is stopped for longer than its session, as by SIGSTOP.

use std::time::Duration;

use zookeeper_recipes::testing::{Data, Operation, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{acquired, make_directory, mutex, setup};
use crate::fixture::{SOON, T, within};

const RESOURCE: &str = "/resource";

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_frozen_is_told_no_at_the_first_look_and_its_fenced_write_is_refused_but_not_its_unfenced() {
    let (server, one, two) = setup().await;
    server.create_by_hand(RESOURCE, "", CreateMode::Persistent).expect("a new node");
    let (mut holds, mut held) = (None, None);
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    // All of it in the stopped process: it looks before anything else when it resumes.
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
    let refused = fenced.expect_err("the fence is refused");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{refused}");
    unfenced.expect("nothing stops a write without a fence");
    assert_eq!(server.get(RESOURCE).as_deref(), Some(&b"late"[..]), "which is why there are fences");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_frozen_takes_a_new_place() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mut waiting = server.spawn(&two, {
        let mutex = mutex(&two);
        async move { mutex.acquire().await.expect("held").fencing_token() }
    });
    super::fixture::line_has(&server, 2).await;
    server.freeze_client(&two);
    tokio::time::sleep(T * 2).await;
    super::fixture::line_has(&server, 1).await;
    let token = guard.fencing_token();
    super::fixture::released(guard).await;
    server.thaw_client(&two);
    assert!(within("it gets it", T * 2, &mut waiting).await.expect("no panic") > token);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_shorter_than_the_lease_changes_nothing() {
    let (server, one, _) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    for _ in 0..5 {
        server.freeze_client(&one);
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.thaw_client(&one);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(guard.is_held());
    }
}

/// By chance its first write is older than the news that its connection is dead.
#[tokio::test(start_paused = true)]
async fn a_fenced_write_after_a_stop_that_the_session_did_not_survive_is_refused_and_never_of_unknown_outcome() {
    for seed in 0..30 {
        let server = TestingServer::builder().seed(seed).start();
        let client = server.client().await.expect("a client");
        make_directory(&server);
        server.create_by_hand(RESOURCE, "", CreateMode::Persistent).expect("a new node");
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let guard = acquired(&mutex(&client)).await;
        let late = server.spawn(&client, {
            let client = client.clone();
            async move {
                let _ = gone.await;
                let write = client.transaction().check(&guard.fence()).set_data(RESOURCE, "late", None);
                (write.commit().await.map(drop), guard)
            }
        });
        tokio::time::sleep(SOON).await;
        server.freeze_client(&client);
        let _ = go.send(());
        tokio::time::sleep(T * 2).await;
        let before = server.count(&client, Operation::Multi);
        server.thaw_client(&client);
        let (written, guard) = within("an answer", T, late).await.expect("no panic");
        let error = written.expect_err("the session is over");
        assert_eq!(error.kind(), ErrorKind::SessionLost, "seed {seed}: {error}");
        assert_eq!(server.count(&client, Operation::Multi), before, "it was not even sent");
        assert!(!guard.is_held());
    }
}

/// The lease is over, but the session is not: the ensemble is asked, and the write succeeds.
#[tokio::test(start_paused = true)]
async fn a_fenced_write_after_a_stop_that_only_the_lease_did_not_survive_waits_for_proof_and_is_carried_out() {
    let (server, client, _) = setup().await;
    server.create_by_hand(RESOURCE, "", CreateMode::Persistent).expect("a new node");
    let guard = acquired(&mutex(&client)).await;
    let fence = guard.fence();
    // Time is paused for sessions while the servers are stopped, so the session is as young after it.
    server.freeze_client(&client);
    server.black_hole(&client);
    server.stop();
    tokio::time::sleep(T.mul_f64(0.95)).await;
    server.restart(Data::Kept);
    server.heal();
    server.thaw_client(&client);
    assert!(!guard.is_held());
    let write = client.transaction().check(&fence).set_data(RESOURCE, "late", None).commit();
    within("an answer", T, write).await.expect("the node still exists");
    assert_eq!(server.get(RESOURCE).as_deref(), Some(&b"late"[..]));
}

/// The answer to a heartbeat waits for the process: the lease lapses and is valid again before the holder's task runs.
#[tokio::test(start_paused = true)]
async fn a_lapse_that_was_over_before_it_was_seen_is_told_without_waiting_for_an_answer() {
    let mut survived = 0;
    for seed in 0..60 {
        let server = TestingServer::builder().seed(seed).start();
        let client = server.client().await.expect("a client");
        make_directory(&server);
        let guard = acquired(&mutex(&client)).await;
        let session = client.session_id();
        let mut lost = Box::pin(guard.lost());
        server.delay(&client, Duration::from_millis(100));
        let running = tokio::time::timeout(Duration::from_millis(3_000 + seed * 30), &mut lost).await;
        assert!(running.is_err(), "nothing is wrong yet");
        server.freeze_client(&client);
        tokio::time::sleep(Duration::from_millis(4_800)).await;
        server.thaw_client(&client);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if guard.is_held() {
            continue;
        }
        within("the loss is told", Duration::from_millis(50), lost).await;
        survived += u32::from(client.session_id() == session);
    }
    assert!(survived > 0, "the session of some outlives the lapse");
}
