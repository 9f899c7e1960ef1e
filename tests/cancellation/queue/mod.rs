//! DistributedQueue: putting, taking, inspecting.

pub(crate) mod delivery;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{ClaimHandle, Delivery, DistributedQueue, Error, Producer, QueueHandler, Spawned, Utf8};

use crate::harness::{Run, cases};

cases! {
    put: "Producer::put", at least 90 drops, 70 faults;
    put_after: "Producer::put_after", at least 90 drops, 70 faults;
    put_at: "Producer::put_at", at least 90 drops, 70 faults;
    put_many: "Producer::put_many", at least 90 drops, 70 faults;
    put_timeout: "Producer::put_timeout", at least 90 drops, 70 faults;
    enqueue: "Producer::enqueue", at least 20 drops, 10 faults;
    enqueued: "Enqueued::await", at least 50 drops, 30 faults;
    flush: "Producer::flush", at least 50 drops, 30 faults;
    close_producer: "Producer::close", at least 50 drops, 30 faults;
    take: "Consumer::take", at least 90 drops, 70 faults;
    deliveries: "Deliveries::next", at least 90 drops, 70 faults;
    consume: "Consumer::consume", at least 90 drops, 70 faults;
    consume_until: "Consumer::consume_until", at least 90 drops, 70 faults;
    consume_spawned: "Consumer::consume", at least 90 drops, 70 faults;
    close_consumer: "Consumer::close", at least 30 drops, 15 faults;
    len: "DistributedQueue::len", at least 30 drops, 15 faults;
    peek: "DistributedQueue::peek", at least 50 drops, 30 faults;
    dead_letters: "DistributedQueue::dead_letters", at least 50 drops, 30 faults;
    retry: "DistributedQueue::retry", at least 40 drops, 20 faults;
    remove: "DistributedQueue::remove", at least 50 drops, 30 faults;
    drop_letter: "DistributedQueue::drop", at least 40 drops, 20 faults;
}

const PATH: &str = "/queue";
const CLAIMS: &str = "/queue-claims";
const PRODUCERS: &str = "/queue-producers";
pub(crate) const DEAD: &str = "/queue-dead";

fn queue(client: &Client) -> DistributedQueue<Utf8> {
    DistributedQueue::builder(client, PATH, Utf8).build().expect("a good path")
}

fn directories(run: &mut Run) {
    for path in [PATH, CLAIMS, PRODUCERS, DEAD] {
        run.directory(path);
    }
}

/// Lets another client put these items, and returns that client.
async fn filled(run: &mut Run, items: &[&str]) -> Client {
    let other = run.other_client().await;
    let producer = queue(&other).producer();
    for item in items {
        producer.put(*item).await.expect("put");
    }
    producer.close().await.expect("put");
    other
}

/// Takes and acks every item, so no consumer holds one back. Returns them in the order of their numbers.
async fn all_of(run: &Run, client: &Client) -> Vec<String> {
    let consumer = queue(client).consumer();
    let mut items = BTreeSet::new();
    while !(run.server().children(PATH).is_empty() && run.server().children(CLAIMS).is_empty()) {
        if let Ok(taken) = timeout(Duration::from_secs(30), consumer.take()).await {
            let delivery = taken.expect("it can be seen");
            // The number of an item is at the end of its name.
            let name = delivery.name().split_at(delivery.name().len() - 10).1.to_owned();
            items.extend(delivery.items().iter().map(|item| (name.clone(), item.clone())));
            delivery.ack().await.expect("acked");
        } else {
            // Other consumers have taken the items meanwhile.
            assert_eq!(run.server().children(CLAIMS), [""; 0], "a claim is left behind");
        }
    }
    consumer.close().await;
    items.into_iter().map(|(_, item)| item).collect()
}

/// Checks that an item in doubt is in the queue once or not at all, and that what is put after it is in the queue.
async fn is_put_once(run: &mut Run, producer: Producer<Utf8>, told: Option<Result<(), Error>>, items: &[&str]) {
    let client = run.other_client().await;
    producer.put("last").await.expect("put");
    producer.close().await.ok();
    let mut found = all_of(run, &client).await;
    assert_eq!(found.pop().as_deref(), Some("last"));
    assert!(found.is_empty() || found == items, "{found:?}");
    match told {
        Some(Ok(())) => assert_eq!(found, items),
        Some(Err(error)) => assert!(!run.is_calm(), "{error}"),
        None => assert!(run.is_polled() || found.is_empty()),
    }
}

async fn put(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let told = run.cut(producer.put("a")).await.done();
    is_put_once(run, producer, told, &["a"]).await;
}

async fn put_after(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let told = run.cut(producer.put_after("a", Duration::ZERO)).await.done();
    is_put_once(run, producer, told, &["a"]).await;
}

async fn put_at(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let now = run.server().time_of_day();
    let told = run.cut(producer.put_at("a", now)).await.done();
    is_put_once(run, producer, told, &["a"]).await;
}

async fn put_many(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let told = run.cut(producer.put_many(["a", "b"])).await.done();
    is_put_once(run, producer, told, &["a", "b"]).await;
}

async fn put_timeout(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let told = run.cut(producer.put_timeout("a", Duration::from_secs(8))).await.done();
    is_put_once(run, producer, told, &["a"]).await;
}

async fn enqueue(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let told = match run.cut(producer.enqueue("a")).await.done() {
        Some(Ok(enqueued)) => Some(enqueued.await),
        Some(Err(error)) => Some(Err(error)),
        None => None,
    };
    is_put_once(run, producer, told, &["a"]).await;
}

/// The item is put even if its future is not awaited.
async fn enqueued(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    let enqueued = producer.enqueue("a").await.expect("enqueued");
    let told = run.cut(enqueued).await.done();
    let outcome = told.unwrap_or_else(|| if run.is_calm() { Ok(()) } else { Err(Error::Closed { path: PATH.into() }) });
    is_put_once(run, producer, Some(outcome), &["a"]).await;
}

async fn flush(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    drop(producer.enqueue("a").await.expect("enqueued"));
    let flushed = run.cut(producer.flush()).await.done();
    assert!(!matches!(flushed, Some(Err(_))) || !run.keeps_its_session());
    producer.flush().await.ok();
    let told = flushed.or_else(|| run.keeps_its_session().then_some(Ok(())));
    // A dropped flush reveals no more than a failed one.
    let told = told.filter(Result::is_ok).unwrap_or_else(|| Err(Error::Closed { path: PATH.into() }));
    is_put_once(run, producer, Some(told), &["a"]).await;
}

async fn close_producer(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let producer = queue(&client).producer();
    drop(producer.enqueue("a").await.expect("enqueued"));
    let closed = run.cut(producer.close()).await.done();
    assert!(!matches!(closed, Some(Err(_))) || !run.keeps_its_session());
    // The producer is closed already, or closes now.
    producer.close().await.ok();
    if run.is_polled() {
        assert!(matches!(producer.put("late").await, Err(Error::Closed { .. })));
    }
    drop(producer);
    run.in_the_end("its node is gone", || run.server().children(PRODUCERS).is_empty()).await;
    let found = all_of(run, &client).await;
    assert!(found == ["a"] || !run.keeps_its_session() && found.is_empty(), "{found:?}");
}

/// An item that was claimed for it is delivered to the next `take`, or returned.
async fn take(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let consumer = queue(&client).consumer();
    if let Some(taken) = run.cut(consumer.take()).await.done() {
        assert!(!taken.expect("an item").items().is_empty());
    }
    if run.is_calm() {
        consumer.take().await.expect("an item").nack().await.expect("put back");
    }
    drop(consumer);
    assert_eq!(all_of(run, &other).await, ["a", "b"]);
}

async fn deliveries(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let mut deliveries = queue(&client).consumer().deliveries();
    let taken: Option<Option<Result<Delivery<String>, Error>>> = run.cut(deliveries.next()).await.done();
    drop(taken.flatten().map(|taken| taken.expect("an item")));
    drop(deliveries);
    assert_eq!(all_of(run, &other).await, ["a", "b"]);
}

/// The items that were handled.
type Handled = Arc<Mutex<BTreeSet<String>>>;

/// The item of a dropped handler is returned; a handled one is removed.
async fn consume(run: &mut Run) {
    let handled = Handled::default();
    consume_by(run, handler(&handled), &handled, false).await;
}

async fn consume_until(run: &mut Run) {
    let handled = Handled::default();
    consume_by(run, handler(&handled), &handled, true).await;
}

async fn consume_spawned(run: &mut Run) {
    let handled = Handled::default();
    consume_by(run, Spawned::new(handler(&handled)), &handled, false).await;
}

fn handler(handled: &Handled) -> impl QueueHandler<String> + use<> {
    let handled = Arc::clone(handled);
    move |item: String, _: ClaimHandle| {
        let handled = Arc::clone(&handled);
        async move {
            // Longer than the time after which the harness checks what a dropped call leaves behind.
            sleep(Duration::from_millis(150)).await;
            handled.lock().expect("no panic").insert(item);
            Ok::<(), std::io::Error>(())
        }
    }
}

/// Ends by a shutdown, or by closing the consumer.
async fn consume_by(run: &mut Run, handler: impl QueueHandler<String>, handled: &Handled, shuts_down: bool) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let consumer = queue(&client).consumer();
    let a_while = || sleep(Duration::from_millis(200));
    let work = async {
        if shuts_down {
            return consumer.consume_until(2, handler, a_while()).await;
        }
        let closing = async {
            a_while().await;
            consumer.close().await;
        };
        futures::future::join(consumer.consume(2, handler), closing).await.0
    };
    if let Some(worked) = run.cut(work).await.done() {
        worked.expect("closed");
    }
    assert_eq!(Arc::strong_count(handled), 1, "no handler goes on");
    drop(consumer);
    let mut found: BTreeSet<String> = all_of(run, &other).await.into_iter().collect();
    found.extend(handled.lock().expect("no panic").iter().cloned());
    assert_eq!(found.len(), 2, "{found:?}");
}

async fn close_consumer(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let consumer = queue(&client).consumer();
    drop(consumer.take().await.expect("an item"));
    run.cut(consumer.close()).await;
    if run.is_polled() {
        run.in_the_end("nothing is held", || run.server().children(CLAIMS).is_empty()).await;
        assert!(matches!(consumer.take().await, Err(Error::Closed { .. })));
    }
    drop(consumer);
    assert_eq!(all_of(run, &other).await, ["a", "b"]);
}

async fn len(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let queue = queue(&client);
    run.settled_watches().await;
    if let Some(len) = run.cut(queue.len()).await.done() {
        assert_eq!(len, Ok(2));
    }
    run.is_silent_if_calm().await;
    assert_eq!(queue.len().await, Ok(2));
    assert_eq!(all_of(run, &other).await, ["a", "b"]);
}

async fn peek(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = filled(run, &["a", "b"]).await;
    let queue = queue(&client);
    run.settled_watches().await;
    if let Some(first) = run.cut(queue.peek()).await.done() {
        assert_eq!(first, Ok(Some(vec!["a".to_owned()])));
    }
    run.is_silent_if_calm().await;
    assert_eq!(all_of(run, &other).await, ["a", "b"]);
}

/// Lets another client make a dead letter.
async fn with_a_dead_letter(run: &mut Run) -> Client {
    directories(run);
    let other = filled(run, &["a"]).await;
    let consumer = queue(&other).consumer();
    consumer.take().await.expect("an item").reject("by chance").await.expect("buried");
    consumer.close().await;
    run.settled_watches().await;
    other
}

async fn dead_letters(run: &mut Run) {
    let client = run.client().await;
    let other = with_a_dead_letter(run).await;
    let looking = queue(&client);
    if let Some(letters) = run.cut(looking.dead_letters()).await.done() {
        assert_eq!(letters.expect("an answer").len(), 1);
    }
    run.is_silent_if_calm().await;
    let letters = looking.dead_letters().await.expect("an answer");
    queue(&other).drop(&letters[0]).await.expect("dropped");
}

async fn retry(run: &mut Run) {
    let client = run.client().await;
    let other = with_a_dead_letter(run).await;
    let letter = queue(&other).dead_letters().await.expect("an answer").remove(0);
    let retrying = queue(&client);
    let done = run.cut(retrying.retry(&letter)).await.done();
    sleep(Duration::from_secs(12)).await;
    let (items, letters) = (run.server().children(PATH).len(), run.server().children(DEAD).len());
    assert_eq!(items + letters, 1, "one or the other");
    assert!(!matches!(done, Some(Ok(()))) || items == 1);
    assert!(run.is_polled() || letters == 1);
    if letters == 1 {
        queue(&other).drop(&letter).await.expect("dropped");
    }
    all_of(run, &other).await;
}

/// What was not removed is delivered, and what was removed is not.
async fn remove(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let producer = queue(&other).producer();
    producer.id("a").put("a").await.expect("put");
    producer.put("b").await.expect("put");
    producer.close().await.expect("put");
    let removing = queue(&client);
    let told = run.cut(removing.remove("a")).await.done();
    let left = all_of(run, &other).await;
    match told {
        Some(Ok(removed)) => assert_eq!((removed, left), (1, vec!["b".to_owned()])),
        Some(Err(error)) => assert!(!run.is_calm(), "{error}"),
        None => assert!(run.is_polled() || left == ["a", "b"], "{left:?}"),
    }
}

async fn drop_letter(run: &mut Run) {
    let client = run.client().await;
    let other = with_a_dead_letter(run).await;
    let letter = queue(&other).dead_letters().await.expect("an answer").remove(0);
    let dropping = queue(&client);
    if let Some(done) = run.cut(dropping.drop(&letter)).await.done() {
        done.expect("it is repeated");
        assert_eq!(run.server().children(DEAD), [""; 0]);
    }
    queue(&other).drop(&letter).await.expect("as often as one likes");
}
