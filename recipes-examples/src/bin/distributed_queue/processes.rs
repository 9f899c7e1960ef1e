//! A producer, a worker, or the operator, each in a process of its own.

use std::time::Duration;

use futures::StreamExt;
use recipes_examples::{Asked, Result, Stage, count, println, tell_connection};
use tokio::time::sleep;
use zookeeper_recipes::queue::{Consumer, Delivery, DistributedQueue, Error, Event, Utf8};
use zookeeper_recipes::{Client, ErrorKind};

use crate::DeadLetters;

/// A producer puts two parcels in the time in which a worker ships one: with one worker the queue grows.
const BETWEEN_PUTS: Duration = Duration::from_millis(500);
const SHIPPING: Duration = Duration::from_secs(1);
/// How long a worker leaves a parcel alone after it failed to ship it; other workers may try at once.
const BEFORE_RETRY: Duration = Duration::from_secs(1);
const MAX_DELIVERIES: u32 = 3;
/// One in this many parcels is damaged.
const DAMAGED_EACH: usize = 10;
const DAMAGED: &str = " (damaged)";

fn queue(client: &Client, path: &str) -> Result<DistributedQueue<Utf8>> {
    Ok(DistributedQueue::builder(client, path, Utf8).max_deliveries(MAX_DELIVERIES).build()?)
}

/// Puts parcels until it is asked to end.
pub(crate) async fn produce(stage: &Stage, path: &str, id: &str, asked: Asked) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    let queue = queue(&client, path)?;
    let producer = queue.producer();
    println!("{id}: puts parcels into the queue {path} (Ctrl-C to end)");
    let mut put = 0;
    for number in 1.. {
        let parcel = format!("{id}-{number}{}", if number % DAMAGED_EACH == 0 { DAMAGED } else { "" });
        match producer.put(parcel.as_str()).await {
            Ok(()) => {
                put += 1;
                println!("{id}: put {parcel}; {}", length(&queue).await);
            }
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                println!("{id}: {error}: {parcel} is in the queue once, or not at all");
            }
            Err(error @ Error::Closed { .. }) => return Err(error.into()),
            Err(error) => println!("{id}: {parcel} is not in the queue: {error}"),
        }
        tokio::select! {
            biased;
            () = asked.clone() => break,
            () = sleep(BETWEEN_PUTS) => {}
        }
    }
    producer.close().await?;
    println!("{id}: put {}", count(put, "parcel", "parcels"));
    Ok(())
}

async fn length(queue: &DistributedQueue<Utf8>) -> String {
    match queue.len().await {
        Ok(length) => format!("the queue holds {}", count(length, "parcel", "parcels")),
        Err(error) => error.to_string(),
    }
}

/// Ships parcels, one after another, until it is asked to end; the one in hand is still shipped.
pub(crate) async fn work(stage: &Stage, path: &str, id: &str, asked: Asked) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    let consumer = queue(&client, path)?.consumer();
    println!("{id}: ships parcels from the queue {path} (Ctrl-C to end)");
    let mut shipped = 0;
    let shipping = async {
        loop {
            let taken = tokio::select! {
                biased;
                () = asked.clone() => break,
                taken = consumer.take() => taken,
            };
            match taken {
                Ok(delivery) => shipped += usize::from(ship(id, delivery).await),
                Err(error @ Error::Closed { .. }) => return Err(error),
                Err(error) => {
                    println!("{id}: {error}");
                    sleep(BEFORE_RETRY).await;
                }
            }
        }
        // Waits until everything is settled.
        consumer.close().await;
        Ok(())
    };
    tokio::select! {
        biased;
        () = tell_events(id, &consumer) => {}
        ended = shipping => ended?,
    }
    println!("{id}: shipped {}", count(shipped, "parcel", "parcels"));
    Ok(())
}

/// Ships one parcel. Returns true if it is shipped and out of the queue.
async fn ship(id: &str, delivery: Delivery<String>) -> bool {
    let (parcel, attempt) = (delivery.item().clone(), delivery.attempt());
    println!("{id}: has {parcel}, delivery {attempt} of {MAX_DELIVERIES}");
    // Once the claim is lost, the work is dropped at the next await that has to wait.
    if let Err(lost) = delivery.run(sleep(SHIPPING)).await {
        println!("{id}: {lost}: I stop, and leave {parcel} to the next worker");
        return false;
    }
    let settled = if !parcel.ends_with(DAMAGED) {
        delivery.ack().await.map(|_| println!("{id}: shipped {parcel}")).map(|()| true)
    } else if attempt < MAX_DELIVERIES {
        println!("{id}: cannot ship {parcel}, and returns it");
        delivery.nack_after(BEFORE_RETRY).await.map(|()| false)
    } else {
        println!("{id}: cannot ship {parcel}, and gives it up");
        delivery.reject("it is damaged").await.map(|()| false)
    };
    settled.unwrap_or_else(|error| {
        println!("{id}: {error}");
        false
    })
}

/// Prints what no call returns, such as a dead letter of a parcel whose workers crashed.
async fn tell_events(id: &str, consumer: &Consumer<Utf8>) {
    let mut events = consumer.events();
    while let Some(event) = events.next().await {
        match event {
            Event::DeadLetter { item, attempts, reason } => {
                let deliveries = count(attempts as usize, "delivery", "deliveries");
                println!("{id}: {item} is a dead letter after {deliveries}: {reason}");
            }
            Event::Unsettled { item, error } => println!("{id}: {item} is not settled: {error}"),
            Event::Failed { error } => println!("{id}: {error}"),
            other => println!("{id}: {other:?}"),
        }
    }
}

/// Lists the dead letters, retries them, or drops them.
pub(crate) async fn dead_letters(stage: &Stage, path: &str, action: DeadLetters) -> Result<()> {
    let client = stage.connect().await?;
    let queue = queue(&client, path)?;
    let letters = queue.dead_letters().await?;
    println!("{} at {path}", count(letters.len(), "dead letter", "dead letters"));
    for letter in &letters {
        let parcel = letter.items(&Utf8)?.join(", ");
        let deliveries = count(letter.attempts as usize, "delivery", "deliveries");
        println!("{parcel}: after {deliveries}, {}", letter.reason);
        match action {
            DeadLetters::List => {}
            DeadLetters::Retry => {
                queue.retry(letter).await?;
                println!("{parcel}: is back in the queue, as a new parcel");
            }
            DeadLetters::Drop => {
                queue.drop(letter).await?;
                println!("{parcel}: is dropped");
            }
        }
    }
    Ok(())
}
