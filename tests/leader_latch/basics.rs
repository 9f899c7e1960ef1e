//! The line: who leads, in which order, and what is refused at the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::leader_latch::{Error, LatchStatus, LeaderLatch, LeadershipLost};

use super::scene::{A_WHILE, SOON, Scene, leads, line_of, nobody_leads_for, reaches, stands};
use crate::support::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_does_not_exist_has_no_leader_and_no_participants() {
    let scene = Scene::new("uncreated").await;
    let client = scene.client().await;
    // A latch that can never create its node: its directory would be the child of an ephemeral node.
    scene.observer.create_ephemeral(&scene.path, b"").await;
    let latch = LeaderLatch::builder(&client, format!("{}/below", scene.path)).start().expect("the latch starts");
    reaches(&latch, LatchStatus::Failed).await;
    assert_eq!(latch.leader().await, Ok(None));
    assert_eq!(latch.participants().await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_come_in_the_order_of_their_start_the_leader_first() {
    let scene = Scene::new("participants").await;
    let (one, other) = (scene.client().await, scene.client().await);
    let first = scene.latch(&one, "first");
    leads(&first).await;
    let second = scene.latch(&other, "second");
    stands(&second).await;
    let third = scene.latch(&one, "third");
    stands(&third).await;

    for latch in [&first, &second, &third] {
        let line = latch.participants().await.expect("the participants");
        let seen: Vec<_> = line.iter().map(|it| (it.id.as_str(), it.is_leader)).collect();
        assert_eq!(seen, [("first", true), ("second", false), ("third", false)]);
        let paths: Vec<_> = line.iter().map(|it| Some(it.path.clone())).collect();
        assert_eq!(paths, [first.our_path(), second.our_path(), third.our_path()]);
        assert_eq!(latch.leader().await, Ok(Some(line[0].clone())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_follows_the_order_of_start_when_each_leader_closes() {
    let scene = Scene::new("sequence").await;
    let (one, other) = (scene.client().await, scene.client().await);
    let mut latches = Vec::new();
    for number in 0..6 {
        let latch = scene.latch(if number % 2 == 0 { &one } else { &other }, &number.to_string());
        if number == 0 {
            leads(&latch).await;
        } else {
            stands(&latch).await;
        }
        latches.push(latch);
    }
    let mut newest = 0;
    for (number, latch) in latches.iter().enumerate() {
        let leadership = leads(latch).await;
        assert!(leadership.fencing_token() > newest, "tokens grow");
        newest = leadership.fencing_token();
        assert!(latches[number + 1..].iter().all(|later| !later.has_leadership()));
        latch.close().await.expect("closed");
        assert!(!leadership.is_held() && !latch.has_leadership());
        assert_eq!(scene.nodes().await.len(), latches.len() - number - 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_participant_in_the_middle_that_closes_does_not_elect_the_one_behind_it() {
    let scene = Scene::new("middle").await;
    let client = scene.client().await;
    let first = scene.latch(&client, "first");
    leads(&first).await;
    let middle = scene.latch(&client, "middle");
    stands(&middle).await;
    let last = scene.latch(&client, "last");
    stands(&last).await;

    middle.close().await.expect("closed");
    // A wrong election would come with the event of the deletion.
    nobody_leads_for(A_WHILE, &[&middle, &last]).await;
    assert!(first.has_leadership());
    assert_eq!(line_of(&last).await, ["first", "last"]);
    first.close().await.expect("closed");
    leads(&last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_wait_and_work_never_two_lead_at_once() {
    const TASKS: usize = 24;
    let scene = Scene::new("waiting").await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(scene.client().await);
    }
    let latches: Arc<Vec<_>> =
        Arc::new((0..TASKS).map(|number| scene.latch(&clients[number % clients.len()], &number.to_string())).collect());
    let (done, samples) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Two that lead at the same instant, seen from a thread of its own as fast as it can.
    let sampler = std::thread::spawn({
        let (latches, done, samples) = (Arc::clone(&latches), Arc::clone(&done), Arc::clone(&samples));
        move || {
            while !done.load(Ordering::SeqCst) {
                for (number, one) in latches.iter().enumerate() {
                    let Some(led) = one.state().borrow().leadership() else {
                        continue;
                    };
                    for (_, other) in latches.iter().enumerate().filter(|(other, _)| *other != number) {
                        // Its leadership still lasts after the other one was seen to lead.
                        assert!(!(other.has_leadership() && led.is_held()), "two lead at once");
                    }
                    samples.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    let inside = AtomicUsize::new(0);
    let work = latches.iter().map(|latch| async {
        let leadership = leads(latch).await;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two work at once");
        // No term goes by unseen, however busy the machine is.
        let before = samples.load(Ordering::SeqCst);
        within("the sampler looks", SOON, async {
            while samples.load(Ordering::SeqCst) < before + 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(leadership.is_held());
        inside.fetch_sub(1, Ordering::SeqCst);
        latch.close().await.expect("closed");
    });
    join_all(work).await;
    done.store(true, Ordering::SeqCst);
    sampler.join().expect("never two leaders");
    assert!(samples.load(Ordering::SeqCst) >= 2 * TASKS);
    assert_eq!(scene.nodes().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_on_one_latch_get_the_same_leadership() {
    let scene = Scene::new("shared").await;
    let client = scene.client().await;
    let first = scene.latch(&client, "first");
    leads(&first).await;
    let latch = scene.latch(&client, "shared");
    stands(&latch).await;
    let (_, all) = tokio::join!(first.close(), join_all((0..5).map(|_| leads(&latch))));
    assert!(all.iter().all(|each| each.fencing_token() == all[0].fencing_token()));
    assert!(all.iter().all(|each| each.is_held()));
    latch.close().await.expect("closed");
    within("all hear of the end", SOON, join_all(all.iter().map(|each| each.lost()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_runs_to_its_end_or_is_dropped_when_the_leadership_ends() {
    let scene = Scene::new("run").await;
    let client = scene.client().await;
    let latch = scene.latch(&client, "worker");
    let leadership = leads(&latch).await;
    assert_eq!(leadership.run(async { 7 }).await, Ok(7));

    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let endless = leadership.run(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    let (ended, closed) = tokio::join!(within("the work is dropped", SOON, endless), latch.close());
    assert_eq!((ended, closed), (Err(LeadershipLost), Ok(())));
    assert_eq!(Arc::strong_count(&alive), 1, "the work is gone");
    assert_eq!(leadership.run(async { 7 }).await, Err(LeadershipLost));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_right_after_the_start_leaves_no_node() {
    let scene = Scene::with_directory("at-once").await;
    let client = scene.client().await;
    for yields in 0..40 {
        let latch = scene.latch(&client, "brief");
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        latch.close().await.expect("closed");
        assert_eq!(scene.nodes().await, [""; 0], "after {yields} yields");

        // And once right after its create went out.
        let before = client.request_counts().creates;
        let latch = scene.latch(&client, "brief");
        eventually("the create goes out", SOON, || async { client.request_counts().creates > before }).await;
        latch.close().await.expect("closed");
        assert_eq!(scene.nodes().await, [""; 0], "round {yields}, with its create under way");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_latch_says_so_and_closing_it_again_is_fine() {
    let scene = Scene::new("closed").await;
    let client = scene.client().await;
    let latch = scene.latch(&client, "closed");
    leads(&latch).await;
    latch.close().await.expect("closed");
    latch.close().await.expect("closed twice");
    assert_eq!(latch.state().borrow().status(), LatchStatus::Closed);
    assert_eq!(latch.our_path(), None);
    let waited = within("no wait for a closed latch", SOON, latch.wait_for_leadership()).await;
    assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");

    client.close().await.expect("the server is told");
    let started = LeaderLatch::builder(&client, &scene.path).start();
    assert!(matches!(started, Err(Error::Closed { .. })), "{started:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_path_is_rejected_by_name() {
    let scene = Scene::new("malformed").await;
    let client = scene.client().await;
    for path in ["relative", "", "/", "/trailing/", "/double//slash", "/a/../b", "/nul\0"] {
        match LeaderLatch::builder(&client, path).start() {
            Err(Error::Client { error: source, .. }) => {
                assert_eq!(source.kind(), ErrorKind::InvalidPath, "{path:?}");
                assert!(!source.is_retryable());
            }
            other => panic!("{path:?}: {other:?}"),
        }
    }
    let error = LeaderLatch::builder(&client, "relative").start().unwrap_err().to_string();
    assert!(error.contains("relative"), "{error}");
    assert_eq!(client.request_counts().total(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_too_large_is_rejected_with_its_size_and_the_limit() {
    const MOST: usize = 65_536;
    let scene = Scene::new("large-id").await;
    let client = scene.client().await;
    let largest = scene.latch(&client, &"x".repeat(MOST));
    leads(&largest).await;
    assert_eq!(line_of(&largest).await[0].len(), MOST);

    let refused = LeaderLatch::builder(&client, &scene.path).id("x".repeat(MOST + 1)).start();
    let error = refused.expect_err("one byte too many");
    assert!(matches!(error, Error::InvalidId { bytes, max: MOST, .. } if bytes == MOST + 1));
    let text = error.to_string();
    assert!(text.contains("65537") && text.contains("65536") && text.contains(&scene.path), "{text}");
}
