//! InterProcessSemaphore: acquiring, holding, releasing.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::semaphore::{Error, InterProcessSemaphore, SemaphoreGuard};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::harness::{Outage, Run, cases};

cases! {
    acquire: "InterProcessSemaphore::acquire", at least 150 drops, 100 faults;
    acquire_behind_a_holder: "InterProcessSemaphore::acquire", at least 150 drops, 100 faults;
    acquire_in_time: "InterProcessSemaphore::acquire_timeout", at least 150 drops, 100 faults;
    acquire_until_timeout: "InterProcessSemaphore::acquire_timeout", at least 150 drops, 100 faults;
    try_acquire: "InterProcessSemaphore::try_acquire", at least 150 drops, 100 faults;
    try_acquire_of_taken_permits: "InterProcessSemaphore::try_acquire", at least 150 drops, 100 faults;
    participants: "InterProcessSemaphore::participants", at least 20 drops, 10 faults;
    lost: "SemaphoreGuard::lost", at least 70 drops, 40 faults;
    work: "SemaphoreGuard::run", at least 60 drops, 30 faults;
    release: "SemaphoreGuard::release", at least 70 drops, 50 faults;
    release_of_watched_permits: "SemaphoreGuard::release", at least 60 drops, 40 faults;
    release_while_cut_off: "SemaphoreGuard::release", at least 100 drops, 30 faults;
}

const PATH: &str = "/semaphore";
const LINE: &str = "/semaphore/locks";
const LEASES: &str = "/semaphore/leases";
const COUNT: &str = "/count";
/// Long enough for the watch of a node to be armed.
const A_WHILE: Duration = Duration::from_millis(100);

/// Creates the directories, and sets the number of permits to three.
fn directories(run: &mut Run) {
    for path in [PATH, LINE, LEASES] {
        run.directory(path);
    }
    run.server().create_by_hand(COUNT, 3i32.to_be_bytes(), CreateMode::Persistent).expect("a new node");
    run.may_stay(COUNT);
}

fn semaphore(client: &Client) -> InterProcessSemaphore {
    InterProcessSemaphore::builder(client, PATH).permits_from(COUNT).build().expect("good paths")
}

async fn acquired(client: &Client, permits: u32) -> SemaphoreGuard {
    semaphore(client).acquire(permits).await.expect("they are to be had")
}

/// Returns the number of nodes in the line, and of leases.
fn nodes(run: &Run) -> (usize, usize) {
    (run.server().children(LINE).len(), run.server().children(LEASES).len())
}

async fn leases_are(run: &Run, leases: usize) {
    run.in_the_end("no other node is left", || nodes(run) == (0, leases)).await;
}

/// Acquires all permits and releases them, and checks that no node is left.
async fn works(run: &Run, client: &Client) {
    let guard = acquired(client, 3).await;
    assert!(guard.is_held());
    guard.release().await.expect("they were held");
    leases_are(run, 0).await;
}

async fn acquire(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let semaphore = semaphore(&client);
    drop(run.cut(semaphore.acquire(2)).await.done().map(|guard| guard.expect("they are free")));
    leases_are(run, 0).await;
    works(run, &client).await;
}

async fn acquire_behind_a_holder(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&other, 2).await;
    leases_are(run, 2).await;
    let watches = run.settled_watches().await;
    let semaphore = semaphore(&client);
    if let Some(waited) = run.cut(timeout(Duration::from_millis(500), semaphore.acquire(2))).await.done() {
        waited.expect_err("one is free");
    }
    leases_are(run, 2).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("they were held");
    works(run, &client).await;
}

/// Returns the outcome of a call with a deadline, if it is known. Only after a fault may it be unknown or a timeout.
fn known(run: &Run, brought: Result<Option<SemaphoreGuard>, Error>) -> Option<Option<SemaphoreGuard>> {
    match brought {
        Ok(guard) => Some(guard),
        Err(error) => {
            let may = matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut);
            assert!(!run.is_calm() && may, "{error}");
            None
        }
    }
}

async fn acquire_in_time(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let semaphore = semaphore(&client);
    let cut = run.cut(semaphore.acquire_timeout(2, Duration::from_secs(8))).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("they are free, and there is time"));
    }
    leases_are(run, 0).await;
    works(run, &client).await;
}

async fn acquire_until_timeout(run: &mut Run) {
    let within = Duration::from_millis(500);
    of_taken_permits(run, async |run, semaphore| run.cut(semaphore.acquire_timeout(2, within)).await.done()).await;
}

async fn try_acquire_of_taken_permits(run: &mut Run) {
    of_taken_permits(run, async |run, semaphore| run.cut(semaphore.try_acquire(2)).await.done()).await;
}

/// Another client has two of three permits: the call returns `None` only when none of its own nodes is left.
async fn of_taken_permits(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &InterProcessSemaphore) -> Option<Result<Option<SemaphoreGuard>, Error>>,
) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&other, 2).await;
    leases_are(run, 2).await;
    let watches = run.settled_watches().await;
    let brought = cut(run, &semaphore(&client)).await;
    if let Some(guard) = brought.and_then(|brought| known(run, brought)) {
        assert!(guard.is_none(), "one is free");
        assert_eq!(nodes(run), (0, 2));
    }
    leases_are(run, 2).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("they were held");
    works(run, &client).await;
}

async fn try_acquire(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let semaphore = semaphore(&client);
    let cut = run.cut(semaphore.try_acquire(2)).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("they are free"));
    }
    leases_are(run, 0).await;
    works(run, &client).await;
}

async fn participants(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&other, 2).await;
    leases_are(run, 2).await;
    let semaphore = semaphore(&client);
    if let Some(Ok(paths)) = run.cut(semaphore.participants()).await.done() {
        assert_eq!(paths.len(), 2);
    }
    drop(held);
    leases_are(run, 0).await;
    works(run, &client).await;
}

async fn lost(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client, 2).await;
    let lease = guard.node_paths().last().expect("two").to_owned();
    // The lease may be gone by then.
    run.later(&client, Duration::from_millis(40), move |server| drop(server.delete_by_hand(&lease)));
    if run.cut(guard.lost()).await.done().is_some() {
        assert!(!guard.is_held());
    }
    guard.lost().await;
    assert!(!guard.is_held());
    drop(guard);
    leases_are(run, 0).await;
    works(run, &client).await;
}

/// The guard is dropped with the work.
async fn work(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client, 2).await;
    if let Some(worked) = run.cut(async move { guard.run(sleep(A_WHILE)).await }).await.done() {
        assert!(worked.is_ok() || !run.is_calm());
    }
    leases_are(run, 0).await;
    works(run, &client).await;
}

async fn release(run: &mut Run) {
    are_released(run, false).await;
}

async fn release_of_watched_permits(run: &mut Run) {
    are_released(run, true).await;
}

async fn are_released(run: &mut Run, watched: bool) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client, 2).await;
    leases_are(run, 2).await;
    if watched {
        guard.run(sleep(A_WHILE)).await.expect("held");
    }
    match run.cut(guard.release()).await.done() {
        None => {}
        Some(Ok(())) => assert_eq!(nodes(run), (0, 0)),
        Some(Err(error)) => assert!(error.kind() == ErrorKind::SessionLost && !run.keeps_its_session(), "{error}"),
    }
    leases_are(run, 0).await;
    works(run, &client).await;
}

/// The session is given up before the leases are deleted: the next session still deletes them.
async fn release_while_cut_off(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client, 2).await;
    leases_are(run, 2).await;
    run.begin_outage(Outage::Refused).await;
    if let Some(released) = run.cut(guard.release()).await.done() {
        assert_eq!(released.expect_err("there is no reply").kind(), ErrorKind::SessionLost);
    }
    run.is_rid_of_all_it_had_in(LEASES).await;
    works(run, &client).await;
}
