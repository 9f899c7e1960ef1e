//! `run`: the work on each partition begins with the hold, and ends before the partition is handed over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::partition_assigner::{Error, Event, Owned, PartitionAssigner};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorPolicy};

use super::fixture::{BASE, eager, held, hold, joined, setup, until};
use crate::fixture::{SOON, still_pending, within};

/// Who works on what. Panics if two do.
#[derive(Debug, Default, Clone)]
struct Board(Arc<Mutex<BTreeMap<String, String>>>);

/// Works until it is dropped.
struct Works {
    board: Board,
    partition: String,
}

impl Board {
    fn begin(&self, who: &str, partition: &Owned) -> Works {
        let before = self.0.lock().expect("no panic").insert(partition.id().to_owned(), who.to_owned());
        assert_eq!(before, None, "{who} begins to work on {}", partition.id());
        Works { board: self.clone(), partition: partition.id().to_owned() }
    }

    fn of(&self, who: &str) -> usize {
        self.0.lock().expect("no panic").values().filter(|other| *other == who).count()
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        self.board.0.lock().expect("no panic").remove(&self.partition);
    }
}

async fn member(client: &Client, id: &str, grace: Duration) -> Arc<PartitionAssigner> {
    Arc::new(eager(client, id).grace_period(grace).join().await.expect("it joins"))
}

/// Runs work that ends `takes` after it was asked to.
fn run(member: &Arc<PartitionAssigner>, board: &Board, takes: Duration) -> tokio::task::JoinHandle<Result<(), Error>> {
    let (member, board) = (Arc::clone(member), board.clone());
    tokio::spawn(async move {
        let id = member.id().to_owned();
        let work = move |partition: Owned| {
            let (board, id) = (board.clone(), id.clone());
            async move {
                let _works = board.begin(&id, &partition);
                partition.revoked().await;
                sleep(takes).await;
            }
        };
        member.run(work).await
    })
}

/// Checks that a member gets so many partitions one after the other, not all of them together.
async fn gets_one_by_one(member: &PartitionAssigner, count: usize) {
    let mut counts = Vec::new();
    for _ in 0..15 {
        sleep(SOON).await;
        counts.push(held(member).len());
    }
    assert!(counts.is_sorted() && counts.last() == Some(&count), "{counts:?}");
    counts.dedup();
    assert!(counts.len() > 4, "one after the other: {counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_handed_over_when_the_work_on_it_has_ended() {
    let (server, clients) = setup(2).await;
    let board = Board::default();
    let one = member(&clients[0], "one", SOON * 60).await;
    let running = run(&one, &board, SOON * 10);
    until("it works", || board.of("one") == 12).await;
    let two = member(&clients[1], "two", SOON * 60).await;
    let other = run(&two, &board, Duration::ZERO);
    sleep(SOON * 8).await;
    assert_eq!((board.of("one"), board.of("two")), (12, 0), "the work goes on");
    assert_eq!(held(&one).len(), 12, "a partition that is revoked is still held");
    sleep(SOON * 4).await;
    assert_eq!((board.of("one"), board.of("two")), (6, 6));
    one.leave().await;
    within("it ends", SOON, running).await.expect("no panic").expect("no second run");
    until("the other works", || board.of("two") == 12).await;
    two.leave().await;
    within("it ends", SOON, other).await.expect("no panic").expect("no second run");
    assert_eq!(server.children(&format!("{BASE}/owned")).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_dropped_after_the_grace_period_and_then_handed_over() {
    let (server, clients) = setup(2).await;
    let board = Board::default();
    let one = member(&clients[0], "one", SOON * 3).await;
    let _running = run(&one, &board, SOON * 1_000);
    until("it works", || board.of("one") == 12).await;
    let events = one.events();
    let two = member(&clients[1], "two", SOON * 3).await;
    let _other = run(&two, &board, Duration::ZERO);
    let begun = Instant::now();
    until("the other works", || board.of("two") == 6).await;
    assert!(begun.elapsed() >= SOON * 3, "{:?}", begun.elapsed());
    hold(&server, &[&one, &two], &[6, 6]).await;
    assert_eq!(board.of("one"), 6);
    let dropped = events.filter(|event| std::future::ready(matches!(event, Event::WorkDropped { .. })));
    assert_eq!(within("it is reported", SOON, dropped.take(6).count()).await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_slow_partition_delays_no_other() {
    let (_server, clients) = setup(2).await;
    let board = Board::default();
    let one = member(&clients[0], "one", SOON * 100).await;
    let (here, who) = (board.clone(), Arc::clone(&one));
    let _running = tokio::spawn(async move {
        let work = move |partition: Owned| {
            let board = here.clone();
            async move {
                let _works = board.begin("one", &partition);
                partition.revoked().await;
                let number: u32 = partition.id().parse().expect("a number");
                sleep(SOON * number).await;
            }
        };
        who.run(work).await
    });
    until("it works", || board.of("one") == 12).await;
    let two = joined(&clients[1], "two").await;
    gets_one_by_one(&two, 6).await;
}

/// A member that leaves hands over each partition when the work on it has ended, not all of them together.
#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_hands_over_one_by_one() {
    let (server, clients) = setup(2).await;
    let board = Board::default();
    let two = joined(&clients[1], "two").await;
    let one = member(&clients[0], "one", SOON * 100).await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let (here, who) = (board.clone(), Arc::clone(&one));
    let _running = tokio::spawn(async move {
        let work = move |partition: Owned| {
            let board = here.clone();
            async move {
                let _works = board.begin("one", &partition);
                partition.revoked().await;
                assert!(partition.is_revoked() && partition.is_held());
                let number: u32 = partition.id().parse().expect("a number");
                sleep(SOON * (number + 1)).await;
            }
        };
        who.run(work).await
    });
    until("it works", || board.of("one") == 6).await;
    let leaving = tokio::spawn(async move { one.leave().await });
    gets_one_by_one(&two, 12).await;
    within("it has left", SOON, leaving).await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_or_fails_is_reported_and_started_again_with_growing_pauses() {
    let (_server, clients) = setup(1).await;
    let one = Arc::new(eager(&clients[0], "one").partitions(["a", "b", "c"]).join().await.expect("it joins"));
    let mut events = one.events();
    let starts: Arc<Mutex<Vec<(String, i64, Instant)>>> = Arc::default();
    let (noted, member) = (Arc::clone(&starts), Arc::clone(&one));
    let _running = tokio::spawn(async move {
        let work = move |partition: Owned| {
            let start = (partition.id().to_owned(), partition.fencing_token(), Instant::now());
            noted.lock().expect("no panic").push(start);
            async move {
                match partition.id() {
                    "a" => Ok(()),
                    "b" => Err("no more"),
                    _ => panic!("as this test wants"),
                }
            }
        };
        member.run(work).await
    });
    sleep(SOON * 20).await;
    let starts = starts.lock().expect("no panic").clone();
    for id in ["a", "b", "c"] {
        let of: Vec<_> = starts.iter().filter(|(of, ..)| of == id).collect();
        assert!((4..12).contains(&of.len()), "{id}: {of:?}");
        assert!(of.is_sorted_by(|one, next| one.1 < next.1), "each start has a greater token");
        assert!(of[3].2 - of[2].2 > of[1].2 - of[0].2, "the pauses grow: {of:?}");
    }
    let mut ends = BTreeMap::new();
    while ends.len() < 3 {
        if let Event::WorkEnded { partition, why } = within("it is reported", SOON, events.next()).await.expect("open")
        {
            ends.insert(partition, why);
        }
    }
    let why = |id: &str| ends[id].as_deref();
    assert_eq!((why("a"), why("b"), why("c")), (None, Some("no more"), Some("as this test wants")));
}

#[tokio::test(start_paused = true)]
async fn only_one_run_at_a_time() {
    let (_server, clients) = setup(1).await;
    let one = joined(&clients[0], "one").await;
    let mut first = Box::pin(one.run(|_| std::future::pending::<()>()));
    still_pending("it runs", &mut first).await;
    let error = one.run(|_| async {}).await.expect_err("refused");
    assert!(matches!(&error, Error::InvalidOption { .. }) && error.to_string().contains("a second run"), "{error}");
    drop(first);
    let mut second = Box::pin(one.run(|_| std::future::pending::<()>()));
    still_pending("it runs", &mut second).await;
}

/// A `run` that is dropped has ended all work, and the next one works on all partitions again.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_ends_all_work() {
    let (_server, clients) = setup(1).await;
    let board = Board::default();
    let one = member(&clients[0], "one", SOON).await;
    for _ in 0..3 {
        let running = run(&one, &board, Duration::ZERO);
        until("it works", || board.of("one") == 12).await;
        running.abort();
        until("all work ends", || board.of("one") == 0).await;
    }
    // A drop of the member ends the work at once.
    let running = run(&one, &board, SOON * 100);
    until("it works", || board.of("one") == 12).await;
    running.abort();
    drop(one);
    until("all work ends", || board.of("one") == 0).await;
}

/// The work ends at once when the session is lost: others may work on the partitions soon.
#[tokio::test(start_paused = true)]
async fn work_ends_with_the_lease() {
    let (server, clients) = setup(2).await;
    let board = Board::default();
    let one = member(&clients[0], "one", SOON * 100).await;
    let two = member(&clients[1], "two", SOON * 100).await;
    let (_first, _second) = (run(&one, &board, Duration::ZERO), run(&two, &board, Duration::ZERO));
    until("both work", || (board.of("one"), board.of("two")) == (6, 6)).await;
    server.black_hole(&clients[0]);
    until("the other has all", || board.of("two") == 12).await;
    assert_eq!(board.of("one"), 0);
    server.heal();
    // The board panics if two work on a partition.
    until("both work again", || board.of("one") == 6 || board.of("two") == 12).await;
}

/// Work may see that the lease is over before the member does, and return. That is no release by the holder: after the
/// reconnect it holds the same partitions again, without a hand-over.
#[tokio::test(start_paused = true)]
async fn work_that_returns_when_the_lease_ends_begins_again_with_the_same_tokens() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).error_policy(policy).connect().await.expect("a client");
        let one = member(&client, "one", SOON).await;
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (here, who) = (Arc::clone(&begun), Arc::clone(&one));
        let _running = tokio::spawn(async move {
            let work = move |partition: Owned| {
                here.lock().expect("no panic").push((partition.id().to_owned(), partition.fencing_token()));
                async move {
                    while partition.is_held() {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            };
            who.run(work).await
        });
        let begun = || begun.lock().expect("no panic").clone();
        until("it works", || begun().len() == 12).await;
        let mut events = one.events();
        server.refuse(&client);
        server.disconnect(&client);
        until("all is lost", || one.assigned().is_empty()).await;
        server.heal();
        until("it works again", || one.assigned().len() == 12 && begun().len() == 24).await;
        let (mut first, mut second) = (begun(), begun().split_off(12));
        first.truncate(12);
        first.sort();
        second.sort();
        assert_eq!(first, second, "{policy:?}");
        while let Some(Some(event)) = events.next().now_or_never() {
            assert!(!matches!(event, Event::WorkEnded { .. }), "{event}");
        }
    }
}

/// What a client does that does not work through `run`.
#[tokio::test(start_paused = true)]
async fn a_holder_may_wait_for_the_revocation_and_release_by_itself() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").grace_period(SOON * 100).join().await.expect("it joins");
    hold(&server, &[&one], &[12]).await;
    let all = one.assigned();
    let two = joined(&clients[1], "two").await;
    let mut revoked = Vec::new();
    for partition in &all {
        if let Ok(by) = tokio::time::timeout(SOON, partition.revoked()).await {
            assert!(by.expect("it is still held") > Instant::now() + SOON * 80);
            revoked.push(partition);
        }
    }
    assert_eq!((revoked.len(), held(&one).len(), held(&two).len()), (6, 12, 0));
    revoked.iter().for_each(|partition| partition.release());
    assert!(revoked.iter().all(|partition| !partition.is_held()));
    hold(&server, &[&one, &two], &[6, 6]).await;
    let notify = Notify::new();
    assert!(revoked[0].run(notify.notified()).await.is_err(), "it is lost");
}
