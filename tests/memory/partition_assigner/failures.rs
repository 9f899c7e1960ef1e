//! Lost answers, at each step.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{BASE, eager, hold_within, joined, setup};
use crate::fixture::{SOON, T};

/// Every request of a join and of a hand-over is lost once, on its way there or back.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_changes_nothing_in_the_end() {
    for victim in 0..2 {
        for of in [Operation::Multi, Operation::Create, Operation::Exists, Operation::GetData, Operation::List] {
            for loss in [Loss::Applied, Loss::NotApplied, Loss::Truncated, Loss::Malformed] {
                for skip in 0..4 {
                    let (server, clients) = setup(2).await;
                    let one = joined(&clients[0], "one").await;
                    hold_within(&server, T, &[&one], &[12]).await;
                    let joining = tokio::spawn(eager(&clients[1], "two").join());
                    // The fault hits another request each time.
                    for _ in 0..skip * 3 {
                        tokio::task::yield_now().await;
                    }
                    server.lose_next_reply(&clients[victim], of, loss);
                    let two = match joining.await.expect("no panic") {
                        Ok(two) => two,
                        // An answer that cannot be read is an error of the call.
                        Err(error) => {
                            assert_eq!((loss, error.kind()), (Loss::Malformed, ErrorKind::Other), "{error}");
                            joined(&clients[1], "two").await
                        }
                    };
                    hold_within(&server, T * 3, &[&one, &two], &[6, 6]).await;
                    server.lose_next_reply(&clients[victim], of, loss);
                    two.leave().await;
                    hold_within(&server, T * 3, &[&one], &[12]).await;
                    one.leave().await;
                    let left = ["members", "assignments", "owned"].map(|dir| server.children(&format!("{BASE}/{dir}")));
                    assert!(left.iter().all(Vec::is_empty), "{victim} {of:?} {loss:?} {skip}: {left:?}");
                }
            }
        }
    }
}

/// A process that was stopped for longer than its session holds nothing, whatever it still sends.
#[tokio::test(start_paused = true)]
async fn a_stopped_member_loses_everything_and_its_late_requests_are_refused() {
    for victim in 0..2 {
        let (server, clients) = setup(2).await;
        let one = joined(&clients[0], "one").await;
        let two = joined(&clients[1], "two").await;
        hold_within(&server, T, &[&one, &two], &[6, 6]).await;
        let members = [&one, &two];
        let old = members[victim].assigned();
        server.freeze_client(&clients[victim]);
        let other = members[1 - victim];
        hold_within(&server, T * 6, &[other], &[12]).await;
        assert!(old.iter().all(|partition| !partition.is_held()));
        let tokens: Vec<i64> = other.assigned().iter().map(|one| one.fencing_token()).collect();
        server.thaw_client(&clients[victim]);
        hold_within(&server, T * 6, &members, &[6, 6]).await;
        assert!(members[victim].assigned().iter().all(|one| tokens.iter().all(|old| one.fencing_token() > *old)));
    }
}

/// While a member is stopped that should hand over, only what it holds waits for it.
#[tokio::test(start_paused = true)]
async fn a_stopped_member_delays_only_what_it_holds() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    server.freeze_client(&clients[1]);
    let three = joined(&clients[2], "three").await;
    tokio::time::sleep(SOON).await;
    assert_eq!((one.assigned().len(), three.assigned().len()), (4, 2));
    server.thaw_client(&clients[1]);
    hold_within(&server, T, &[&one, &two, &three], &[4, 4, 4]).await;
}
