//! Two producers, then a worker that crashes, then three workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::{join, try_join_all};
use recipes_examples::{Result, Stage, count, println, until};
use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Error, Utf8};

const PARCELS: usize = 100;
const WORKERS: [&str; 3] = ["alice", "bob", "carol"];
/// No worker can ship this one.
const DAMAGED: &str = "parcel 42";
const MAX_DELIVERIES: u32 = 2;

/// Which worker has shipped a parcel.
type Shipped = Mutex<BTreeMap<String, &'static str>>;

pub(crate) async fn play(stage: &Stage, path: &str) -> Result<()> {
    println!("Two producers and three workers at the queue {path}, on {stage}\n");
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).max_deliveries(MAX_DELIVERIES).build()?;
    let producers = [queue.producer(), queue.producer()];
    for number in 0..PARCELS {
        // Not awaited: `close` waits for all puts.
        drop(producers[number % 2].enqueue(format!("parcel {number}")).await?);
    }
    for producer in &producers {
        producer.close().await?;
    }
    let first = queue.peek().await?.unwrap_or_default().join(", ");
    println!("{} are in the queue; the first one is {first}", count(queue.len().await?, "parcel", "parcels"));
    crash(stage, path).await?;
    let shipped = Shipped::default();
    until(try_join_all(WORKERS.map(|worker| work(stage, path, worker, &shipped)))).await??;
    tell(&queue, &shipped.into_inner().unwrap_or_else(PoisonError::into_inner)).await
}

/// Lets a worker take a parcel, and closes its client before the parcel is shipped and acknowledged.
async fn crash(stage: &Stage, path: &str) -> Result<()> {
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).build()?;
    let delivery = queue.consumer().take().await?;
    println!("dave takes {}, and his client closes before it is shipped", delivery.item());
    client.close().await?;
    delivery.lost().await;
    println!("dave asks: is it still his? {}", if delivery.is_held() { "yes" } else { "no" });
    match delivery.ack().await {
        Ok(_) => Err("a late ack was accepted".into()),
        Err(error) => {
            println!("dave acks too late: {error}");
            Ok(())
        }
    }
}

/// Ships parcels until the queue is empty.
async fn work(stage: &Stage, path: &str, worker: &'static str, shipped: &Shipped) -> Result<()> {
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).max_deliveries(MAX_DELIVERIES).build()?;
    let consumer = queue.consumer();
    let ship = |parcel: String, claim: ClaimHandle| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if parcel == DAMAGED {
            println!("{worker:>6} cannot ship {parcel}, delivery {}", claim.attempt());
            return Err("it is damaged");
        }
        shipped.lock().unwrap_or_else(PoisonError::into_inner).insert(parcel, worker);
        Ok(())
    };
    let stop = async {
        while queue.len().await? > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        consumer.close().await;
        Ok::<(), Error>(())
    };
    let (worked, stopped) = join(consumer.consume(4, ship), stop).await;
    worked?;
    stopped?;
    Ok(())
}

/// Prints the sums, and checks that each parcel is shipped or a dead letter.
async fn tell(queue: &DistributedQueue<Utf8>, shipped: &BTreeMap<String, &'static str>) -> Result<()> {
    for worker in WORKERS {
        let parcels = shipped.values().filter(|name| **name == worker).count();
        println!("{worker:>6} has shipped {}", count(parcels, "parcel", "parcels"));
    }
    let letters = queue.dead_letters().await?;
    let mut dead = Vec::new();
    for letter in &letters {
        let deliveries = count(letter.attempts as usize, "delivery", "deliveries");
        let parcel = letter.items(&Utf8)?.join(", ");
        println!("{parcel} is a dead letter: after {deliveries}, {}", letter.reason);
        queue.drop(letter).await?;
        dead.push(parcel);
    }
    let lost = PARCELS.saturating_sub(shipped.len() + dead.len());
    println!(
        "{} put, {} shipped, {}, {lost} lost.",
        count(PARCELS, "parcel", "parcels"),
        shipped.len(),
        count(dead.len(), "dead letter", "dead letters")
    );
    if lost > 0 {
        return Err("a parcel was lost".into());
    }
    if dead != [DAMAGED] || shipped.len() != PARCELS - 1 {
        return Err(format!("the dead letters should be {DAMAGED} alone: {dead:?}").into());
    }
    Ok(())
}
