//! The line: who leads, in which order, and what is refused at the start.

use std::sync::Arc;

use futures::future::join_all;
use zookeeper_recipes::leader_latch::{Error, LatchStatus, LeaderLatch, LeadershipLost};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{PATH, latch, latch_at, leads, line_of, no_latch_leads_for, reaches, setup, waits};
use crate::fixture::{SOON, eventually, within};

#[tokio::test(start_paused = true)]
async fn a_path_that_does_not_exist_has_no_leader_and_no_participants() {
    let (_server, [client]) = setup().await;
    // A latch that can never create its node: its directory would be the child of an ephemeral node.
    let parent = format!("{PATH}/ephemeral");
    client.create(&parent, "", CreateMode::Ephemeral).await.expect("created");
    let latch = latch_at(&client, &format!("{parent}/below"), "never");
    reaches(&latch, LatchStatus::Failed).await;
    assert_eq!(latch.leader().await, Ok(None));
    assert_eq!(latch.participants().await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn participants_come_in_the_order_of_their_start_the_leader_first() {
    let (_server, [one, other]) = setup().await;
    let first = latch(&one, "first");
    leads(&first).await;
    let second = latch(&other, "second");
    waits(&second).await;
    let third = latch(&one, "third");
    waits(&third).await;

    for latch in [&first, &second, &third] {
        let line = latch.participants().await.expect("the participants");
        let seen: Vec<_> = line.iter().map(|it| (it.id.as_str(), it.is_leader)).collect();
        assert_eq!(seen, [("first", true), ("second", false), ("third", false)]);
        let paths: Vec<_> = line.iter().map(|it| Some(it.path.clone())).collect();
        assert_eq!(paths, [first.our_path(), second.our_path(), third.our_path()]);
        assert_eq!(latch.leader().await, Ok(Some(line[0].clone())));
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_follows_the_order_of_start_when_each_leader_closes() {
    let (server, [one, other]) = setup().await;
    let mut latches = Vec::new();
    for number in 0..6 {
        let latch = latch(if number % 2 == 0 { &one } else { &other }, &number.to_string());
        if number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
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
        assert_eq!(server.children(PATH).len(), latches.len() - number - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_in_the_middle_that_closes_does_not_elect_the_one_behind_it() {
    let (_server, [client]) = setup().await;
    let first = latch(&client, "first");
    leads(&first).await;
    let middle = latch(&client, "middle");
    waits(&middle).await;
    let last = latch(&client, "last");
    waits(&last).await;

    middle.close().await.expect("closed");
    // A wrong election would come with the event of the deletion.
    no_latch_leads_for(SOON, &[&middle, &last]).await;
    assert!(first.has_leadership());
    assert_eq!(line_of(&last).await, ["first", "last"]);
    first.close().await.expect("closed");
    leads(&last).await;
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_on_one_latch_get_the_same_leadership() {
    let (_server, [client]) = setup().await;
    let first = latch(&client, "first");
    leads(&first).await;
    let latch = latch(&client, "shared");
    waits(&latch).await;
    let (_, all) = tokio::join!(first.close(), join_all((0..5).map(|_| leads(&latch))));
    assert!(all.iter().all(|each| each.fencing_token() == all[0].fencing_token()));
    assert!(all.iter().all(|each| each.is_held()));
    latch.close().await.expect("closed");
    within("all hear of the end", SOON, join_all(all.iter().map(|each| each.lost()))).await;
}

#[tokio::test(start_paused = true)]
async fn work_runs_to_its_end_or_is_dropped_when_the_leadership_ends() {
    let (_server, [client]) = setup().await;
    let latch = latch(&client, "worker");
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

/// On several threads, so that the close falls on every step of the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_right_after_the_start_leaves_no_node() {
    let (server, [client]) = setup().await;
    for yields in 0..40 {
        let brief = latch(&client, "brief");
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        brief.close().await.expect("closed");
        assert_eq!(server.children(PATH), [""; 0], "after {yields} yields");

        // And once right after its create was sent.
        let before = client.request_counts().creates;
        let brief = latch(&client, "brief");
        eventually("the create is sent", SOON, || async { client.request_counts().creates > before }).await;
        brief.close().await.expect("closed");
        assert_eq!(server.children(PATH), [""; 0], "round {yields}, with its create under way");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_latch_says_so_and_closing_it_again_is_fine() {
    let (_server, [client]) = setup().await;
    let latch = latch(&client, "closed");
    leads(&latch).await;
    latch.close().await.expect("closed");
    latch.close().await.expect("closed twice");
    assert_eq!(latch.state().get().status(), LatchStatus::Closed);
    assert_eq!(latch.our_path(), None);
    let waited = within("no wait for a closed latch", SOON, latch.wait_for_leadership()).await;
    assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");

    client.close().await.expect("the server is told");
    let started = LeaderLatch::builder(&client, PATH).start();
    assert!(matches!(started, Err(Error::Closed { .. })), "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_path_is_rejected_by_name() {
    let (_server, [client]) = setup().await;
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

#[tokio::test(start_paused = true)]
async fn an_id_that_is_too_large_is_rejected_with_its_size_and_the_limit() {
    const MOST: usize = 65_536;
    let (_server, [client]) = setup().await;
    let largest = latch(&client, &"x".repeat(MOST));
    leads(&largest).await;
    assert_eq!(line_of(&largest).await[0].len(), MOST);

    let refused = LeaderLatch::builder(&client, PATH).id("x".repeat(MOST + 1)).start();
    let error = refused.expect_err("one byte too many");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("65537") && text.contains("65536") && text.contains(PATH), "{text}");
}
