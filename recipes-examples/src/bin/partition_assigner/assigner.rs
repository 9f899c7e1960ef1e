//! The members of one `PartitionAssigner`: an elected leader assigns all partitions.

use futures::FutureExt;
use recipes_examples::Result;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner};

use crate::board::Board;
use crate::compare::PARTITIONS;
use crate::{MEMBERS, work};

/// Joins, and works on every partition that this member gets.
pub(crate) async fn take_part(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    let builder = PartitionAssigner::builder(client, path).partitions(0..PARTITIONS).id(MEMBERS[number]);
    let (member, board) = (builder.join().await?, board.clone());
    Ok(member.run(move |partition: Owned| work(partition, number, board.clone()).boxed()).await?)
}
