//! Takes items: each is removed from the queue after it was written.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use clap::Args;
use futures::StreamExt;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use zookeeper_recipes::queue::{Consumer, Delivery, DistributedQueue, Event, Events, RawBytes, is_due};
use zookeeper_recipes::{Client, ErrorKind};

use super::{check_exists, failed, of};
use crate::commands::content::Content;
use crate::connection::{path, time};
use crate::ending::{Ending, Status};
use crate::output::{self, Output, note};

/// How long a claim of what is there may take once the time is over.
const CLAIM: Duration = Duration::from_secs(5);
/// How long to wait before checking again whether something is there.
const PAUSE: Duration = Duration::from_millis(50);

/// What is taken.
#[derive(Args, Debug)]
pub struct Options {
    /// The path of the queue
    #[arg(value_parser = path)]
    path: String,
    /// How many items to take; more are taken if the last ones were put together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// How long to wait for all of them; 0s takes only what is there [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<Duration>,
    /// The directory of the claims, the same for all consumers: what Curator calls the lock path [default: PATH-claims]
    #[arg(long, value_name = "PATH", value_parser = path)]
    claims: Option<String>,
}

/// An item that was taken.
#[derive(Serialize)]
struct Taken<'a> {
    path: &'a str,
    #[serde(flatten)]
    content: Content,
}

/// A consumer, and until when it waits.
struct Taking<'a> {
    client: &'a Client,
    output: Output,
    path: &'a str,
    claims: String,
    consumer: Consumer<RawBytes>,
    deadline: Option<Instant>,
}

/// Takes items, and prints them.
pub async fn take(client: &Client, output: Output, options: &Options) -> Result<Ending, Ending> {
    let Options { path, count, wait, claims } = options;
    if let Err(missing) = check_exists(client, path).await {
        match missing {
            // A producer may create it meanwhile. A consumer creates nodes, which a mistyped path should not cause.
            Ending::Status(Status::No, Some(why)) if *wait != Some(Duration::ZERO) => {
                note(format_args!("no queue yet: {why}"));
            }
            missing => return Err(missing),
        }
    }
    let mut queue = DistributedQueue::builder(client, path, RawBytes);
    if let Some(claims) = claims {
        queue = queue.claims_path(claims);
    }
    let taking = Taking {
        client,
        output,
        path,
        claims: claims.clone().unwrap_or_else(|| format!("{path}-claims")),
        consumer: queue.build().map_err(of)?.consumer(),
        deadline: wait.and_then(|wait| Instant::now().checked_add(wait)),
    };
    let taken = tokio::select! {
        biased;
        never = note_events(path, taking.consumer.events()) => match never {},
        taken = taking.run(*count) => taken?,
    };
    if taken > 0 {
        return Ok(Ending::Success);
    }
    let wait = humantime::format_duration(wait.unwrap_or_default());
    Err(Ending::because(Status::No, format_args!("no item in {path} within {wait}")))
}

/// Notes what becomes of items that are not delivered: a queue that is not empty may have none to take.
async fn note_events(path: &str, mut events: Events) -> Infallible {
    let mut has_skipped = false;
    while let Some(event) = events.next().await {
        match event {
            Event::DeadLetter { item, reason, .. } => {
                note(format_args!("{path}/{item} is a dead letter now: {reason}"))
            }
            // Only once, because there may be many.
            Event::Skipped { node } if !std::mem::replace(&mut has_skipped, true) => {
                note(format_args!("{path}/{node} is left alone: it is in no format of an item"));
            }
            _ => {}
        }
    }
    std::future::pending().await
}

impl Taking<'_> {
    async fn run(&self, count: u64) -> Result<u64, Ending> {
        let taken = self.take(count).await;
        // Returns an item that was claimed for a call that gave up, before the session ends.
        self.consumer.close().await;
        taken
    }

    async fn take(&self, count: u64) -> Result<u64, Ending> {
        let mut taken = 0;
        while taken < count
            && let Some(delivery) = self.next().await?
        {
            taken += self.hand_over(delivery).await?;
        }
        Ok(taken)
    }

    /// Waits for the next item. Once the time is over it waits only for the claim of what is there already.
    async fn next(&self) -> Result<Option<Delivery<Vec<u8>>>, Ending> {
        let mut delivery = std::pin::pin!(self.consumer.take());
        let Some(deadline) = self.deadline else { return delivery.await.map(Some).map_err(of) };
        let (mut look, last) = (deadline, deadline.max(Instant::now()) + CLAIM);
        let mut was_empty = false;
        loop {
            tokio::select! {
                biased;
                delivery = &mut delivery => return delivery.map(Some).map_err(of),
                () = sleep_until(look) => {}
            }
            let is_empty = !self.has_free_items().await?;
            // Empty once may mean that this consumer has just claimed the item.
            if (is_empty && was_empty) || Instant::now() >= last {
                return Ok(None);
            }
            (was_empty, look) = (is_empty, Instant::now() + PAUSE);
        }
    }

    /// Returns whether there is an item that no consumer has claimed. One that was returned with a delay counts.
    async fn has_free_items(&self) -> Result<bool, Ending> {
        let claimed: HashSet<String> = self.children(&self.claims).await?.into_iter().collect();
        let names = self.children(self.path).await?;
        let now = SystemTime::now();
        Ok(names.iter().any(|name| is_due(name, now) && !claimed.contains(name)))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Ending> {
        match self.client.children(path).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            children => children.map_err(|error| failed(error.kind(), error)),
        }
    }

    /// Prints the items of a delivery, then removes them from the queue. Returns how many there were.
    async fn hand_over(&self, delivery: Delivery<Vec<u8>>) -> Result<u64, Ending> {
        let node = format!("{}/{}", self.path, delivery.name());
        let mut bytes = Vec::new();
        for item in delivery.items() {
            append(&mut bytes, self.output, &node, item)?;
        }
        if let Err(ending) = output::write(bytes).await {
            // The item is returned at once. If that fails, its claim ends with the session.
            let _ = delivery.release().await;
            return Err(ending);
        }
        let items = delivery.ack().await.map_err(|error| {
            let why = format!("{node} was printed, but may be delivered again: {error}");
            Ending::because(Status::of(error.kind()), why)
        })?;
        Ok(items.len() as u64)
    }
}

/// Appends the line of an item.
fn append(bytes: &mut Vec<u8>, output: Output, path: &str, item: &[u8]) -> Result<(), Ending> {
    if output.json {
        let taken = Taken { path, content: Content::of(item) };
        bytes.extend(serde_json::to_vec(&taken).map_err(Ending::failed)?);
    } else {
        bytes.extend(item);
    }
    bytes.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_a_line_of_its_bytes_or_a_value() {
        let mut bytes = Vec::new();
        append(&mut bytes, Output { json: false }, "/q/queue-0000000001", b"a\xff").expect("it is a line");
        append(&mut bytes, Output { json: true }, "/q/queue-0000000001", b"b").expect("it is a line");
        assert_eq!(bytes, b"a\xff\n{\"path\":\"/q/queue-0000000001\",\"item\":\"b\"}\n");
    }
}
