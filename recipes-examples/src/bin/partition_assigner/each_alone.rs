//! Each partition on its own: an election for each, or a race for each.

use std::future::pending;

use futures::future::try_join_all;
use recipes_examples::Result;
use zookeeper_recipes::barrier::Barrier;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::MEMBERS;
use crate::board::Board;
use crate::compare::PARTITIONS;

/// Enters the election of every partition; a change wakes only the next participant.
pub(crate) async fn elect(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    let line = |partition: u32| async move {
        let latch = LeaderLatch::builder(client, format!("{path}/{partition}")).id(MEMBERS[number]).start()?;
        let leadership = latch.wait_for_leadership().await?;
        board.owns(number, partition as usize);
        leadership.lost().await;
        Err::<(), _>("the leadership is lost".into())
    };
    try_join_all((0..PARTITIONS).map(line)).await.map(drop)
}

/// Races for every partition: the member that creates the znode owns the partition. All others watch it and try
/// again when it is deleted: a herd, and chance decides which one is next. A member that was stopped does not know that
/// its znode is gone: it has no lease, and the ensemble does not check its actions.
pub(crate) async fn race(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    let race = |partition: u32| async move {
        let node = format!("{path}/{partition}");
        let taken = Barrier::new(client, &node)?;
        loop {
            match client.create(&node, MEMBERS[number], CreateMode::Ephemeral).await {
                Ok(_) => board.owns(number, partition as usize),
                Err(error) if error.kind() == ErrorKind::NodeExists => {
                    taken.wait().await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            return pending().await;
        }
    };
    try_join_all((0..PARTITIONS).map(race)).await.map(|_: Vec<()>| ())
}
