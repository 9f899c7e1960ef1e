//! A queue with `DistributedQueue`: producers and workers, one of whom crashes in the middle of its work.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Result, Stage, until};
use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Utf8};

/// A queue with DistributedQueue.
#[derive(Parser, Debug)]
#[command(name = "distributed_queue")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the queue
    #[arg(long, default_value = "/examples/distributed-queue")]
    path: String,
}

const PARCELS: usize = 100;
const WORKERS: [&str; 3] = ["alice", "bob", "carol"];
/// Nobody can ship this one.
const DAMAGED: &str = "parcel 42";

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    stage.play(scenario(&stage, &stage.own_path(&options.path))).await
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Two producers and three workers at the queue {path}, on {stage}\n");
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).max_deliveries(2).start()?;
    let producers = [queue.producer(), queue.producer()];
    for number in 0..PARCELS {
        // On its way in order; close waits for all of them.
        drop(producers[number % 2].enqueue(format!("parcel {number}")).await?);
    }
    for producer in &producers {
        producer.close().await?;
    }
    println!(
        "{PARCELS} parcels are in the queue, first in the line: {}",
        queue.peek().await?.unwrap_or_default().join(", ")
    );
    crash(stage, path).await?;
    let shipped = Mutex::new(BTreeMap::new());
    until(futures::future::try_join_all(WORKERS.map(|worker| work(stage, path, worker, &shipped)))).await??;
    tell(&queue, &shipped.into_inner().unwrap_or_else(PoisonError::into_inner)).await
}

/// One who takes a parcel, and whose client goes before it is shipped: nothing is acked.
async fn crash(stage: &Stage, path: &str) -> Result<()> {
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).start()?;
    let delivery = queue.consumer().take().await?;
    println!("dave takes {}, and his client is gone before it is shipped", delivery.item());
    client.close().await?;
    delivery.lost().await;
    println!("dave knows: is it still his? {}", if delivery.is_held() { "yes" } else { "no" });
    match delivery.ack().await {
        Ok(_) => Err("an ack too late was let through".into()),
        Err(error) => {
            println!("dave acks too late: {error}");
            Ok(())
        }
    }
}

/// One worker, until the queue is empty.
async fn work(
    stage: &Stage,
    path: &str,
    worker: &'static str,
    shipped: &Mutex<BTreeMap<String, &'static str>>,
) -> Result<()> {
    let client = stage.connect().await?;
    let queue = DistributedQueue::builder(&client, path, Utf8).max_deliveries(2).start()?;
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
        Ok::<(), zookeeper_recipes::queue::Error>(())
    };
    let (worked, stopped) = futures::future::join(consumer.consume(4, ship), stop).await;
    worked?;
    stopped?;
    Ok(())
}

/// Sums up.
async fn tell(queue: &DistributedQueue<Utf8>, shipped: &BTreeMap<String, &'static str>) -> Result<()> {
    for worker in WORKERS {
        println!("{worker:>6} has shipped {}", shipped.values().filter(|name| **name == worker).count());
    }
    let letters = queue.dead_letters().await?;
    for letter in &letters {
        println!("dead letter {}: after {} deliveries, {}", letter.item, letter.attempts, letter.reason);
        queue.discard(letter).await?;
    }
    let lost = PARCELS.saturating_sub(shipped.len() + letters.len());
    let dead = letters.len();
    println!("{PARCELS} parcels put, {} shipped, {dead} dead letter, {lost} lost.", shipped.len());
    if lost > 0 { Err("a parcel was lost".into()) } else { Ok(()) }
}
