//! Several consumers of one queue.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::ClaimHandle;
use zookeeper_recipes::testing::{Operation, Target, TestingServer};

use super::fixture::{Queue, acked, at_rest, filled, make_directories, queue, setup, taken};
use crate::fixture::{T, within};

const ITEMS: usize = 1_000;

/// Servers at such a distance, and so many clients.
async fn far_away(millis: (u64, u64), clients: usize) -> (TestingServer, Vec<Client>) {
    let latency = Duration::from_millis(millis.0)..=Duration::from_millis(millis.1);
    let server = TestingServer::builder().seed(7).latency(latency).start();
    make_directories(&server);
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(server.client().await.expect("a client"));
    }
    (server, all)
}

/// The items that each consumer has taken, when all are taken, in the order of the claims.
async fn shared_out(queues: &[Queue], handling: fn(&mut fastrand::Rng) -> Duration) -> Vec<Vec<(i64, usize)>> {
    let consumers: Vec<_> = queues.iter().map(Queue::consumer).collect();
    // Until their leases are proven.
    sleep(T).await;
    let shares = join_all(consumers.iter().enumerate().map(|(number, consumer)| async move {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut items = Vec::new();
        while let Ok(taken) = timeout(T, consumer.take()).await {
            let delivery = taken.expect("an item");
            items.push((delivery.fencing_token(), delivery.item().parse().expect("a number")));
            sleep(handling(&mut random)).await;
            delivery.ack().await.expect("acked");
        }
        items
    }));
    within("all are taken", T * 100, shares).await
}

/// By how many later ones an item was claimed too late, at most.
fn most_overtaken(claims: &[(i64, usize)]) -> usize {
    let overtaken = |at: usize| claims[..at].iter().filter(|(_, earlier)| *earlier > claims[at].1).count();
    (0..claims.len()).map(overtaken).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn four_consumers_share_a_thousand_items_nearly_in_order_for_little_more_than_three_requests_each() {
    type Handling = fn(&mut fastrand::Rng) -> Duration;
    // With nothing to do, each has a claim on its way almost all of the time.
    let handlings: [(&str, u64, Handling); 3] = [
        ("nothing", 3_600, |_| Duration::ZERO),
        ("up to 10 ms", 3_400, |random| Duration::from_micros(random.u64(..10_000))),
        ("up to 100 ms", 3_200, |random| Duration::from_micros(random.u64(..100_000))),
    ];
    for (millis, (name, most, handling)) in
        [(1, 1), (1, 3)].into_iter().flat_map(|millis| handlings.map(|h| (millis, h)))
    {
        let (server, clients) = far_away(millis, 4).await;
        let producer = filled(&clients[0], &[]).await;
        for number in 0..ITEMS {
            drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
        }
        producer.flush().await.expect("put");
        server.clear_records();
        let count = |operation| server.count(Target::ALL, operation);
        let begun = Instant::now();
        let queues: Vec<Queue> = clients.iter().map(queue).collect();
        let shares = shared_out(&queues, handling).await;
        let took = begun.elapsed() - 2 * T;
        let mut claims = shares.concat();
        claims.sort_unstable();
        let mut times = BTreeMap::new();
        claims.iter().for_each(|(_, item)| *times.entry(item).or_insert(0) += 1);
        assert_eq!(times.len(), ITEMS);
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        let (reads, transactions) = (count(Operation::GetData), count(Operation::Multi));
        let lists = count(Operation::List) + count(Operation::AddWatch);
        let (requests, overtaken) = (reads + transactions + lists, most_overtaken(&claims));
        let shares: Vec<_> = shares.iter().map(Vec::len).collect();
        println!(
            "{millis:?} ms away, handling takes {name}: {requests} requests ({reads} reads, {transactions} \
             transactions) for {ITEMS} items in {took:?}; shares {shares:?}; an item was overtaken by {overtaken} at \
             most"
        );
        assert!(shares.iter().all(|share| *share > ITEMS / 10), "{shares:?}");
        assert!(requests <= most, "{requests} requests");
        assert!(overtaken <= 30, "by {overtaken}");
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn four_consumers_with_many_handlers_each_do_no_more_than_one_would() {
    let (server, clients) = far_away((1, 3), 4).await;
    let producer = filled(&clients[0], &[]).await;
    let (told, mut handled) = tokio::sync::mpsc::unbounded_channel();
    let working: Vec<_> = clients
        .iter()
        .map(|client| {
            let (consumer, told) = (queue(client).consumer(), told.clone());
            tokio::spawn(async move {
                let handler = |_: String, _: ClaimHandle| {
                    told.send(()).expect("the test listens");
                    std::future::ready(Ok::<_, std::convert::Infallible>(()))
                };
                consumer.consume(32, handler).await
            })
        })
        .collect();
    sleep(T).await;
    server.clear_records();
    for number in 0..2 * ITEMS {
        drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
    }
    let begun = Instant::now();
    for _ in 0..2 * ITEMS {
        within("all are handled", T * 10, handled.recv()).await.expect("handlers are there");
    }
    let took = begun.elapsed();
    at_rest(&server, 0).await;
    let (reads, transactions) =
        (server.count(Target::ALL, Operation::GetData), server.count(Target::ALL, Operation::Multi));
    let requests = (reads + transactions) as f64 / (2 * ITEMS) as f64;
    println!(
        "{requests} requests an item ({reads} reads, {transactions} transactions), {took:?} for {} items",
        2 * ITEMS
    );
    assert!(requests <= 4.5, "{requests}");
    working.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_idle_consumers_send_little_when_one_item_comes() {
    const CONSUMERS: usize = 100;
    let (server, clients) = far_away((1, 3), CONSUMERS).await;
    let producer = filled(&clients[0], &[]).await;
    let queues: Vec<Queue> = clients.iter().map(queue).collect();
    let consumers: Vec<_> = queues.iter().map(Queue::consumer).collect();
    let (told, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let working: Vec<_> = consumers
        .into_iter()
        .map(|consumer| {
            let told = told.clone();
            tokio::spawn(async move {
                while let Ok(delivery) = consumer.take().await {
                    told.send(Instant::now()).expect("the test listens");
                    delivery.ack().await.expect("acked");
                }
            })
        })
        .collect();
    sleep(T).await;
    let (mut slowest, mut waited) = (Duration::ZERO, Duration::ZERO);
    for round in 0..200 {
        if round == 100 {
            server.clear_records();
            (slowest, waited) = (Duration::ZERO, Duration::ZERO);
        }
        let put = Instant::now();
        producer.put("a").await.expect("put");
        let time = within("it is taken", T, taken.recv()).await.expect("a consumer") - put;
        (slowest, waited) = (slowest.max(time), waited + time);
        sleep(Duration::from_millis(100)).await;
    }
    let sent: u64 =
        [Operation::GetData, Operation::Multi, Operation::List].map(|of| server.count(Target::ALL, of)).iter().sum();
    let each = sent as f64 / 100.0 / CONSUMERS as f64;
    println!("{each} requests an idle consumer and item; {:?} to the claim, at most {slowest:?}", waited / 100);
    assert!(each <= 1.2, "{each}");
    working.iter().for_each(tokio::task::JoinHandle::abort);
}

/// None of them knows yet how many there are.
#[tokio::test(start_paused = true)]
async fn a_hundred_fresh_consumers_send_little_for_the_first_fifty_items() {
    const CONSUMERS: usize = 100;
    const ITEMS: usize = 50;
    for (way, apart) in [("one by one", Duration::from_millis(200)), ("at once", Duration::ZERO)] {
        let (server, clients) = far_away((1, 3), CONSUMERS).await;
        let producer = filled(&clients[0], &[]).await;
        let consumers: Vec<_> = clients.iter().map(|client| queue(client).consumer()).collect();
        let (told, mut acked) = tokio::sync::mpsc::unbounded_channel();
        let working: Vec<_> = consumers
            .into_iter()
            .map(|consumer| {
                let told = told.clone();
                tokio::spawn(async move {
                    while let Ok(delivery) = consumer.take().await {
                        delivery.ack().await.expect("acked");
                        told.send(()).expect("the test listens");
                    }
                })
            })
            .collect();
        sleep(T).await;
        server.clear_records();
        let count = |of| server.count(Target::ALL, of);
        let mut first = 0;
        for number in 0..ITEMS {
            drop(producer.enqueue("a").await.expect("enqueued"));
            sleep(apart).await;
            if number == 0 {
                first = count(Operation::GetData) + count(Operation::Multi);
            }
        }
        for _ in 0..ITEMS {
            within("all are taken", T, acked.recv()).await.expect("a consumer");
        }
        let (reads, transactions) = (count(Operation::GetData), count(Operation::Multi));
        let each = (reads + transactions) as f64 / ITEMS as f64;
        println!("{way}: {each} requests an item ({reads} reads, {transactions} transactions), {first} for the first");
        assert!(each <= 1.2 * CONSUMERS as f64, "{each}");
        working.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Each time an item becomes due, the timers of all of them fire at once.
#[tokio::test(start_paused = true)]
async fn a_hundred_idle_consumers_send_little_when_an_item_becomes_due() {
    const CONSUMERS: usize = 100;
    const ROUNDS: usize = 40;
    let delay = Duration::from_millis(200);
    for fails in [false, true] {
        let (server, clients) = far_away((1, 3), CONSUMERS).await;
        let producer = filled(&clients[0], &[]).await;
        let (told, mut acked) = tokio::sync::mpsc::unbounded_channel();
        let working: Vec<_> = clients
            .iter()
            .map(|client| {
                let (consumer, told) = (queue(client).consumer(), told.clone());
                tokio::spawn(async move {
                    while let Ok(delivery) = consumer.take().await {
                        if fails && delivery.attempt() == 1 {
                            delivery.nack_after(delay).await.expect("returned");
                        } else {
                            delivery.ack().await.expect("acked");
                            told.send(()).expect("the test listens");
                        }
                    }
                })
            })
            .collect();
        sleep(T).await;
        server.clear_records();
        for _ in 0..ROUNDS {
            producer.put_after("a", delay).await.expect("put");
            within("it is taken", T, acked.recv()).await.expect("a consumer");
        }
        let sent: u64 = [Operation::GetData, Operation::Multi].map(|of| server.count(Target::ALL, of)).iter().sum();
        let times = if fails { 2 } else { 1 };
        let each = sent as f64 / (ROUNDS * CONSUMERS * times) as f64;
        println!("fails: {fails}: {each} requests an idle consumer and delivery");
        // Some of them read an item that was returned with a delay.
        assert!(each <= if fails { 0.8 } else { 0.6 }, "{each}");
        working.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_to_a_consumer_that_takes_nothing_more_is_taken_all_the_same() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["0", "1", "2", "3", "4", "5", "6"]).await;
    let busy = taken(&queue(&two).consumer()).await;
    // It meets the other one, and leaves items to it; nothing is settled, so nothing is told.
    let consumer = queue(&one).consumer();
    let mut held = Vec::new();
    for _ in 1..7 {
        held.push(taken(&consumer).await);
    }
    for delivery in held {
        acked(delivery).await;
    }
    acked(busy).await;
    at_rest(&server, 0).await;
}
