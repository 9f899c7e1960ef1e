//! `DistributedQueue`.

use std::convert::Infallible;
use std::future::ready;
use std::time::Instant;

use futures::StreamExt;
use futures::future::join_all;
use tokio::sync::watch;
use zookeeper_recipes::queue::{ClaimHandle, Consumer, DistributedQueue, Producer, RawBytes};

use super::{Column, connect, timed};
use crate::bare::queue::clearing;
use crate::items::IN_HAND;

async fn queue(addr: &str, dir: &str) -> DistributedQueue<RawBytes> {
    DistributedQueue::builder(&connect(addr).await, dir, RawBytes).prefetch(IN_HAND).build().expect("a queue")
}

async fn producer(addr: &str, dir: &str) -> Producer<RawBytes> {
    queue(addr, dir).await.producer()
}

async fn put_all(producer: &Producer<RawBytes>, items: usize) {
    for _ in 0..items {
        drop(producer.enqueue(*b"payload").await.expect("on its way"));
    }
    producer.flush().await.expect("put");
}

/// Takes items until none is left.
async fn take(consumer: Consumer<RawBytes>, left: watch::Sender<usize>) {
    let mut none_left = left.subscribe();
    let work = consumer.deliveries().for_each_concurrent(IN_HAND, async |taken| {
        taken.expect("an item").ack().await.expect("acknowledged");
        // Only the last item wakes the waiting task.
        left.send_if_modified(|left| {
            *left -= 1;
            *left == 0
        });
    });
    tokio::select! {
        biased;
        none = none_left.wait_for(|left| *left == 0) => drop(none.expect("a sender is here")),
        () = work => {}
    }
}

async fn take_all(consumers: Vec<Consumer<RawBytes>>, items: usize) {
    let left = watch::Sender::new(items);
    let work = consumers.into_iter().map(|consumer| tokio::spawn(take(consumer, left.clone())));
    join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
}

pub(crate) fn put_one_at_a_time(addr: &str, dir: &str, items: usize) -> Column {
    let column = Column::on_tokio(producer(addr, dir), move |producer| async move {
        timed(items as u64, || async { producer.put(*b"payload").await.expect("put") }).await
    });
    column.afterwards(clearing(addr, dir))
}

pub(crate) fn put_at_once(addr: &str, dir: &str, items: usize) -> Column {
    let column = Column::on_tokio(producer(addr, dir), move |producer| async move {
        let begun = Instant::now();
        put_all(&producer, items).await;
        vec![begun.elapsed() / items as u32]
    });
    column.afterwards(clearing(addr, dir))
}

/// Takes items with handlers that do nothing, `in_hand` at a time. The puts are not measured.
pub(crate) fn take_in_hands(addr: &str, dir: &str, items: usize, in_hand: usize) -> Column {
    let players = async {
        let queue = DistributedQueue::builder(&connect(addr).await, dir, RawBytes).build().expect("a queue");
        (queue.producer(), queue.consumer())
    };
    Column::on_tokio(players, move |(producer, consumer)| async move {
        put_all(&producer, items).await;
        let left = watch::Sender::new(items);
        let mut none_left = left.subscribe();
        let handler = |_: Vec<u8>, _: ClaimHandle| {
            left.send_modify(|left| *left -= 1);
            ready(Ok::<_, Infallible>(()))
        };
        let begun = Instant::now();
        let done = async { drop(none_left.wait_for(|left| *left == 0).await.expect("a sender is here")) };
        consumer.consume_until(in_hand, handler, done).await.expect("handled");
        vec![begun.elapsed() / items as u32]
    })
}

/// Lets consumers, with a client each, compete for the items.
pub(crate) fn put_and_take(addr: &str, dir: &str, items: usize, consumers: usize) -> Column {
    let players = async {
        let consumers = join_all((0..consumers).map(|_| queue(addr, dir))).await;
        let consumers: Vec<Consumer<RawBytes>> = consumers.iter().map(DistributedQueue::consumer).collect();
        (producer(addr, dir).await, consumers)
    };
    Column::on_tokio(players, move |(producer, consumers)| async move {
        let begun = Instant::now();
        put_all(&producer, items).await;
        take_all(consumers, items).await;
        vec![begun.elapsed() / items as u32]
    })
}
