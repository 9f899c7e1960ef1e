//! Who works on which partition? `PartitionAssigner` divides partitions among the members of a cluster.
//!
//! The first part shows the recipe: members join, restart one after the other, one is killed, and an operator pins a
//! partition. The second part compares it with two other ways to decide who works on what: each partition has an
//! election of its own; or all members try to create one znode for each partition, and those that fail watch it and
//! try again. Five members do it in each way; then the member with most partitions leaves. The figures are counts: the
//! clients count requests, the ensemble in memory counts notifications.

mod assigner;
mod board;
mod compare;
mod each_alone;
mod team;

use std::process::ExitCode;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println};
use zookeeper_recipes::partition_assigner::Owned;

use self::board::Board;
use self::team::Team;

/// Partitions with one owner each: PartitionAssigner, and its cost beside two other ways.
#[derive(Parser, Debug)]
#[command(name = "partition_assigner")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the partitions
    #[arg(long, default_value = "/examples/partition-assigner", value_parser = recipes_examples::path)]
    path: String,
}

const MEMBERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        Znodes {
            path: &self.path,
            shared_by: None,
            uses: &[
                ("/team", "the first part: members, what each is assigned, what each owns, and the election"),
                ("/team-work", "what the owner of a partition has written, under its fence"),
                ("/assigner", "the second part: the same as the first, with 100 partitions"),
                ("/elections", "an election for each partition"),
                ("/race", "a znode for each partition, ephemeral"),
            ],
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    stage.play(scenario(&stage, &stage.own_path(&options.path))).await
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Partitions and their owners at {path}, on {stage}");
    Team::new(stage, &format!("{path}/team")).play().await?;
    compare::play(stage, path).await
}

/// The work of a member on a partition: here it only reports that it works, until another member is to get the
/// partition.
async fn work(partition: Owned, member: usize, board: Board) -> Result<()> {
    let _working = board.works(member, partition.id().parse()?);
    partition.revoked().await;
    Ok(())
}
