//! Commands for queues: put, take and remove items, and manage dead letters.

mod dead;
mod put;
mod remove;
mod take;

use clap::Subcommand;
use serde::Serialize;
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{DistributedQueue, Error, RawBytes};

use super::{check_exists, failed};
use crate::connection::path;
use crate::ending::Ending;
use crate::output::Output;

/// What is asked of a queue.
#[derive(Subcommand, Debug)]
pub enum Queue {
    /// Put items into a queue: the arguments, or if there are none, the lines of the standard input
    ///
    /// An item has at most one of a time, a priority and an id. They are delivered by priority, the lower number first;
    /// among those of one priority first those whose time has come, then the others in the order of their puts. If an
    /// item is refused, because it is too large for example, those before it are put.
    #[command(after_help = "Examples: zkr queue put /shop/orders --id order-7 'two pairs of shoes'\n          \
                            zkr queue put /shop/orders --after 2h <orders.txt")]
    Put(put::Options),
    /// Take items out of a queue, and print each on a line; status 1 if there was none in time
    ///
    /// An item is removed from the queue after it was written to the standard output. If this process or its connection
    /// ends in between, the item may be delivered again. An item that is not in the format of a queue becomes a dead
    /// letter, as with any consumer.
    Take(take::Options),
    /// Remove the items with an id that no consumer has claimed; status 1 if there was none
    ///
    /// An item that was removed is not delivered. The id is that of `zkr queue put --id`, or of any other producer,
    /// also one of Curator. / and | count as _: a/b, a|b and a_b are one id. Items that a consumer has claimed stay.
    #[command(after_help = "Example: zkr queue remove /shop/orders order-7")]
    Remove(remove::Options),
    /// Print how many items are in a queue, including those that a consumer has claimed or whose time has not come
    Depth {
        /// The path of the queue
        #[arg(value_parser = path)]
        path: String,
    },
    /// Manage dead letters: items that could not be handled
    #[command(subcommand)]
    Dead(dead::Dead),
}

/// How long a queue is.
#[derive(Serialize)]
struct Depth<'a> {
    path: &'a str,
    depth: usize,
}

impl Queue {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        matches!(self, Queue::Depth { .. } | Queue::Dead(dead::Dead::Ls { .. }))
    }

    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        match self {
            Queue::Put(options) => put::put(client, output, options).await,
            Queue::Remove(options) => remove::remove(client, output, &options).await,
            Queue::Take(options) => take::take(client, output, &options).await,
            Queue::Depth { path } => depth(client, output, &path).await,
            Queue::Dead(dead) => dead.run(client, output).await,
        }
    }
}

async fn depth(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let depth = open(client, path)?.len().await.map_err(of)?;
    if depth == 0 {
        check_exists(client, path).await?;
    }
    output.print(depth, &Depth { path, depth }).await?;
    Ok(Ending::Success)
}

/// Opens a queue of arbitrary bytes, whose meaning is up to those who put and take them.
fn open(client: &Client, path: &str) -> Result<DistributedQueue<RawBytes>, Ending> {
    DistributedQueue::builder(client, path, RawBytes).build().map_err(of)
}

/// Returns the ending after a request to a queue has failed.
fn of(error: Error) -> Ending {
    failed(error.kind(), error)
}
