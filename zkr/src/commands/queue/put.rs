//! Puts items: from the arguments, or from the standard input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{Error, Producer, RawBytes};

use super::{of, open};
use crate::connection::{path, time};
use crate::ending::{Ending, Status};
use crate::output::{Output, count};

/// What is put.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("setting").args(["after", "priority", "id"])))]
pub struct Options {
    /// The path of the queue
    #[arg(value_parser = path)]
    path: String,
    /// The items [default: the lines of the standard input]
    #[arg(value_name = "ITEM")]
    items: Vec<OsString>,
    /// Deliver the items only when this time is over, such as 30s or 2h, by the clock of the consumer's machine
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: Option<Duration>,
    /// Deliver the items before those with a higher number; those without one have 0, and it may be negative
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = priority)]
    priority: Option<i32>,
    /// An id for all the items, by which `zkr queue remove` finds them: at most 255 bytes
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
}

impl Options {
    /// Returns the producer that puts the items as was asked.
    fn set(&self, producer: Producer<RawBytes>) -> Producer<RawBytes> {
        match (self.after, self.priority, &self.id) {
            (Some(delay), ..) => producer.after(delay),
            (_, Some(priority), _) => producer.priority(priority),
            (.., Some(id)) => producer.id(id),
            (None, None, None) => producer,
        }
    }
}

/// Parses a priority.
fn priority(value: &str) -> Result<i32, String> {
    value.parse().map_err(|_| format!("it must be a whole number from {} to {}", i32::MIN, i32::MAX))
}

/// How many items were put.
#[derive(Serialize)]
struct Put {
    path: String,
    put: usize,
}

/// Puts the items, in order.
pub async fn put(client: &Client, output: Output, options: Options) -> Result<Ending, Ending> {
    let producer = options.set(open(client, &options.path)?.producer());
    let Options { path, items, .. } = options;
    let mut enqueued = 0;
    let fed = match items[..] {
        [] => feed_lines(&producer, &mut enqueued).await,
        _ => feed(&producer, items, &mut enqueued).await,
    };
    // Even after a failure, the items that were enqueued before are put.
    producer.close().await.map_err(|error| not_all(error, enqueued))?;
    if let Err(ending) = fed {
        return Err(after(ending, enqueued));
    }
    output.print(format_args!("{} put", count(enqueued, "item", "items")), &Put { path, put: enqueued }).await?;
    Ok(Ending::Success)
}

async fn feed(producer: &Producer<RawBytes>, items: Vec<OsString>, enqueued: &mut usize) -> Result<(), Ending> {
    for item in items {
        // Not awaited: closing the producer waits for all of them.
        drop(producer.enqueue(item.into_vec()).await.map_err(of)?);
        *enqueued += 1;
    }
    Ok(())
}

async fn feed_lines(producer: &Producer<RawBytes>, enqueued: &mut usize) -> Result<(), Ending> {
    let mut lines = BufReader::new(tokio::io::stdin()).split(b'\n');
    while let Some(line) = lines.next_segment().await.map_err(Ending::failed)? {
        drop(producer.enqueue(line).await.map_err(of)?);
        *enqueued += 1;
    }
    Ok(())
}

/// Returns the ending after some puts have failed. Items with an unknown outcome may be in the queue.
fn not_all(error: Error, enqueued: usize) -> Ending {
    let failures = if let Error::Unawaited { total, .. } = &error { *total } else { enqueued };
    let put = enqueued.saturating_sub(failures);
    let why = format!("{error}; {put} of {} are certainly in the queue", count(enqueued, "item", "items"));
    Ending::because(Status::of(error.kind()), why)
}

/// Adds what was put before the failure, so that the caller can continue there.
fn after(ending: Ending, enqueued: usize) -> Ending {
    match (ending, enqueued) {
        (Ending::Status(status, Some(why)), 0) => Ending::because(status, why + "; nothing was put"),
        (Ending::Status(status, Some(why)), _) => {
            Ending::because(status, format_args!("{why}; before it, {} put", count(enqueued, "item was", "items were")))
        }
        (other, _) => other,
    }
}
