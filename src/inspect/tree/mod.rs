//! Everything at a path and below, and which recipe each directory belongs to.
//!
//! `walk.rs` reads the nodes, `persistent.rs` the persistent ones that may be instances of services, and `items.rs` the
//! oldest item of each queue. The rest has no I/O: `reading.rs` decides by a node's name how much of it is read,
//! `found.rs` has what was read, `recognize.rs`, `lines.rs`, `partitions.rs`, `queues.rs` and `services.rs` assign each
//! node to its recipe, `value.rs` has the result, and `text.rs` shows it.

mod found;
mod items;
mod lines;
mod partitions;
mod persistent;
mod queues;
mod reading;
mod recognize;
mod services;
mod text;
mod value;
mod walk;

pub use self::value::{AssignerMember, BalancerMember, DoubleBarrier, Entry, Group, Instance, Item};
pub use self::value::{KazooSetPartitioner, Node, NodeStat, PartitionAssigner, Queue, Recipe, Semaphore, Service};
pub use self::value::{ThroughputBalancer, Tree, UnreadableInstance, UnreadableRecord};
use crate::client::{Client, Error};

/// Reads everything at `root` and below.
pub(super) async fn read(client: &Client, root: &str) -> Result<Tree, Error> {
    let (mut found, mut denied) = walk::walk(client, root).await?;
    persistent::read_instances(client, &mut found, &mut denied).await?;
    let mut nodes = recognize::nodes(root, found);
    items::read_oldest(client, &mut nodes).await?;
    Ok(Tree { nodes, denied: denied.into_iter().collect() })
}
