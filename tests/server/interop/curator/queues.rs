//! Items of Curator's queues that ours takes, and the other way round: with priorities, times and ids.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zookeeper_recipes::queue::{Consumer, DistributedQueue, Utf8};

use super::Curator;
use crate::fixture::Fixture;
use crate::interop::PATIENCE;
use crate::support::within;

/// Long enough that a put is over by then.
const DELAY: Duration = Duration::from_secs(3);

struct Both {
    queue: DistributedQueue<Utf8>,
    curator: Curator,
    path: String,
    fixture: Fixture,
}

impl Both {
    async fn start(name: &str) -> Both {
        let fixture = Fixture::new(name).await;
        let curator = Curator::queues(&fixture.server.connect_string()).await;
        let (client, path) = (fixture.client().await, fixture.path.clone());
        let queue = DistributedQueue::builder(&client, &path, Utf8).claims_path(format!("{path}-locks"));
        Both { queue: queue.build().expect("a queue"), curator, path, fixture }
    }

    async fn curator_puts(&mut self, kind: &str, key: impl std::fmt::Display, item: &str) {
        let command = format!("put {kind} {} {key} {item}", self.path);
        assert_eq!(self.curator.ask(&command).await, "ok");
    }

    /// Lets Curator consume so many items. Returns each, and when it was consumed, in milliseconds since 1970.
    async fn curator_takes(&mut self, kind: &str, count: usize) -> Vec<(String, u128)> {
        let command = format!("take {kind} {0} {0}-locks {count}", self.path);
        let answer = within("Curator takes", PATIENCE, self.curator.ask(&command)).await;
        let items = answer.split(' ').map(|item| item.split_once('@').expect("a time"));
        items.map(|(item, time)| (item.to_owned(), time.parse().expect("a number"))).collect()
    }

    async fn we_take(&self, count: usize) -> Vec<(String, u128)> {
        let consumer: Consumer<Utf8> = self.queue.consumer();
        let mut items = Vec::new();
        for _ in 0..count {
            let delivery = within("it is taken", PATIENCE, consumer.take()).await.expect("an item");
            items.push((delivery.item().clone(), millis(SystemTime::now())));
            delivery.ack().await.expect("acked");
        }
        consumer.close().await;
        items
    }

    async fn names(&self) -> Vec<String> {
        let mut names = self.fixture.client().await.children(&self.path).await.expect("the queue");
        names.sort_by_key(|name| name.split_at(name.len() - 10).1.to_owned());
        names
    }
}

fn millis(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

fn items(taken: &[(String, u128)]) -> Vec<&str> {
    taken.iter().map(|(item, _)| item.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn priorities_are_the_same_both_ways() {
    let mut both = Both::start("curator-priorities").await;
    let priorities = [5, -1, i32::MAX, 0, i32::MIN, 255, 5];
    let mut in_order: Vec<_> = priorities.into_iter().enumerate().map(|(nth, priority)| (priority, nth)).collect();
    in_order.sort_unstable();
    let expected: Vec<String> = in_order.iter().map(|(priority, nth)| format!("{priority}:{nth}")).collect();
    for ours in [false, true] {
        for (nth, priority) in priorities.into_iter().enumerate() {
            let item = format!("{priority}:{nth}");
            match ours {
                true => both.queue.producer().priority(priority).put(item).await.expect("put"),
                false => both.curator_puts("priority", priority, &item).await,
            }
        }
        let keys = both.names().await.into_iter().map(|name| name.split_at(name.len() - 10).0.to_owned());
        let keys: Vec<_> = keys.collect();
        let texts = ["100000005", "0FFFFFFFF", "17FFFFFFF", "100000000", "080000000", "1000000FF", "100000005"];
        assert_eq!(keys, texts.map(|text| format!("queue-{text}")), "ours: {ours}");
        let taken = match ours {
            true => both.curator_takes("priority", priorities.len()).await,
            false => both.we_take(priorities.len()).await,
        };
        assert_eq!(items(&taken), expected, "ours: {ours}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn times_are_the_same_both_ways_and_kept_to() {
    let mut both = Both::start("curator-delays").await;
    for ours in [false, true] {
        let begun = SystemTime::now();
        let (soon, later) = (begun + DELAY, begun + DELAY * 2);
        for (item, time) in [("later", later), ("soon", soon), ("now", begun)] {
            match ours {
                true => both.queue.producer().put_at(item, time).await.expect("put"),
                false => both.curator_puts("delay", millis(time), item).await,
            }
        }
        let taken = match ours {
            true => both.curator_takes("delay", 3).await,
            false => both.we_take(3).await,
        };
        assert_eq!(items(&taken), ["now", "soon", "later"], "ours: {ours}");
        let is_early = |nth: usize, time| taken[nth].1 < millis(time);
        assert!(!is_early(1, soon) && !is_early(2, later), "ours: {ours}: {taken:?}, begun at {begun:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn ids_are_the_same_both_ways_and_each_removes_what_the_other_put() {
    let mut both = Both::start("curator-ids").await;
    for ours in [false, true] {
        for (id, item) in [("z", "1"), ("my/i|d", "2"), ("z", "3"), ("a", "4")] {
            match ours {
                true => both.queue.producer().id(id).put(item).await.expect("put"),
                false => both.curator_puts("id", id, item).await,
            }
        }
        assert!(both.names().await[1].starts_with("queue-|my_i_d|"), "ours: {ours}");
        match ours {
            true => {
                let command = format!("remove {0} {0}-locks z", both.path);
                assert_eq!(both.curator.ask(&command).await, "2");
                assert_eq!(items(&both.curator_takes("id", 2).await), ["2", "4"]);
            }
            false => {
                assert_eq!(both.queue.remove("z").await, Ok(2));
                assert_eq!(both.queue.remove("my/i|d").await, Ok(1));
                assert_eq!(items(&both.we_take(1).await), ["4"]);
            }
        }
    }
}

/// An item that failed here has a record behind its data, which Curator does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn an_item_that_was_returned_with_a_delay_is_read_by_curator() {
    let mut both = Both::start("curator-retry").await;
    both.queue.producer().priority(3).put("a").await.expect("put");
    let consumer = both.queue.consumer();
    let delivery = within("it is taken", PATIENCE, consumer.take()).await.expect("an item");
    delivery.nack_after(Duration::from_secs(600)).await.expect("returned");
    consumer.close().await;
    // Curator does not keep to the delay.
    assert_eq!(items(&both.curator_takes("priority", 1).await), ["a"]);
}
