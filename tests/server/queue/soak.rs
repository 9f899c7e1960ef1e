//! Many items, and consumers in processes of their own that are killed at random: nothing is lost, and what comes twice
//! was not acked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::fixture::{Fixture, SOON, queue};
use crate::fixture::{builder, connect};
use crate::support::elsewhere::{Elsewhere, ordered, say};
use crate::support::within;

const TEST: &str =
    concat!(module_path!(), "::consumers_killed_at_random_lose_nothing_and_only_what_they_had_not_acked_comes_twice");
const CONSUMERS: usize = 4;
/// So many of them are killed, where `QUEUE_SOAK` does not ask for more items than this.
const ITEMS: usize = 3_000;
const SESSION: Duration = Duration::from_secs(2);

/// With `QUEUE_SOAK=100000` it takes minutes, and as many more kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_killed_at_random_lose_nothing_and_only_what_they_had_not_acked_comes_twice() {
    if let Some([server, path]) = ordered() {
        return consume(&server, &path).await;
    }
    let items = std::env::var("QUEUE_SOAK").map_or(ITEMS, |items| items.parse().expect("QUEUE_SOAK: a number"));
    let fixture = Fixture::new("soak").await;
    let client = fixture.client().await;
    let producer = queue(&client, &fixture.path).producer();
    let begun = Instant::now();
    let putting = tokio::spawn(async move {
        for number in 0..items {
            loop {
                match producer.enqueue(number.to_string()).await {
                    Ok(enqueued) => break drop(enqueued),
                    Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(50)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        producer.close().await.expect("put");
    });
    let server = fixture.server.connect_string();
    let mut consumers: Vec<_> = (0..CONSUMERS).map(|_| Elsewhere::start(TEST, &[&server, &fixture.path])).collect();
    let mut log = Log::default();
    let mut kills = 0;
    let every = items / 10;
    while log.acked.len() < items {
        for consumer in &mut consumers {
            while let Some(word) = consumer.word_within(Duration::from_millis(2)).await {
                log.note(&word);
            }
        }
        if log.acked.len() / every > kills && kills < 9 {
            let victim = fastrand::usize(..CONSUMERS);
            let next = Elsewhere::start(TEST, &[&server, &fixture.path]);
            let dead = std::mem::replace(&mut consumers[victim], next);
            dead.kill().await.iter().for_each(|word| log.note(word));
            kills += 1;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60) + Duration::from_millis(20) * items as u32,
            "{}",
            log.acked.len()
        );
        // An item whose ack succeeded, but was not reported before its consumer died, is no longer in the queue.
        if putting.is_finished() && fixture.nodes().await.is_empty() {
            break;
        }
    }
    within("all is put", SOON, putting).await.expect("put");
    for consumer in consumers {
        consumer.kill().await.iter().for_each(|word| log.note(word));
    }
    let (lost, twice) = ((0..items).filter(|item| !log.taken.contains_key(item)).count(), log.twice());
    println!(
        "{items} items, {kills} consumers killed: {lost} lost, {twice} came twice, {} acked twice, {:.0} items/s",
        log.acked.values().filter(|times| **times > 1).count(),
        items as f64 / begun.elapsed().as_secs_f64()
    );
    assert!(kills >= 5, "only {kills} were killed");
    assert!(fixture.nodes().await.is_empty(), "left: {:?}", fixture.nodes().await.len());
    assert_eq!(lost, 0);
    assert!(log.acked.values().all(|times| *times == 1), "an ack that was confirmed is one");
    // One at a time is in hand; the rest that was claimed was never handed out.
    assert!(twice <= kills, "{twice} came twice, and only {kills} had something in hand");
}

/// The reports of the consumers.
#[derive(Default)]
struct Log {
    taken: BTreeMap<usize, usize>,
    acked: BTreeMap<usize, usize>,
}

impl Log {
    fn note(&mut self, word: &str) {
        let (verb, item) = word.split_once(' ').expect("a verb and an item");
        let log = if verb == "acked" { &mut self.acked } else { &mut self.taken };
        *log.entry(item.parse().expect("a number")).or_default() += 1;
    }

    fn twice(&self) -> usize {
        self.taken.values().map(|times| times - 1).sum()
    }
}

/// In a process of its own, until it is killed.
async fn consume(server: &str, path: &str) {
    let client = connect(builder(server, SESSION)).await;
    let consumer = queue(&client, path).consumer();
    loop {
        let delivery = consumer.take().await.expect("an item");
        let item = delivery.item().clone();
        say(format_args!("taken {item}"));
        if delivery.ack().await.is_ok() {
            say(format_args!("acked {item}"));
        }
    }
}
