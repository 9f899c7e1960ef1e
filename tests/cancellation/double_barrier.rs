//! DoubleBarrier: entering and leaving, alone and with another.

use std::time::Duration;

use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};
use zookeeper_recipes::testing::Task;
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    enter_alone: "DoubleBarrier::enter", at least 1600 drops, 900 faults;
    enter_without_a_directory: "DoubleBarrier::enter", at least 340 drops, 190 faults;
    enter_with_another: "DoubleBarrier::enter", at least 250 drops, 140 faults;
    enter_while_a_round_is_on: "DoubleBarrier::enter", at least 170 drops, 90 faults;
    enter_with_its_object: "DoubleBarrier::enter", at least 1600 drops, 900 faults;
    enter_in_time: "DoubleBarrier::enter_timeout", at least 250 drops, 140 faults;
    enter_until_timeout: "DoubleBarrier::enter_timeout", at least 230 drops, 130 faults;
    leave_alone: "DoubleBarrier::leave", at least 110 drops, 60 faults;
    leave_with_another: "DoubleBarrier::leave", at least 210 drops, 110 faults;
    leave_before_another: "DoubleBarrier::leave", at least 1500 drops, 850 faults;
    leave_in_time: "DoubleBarrier::leave_timeout", at least 210 drops, 110 faults;
    leave_until_timeout: "DoubleBarrier::leave_timeout", at least 200 drops, 110 faults;
}

const PATH: &str = "/barrier";
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(30);

fn member(client: &Client, threshold: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, PATH, threshold).expect("good options")
}

/// Returns the client and the barrier whose calls are cut off, and another client with its barrier.
async fn two(run: &mut Run, threshold: usize) -> (Client, DoubleBarrier, Client, DoubleBarrier) {
    run.directory(PATH);
    let client = run.client().await;
    let other = run.other_client().await;
    let (one, two) = (member(&client, threshold), member(&other, threshold));
    (client, one, other, two)
}

/// Enters in a task of its own.
fn entering(run: &Run, client: &Client, barrier: DoubleBarrier) -> Task<DoubleBarrier> {
    run.server().spawn(client, async move {
        barrier.enter().await.expect("it enters in the end");
        barrier
    })
}

/// Enters, with the next session if the first one ends.
async fn enter(run: &Run, barrier: &DoubleBarrier) {
    while let Err(error) = barrier.enter().await {
        is_the_session(run, &error);
    }
}

/// Leaves: the member is outside afterwards, and no other member waits for it.
async fn leave(run: &Run, barrier: &DoubleBarrier) {
    if let Err(error) = barrier.leave().await {
        is_the_session(run, &error);
    }
}

/// Checks that only the end of a session made the call fail.
fn is_the_session(run: &Run, error: &Error) {
    assert!(!run.keeps_its_session() && error.kind() == ErrorKind::SessionLost, "{error}");
}

/// Returns the outcome of a call with a deadline, if it is known.
fn known(run: &Run, brought: Result<bool, Error>) -> Option<bool> {
    match brought {
        Ok(answer) => Some(answer),
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
            assert!(!run.is_calm(), "{error}");
            None
        }
        Err(error) => {
            is_the_session(run, &error);
            None
        }
    }
}

/// Checks that both can pass a round, and that then nothing is left.
async fn works(run: &Run, one: &DoubleBarrier, two: &DoubleBarrier) {
    tokio::join!(enter(run, one), enter(run, two));
    tokio::join!(leave(run, one), leave(run, two));
    no_member_is_inside(run).await;
}

async fn no_member_is_inside(run: &Run) {
    run.in_the_end("no member is inside", || run.server().children(PATH).is_empty()).await;
}

async fn enter_alone(run: &mut Run) {
    let (_, one, _, two) = two(run, 2).await;
    if let Some(entered) = run.cut(one.enter()).await.done() {
        is_the_session(run, &entered.expect_err("alone"));
    }
    no_member_is_inside(run).await;
    run.only_watches_of_others_are_left(0).await;
    works(run, &one, &two).await;
}

async fn enter_without_a_directory(run: &mut Run) {
    run.may_stay("/deep");
    run.may_stay("/deep/barrier");
    let client = run.client().await;
    let barrier = DoubleBarrier::new(&client, "/deep/barrier", 1).expect("good options");
    match run.cut(barrier.enter()).await.done() {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            is_the_session(run, &error);
            enter(run, &barrier).await;
        }
        None => enter(run, &barrier).await,
    }
    leave(run, &barrier).await;
    // A session that ended leaves `ready` behind, and the next round deletes it.
    enter(run, &barrier).await;
    barrier.leave().await.expect("there are no faults any more");
}

/// The barrier is dropped with the future that waits.
async fn enter_with_its_object(run: &mut Run) {
    let (client, dropped, _, two) = two(run, 2).await;
    if let Some(entered) = run.cut(async move { dropped.enter().await }).await.done() {
        is_the_session(run, &entered.expect_err("alone"));
    }
    no_member_is_inside(run).await;
    works(run, &member(&client, 2), &two).await;
}

/// Enters while another member waits: whatever the outcome, it has entered in the end, and both can leave.
async fn enter_with_another(run: &mut Run) {
    let (_, one, other, two) = two(run, 2).await;
    let two = entering(run, &other, two);
    let entered = run.cut(one.enter()).await.done();
    go_on(run, &one, two, entered).await;
}

async fn enter_in_time(run: &mut Run) {
    let (_, one, other, two) = two(run, 2).await;
    let two = entering(run, &other, two);
    let entered = run.cut(one.enter_timeout(LONG)).await.done();
    go_on(run, &one, two, entered.map(|entered| entered.map(|entered| assert!(entered, "there is time")))).await;
}

async fn enter_while_a_round_is_on(run: &mut Run) {
    let (_, one, other, two) = two(run, 1).await;
    let two = entering(run, &other, two);
    run.in_the_end("the round is on", || run.server().children(PATH).len() == 2).await;
    let entered = run.cut(one.enter()).await.done();
    go_on(run, &one, two, entered).await;
}

async fn go_on(run: &Run, one: &DoubleBarrier, two: Task<DoubleBarrier>, entered: Option<Result<(), Error>>) {
    match entered {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            is_the_session(run, &error);
            enter(run, one).await;
        }
        None => enter(run, one).await,
    }
    let two = two.await.expect("no panic");
    tokio::join!(leave(run, one), leave(run, &two));
    works(run, one, &two).await;
}

/// The call reports a timeout only when nothing of its own is left.
async fn enter_until_timeout(run: &mut Run) {
    let (_, one, _, two) = two(run, 2).await;
    let cut = run.cut(one.enter_timeout(SHORT)).await;
    if let Some(entered) = cut.done().and_then(|brought| known(run, brought)) {
        assert!(!entered, "alone");
        assert!(run.server().children(PATH).is_empty());
    }
    no_member_is_inside(run).await;
    run.only_watches_of_others_are_left(0).await;
    works(run, &one, &two).await;
}

/// The last member also deletes `ready`.
async fn leave_alone(run: &mut Run) {
    let (_, one, _, two) = two(run, 1).await;
    one.enter().await.expect("nothing is wrong yet");
    if let Some(Err(error)) = run.cut(one.leave()).await.done() {
        is_the_session(run, &error);
    }
    if !run.is_polled() {
        leave(run, &one).await;
    }
    if run.keeps_its_session() {
        no_member_is_inside(run).await;
    }
    works(run, &one, &two).await;
}

/// Leaves while another member leaves.
async fn leave_with_another(run: &mut Run) {
    with_another(run, async |run, one| run.cut(one.leave()).await.done().map(|left| left.map(|()| true))).await;
}

async fn leave_in_time(run: &mut Run) {
    with_another(run, async |run, one| run.cut(one.leave_timeout(LONG)).await.done()).await;
}

async fn with_another(run: &mut Run, cut: impl AsyncFn(&mut Run, &DoubleBarrier) -> Option<Result<bool, Error>>) {
    let (_, one, other, two) = two(run, 2).await;
    let (one_entered, two_entered) = tokio::join!(one.enter(), two.enter());
    one_entered.expect("both are there");
    two_entered.expect("both are there");
    let leaving = run.server().spawn(&other, async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        two.leave().await.expect("no other member stays inside");
        two
    });
    match cut(run, &one).await {
        Some(Ok(all)) => assert!(all, "there is time"),
        Some(Err(error)) => is_the_session(run, &error),
        None if run.is_polled() => {}
        None => leave(run, &one).await,
    }
    let two = leaving.await.expect("no panic");
    works(run, &one, &two).await;
}

/// The member's own node is deleted even while another member stays inside.
async fn leave_before_another(run: &mut Run) {
    before_another(run, async |run, one| {
        run.cut(one.leave()).await.done().map(|left| left.map(|()| panic!("the other is inside")))
    })
    .await;
}

async fn leave_until_timeout(run: &mut Run) {
    before_another(run, async |run, one| run.cut(one.leave_timeout(SHORT)).await.done()).await;
}

async fn before_another(run: &mut Run, cut: impl AsyncFn(&mut Run, &DoubleBarrier) -> Option<Result<bool, Error>>) {
    let (_, one, _, two) = two(run, 2).await;
    let (one_entered, two_entered) = tokio::join!(one.enter(), two.enter());
    one_entered.expect("both are there");
    two_entered.expect("both are there");
    let brought = cut(run, &one).await;
    if let Some(left) = brought.and_then(|brought| known(run, brought)) {
        assert!(!left, "the other is inside");
        assert_eq!(run.server().children(PATH).len(), 2, "the other, and `ready`");
    }
    if !run.is_polled() {
        assert!(!one.leave_timeout(SHORT).await.unwrap_or_default(), "the other is inside");
    }
    run.in_the_end("the own node is gone", || run.server().children(PATH).len() == 2).await;
    run.only_watches_of_others_are_left(0).await;
    two.leave().await.expect("no other member is inside");
    no_member_is_inside(run).await;
    works(run, &one, &two).await;
}
