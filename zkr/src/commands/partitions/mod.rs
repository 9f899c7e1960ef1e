//! Partition assigners: which member has which partition, and what operators set.

mod change;
mod set;
mod table;
mod watch;

use clap::{Args, Subcommand};
use serde::Serialize;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{AssignerState, Error, state};

use super::{check_exists, failed};
use crate::connection::{element, path};
use crate::ending::{Ending, Status};
use crate::output::{Output, count, note};

/// What is asked of an assigner.
#[derive(Subcommand, Debug)]
pub enum Partitions {
    /// Show the members with their partitions, and what moves; status 1 if a node cannot be read
    #[command(after_help = "Example: zkr partitions show /jobs")]
    Show(Base),
    /// Pin a partition to a member, which gets it whenever it is present
    ///
    /// The strategy of the assigner does not count for this partition until it is unpinned. A previous pin is replaced.
    #[command(after_help = "Example: zkr partitions pin /jobs 7 worker-1")]
    Pin {
        #[command(flatten)]
        base: Base,
        /// The name of the partition
        #[arg(value_parser = element)]
        partition: String,
        /// The id of the member; it need not be present
        #[arg(value_parser = element)]
        member: String,
    },
    /// Remove the pin of a partition
    #[command(after_help = "Example: zkr partitions unpin /jobs 7")]
    Unpin {
        #[command(flatten)]
        base: Base,
        /// The name of the partition
        #[arg(value_parser = element)]
        partition: String,
    },
    /// Move all partitions of a member to the others, and give it none until it is undrained
    #[command(after_help = "Example: zkr partitions drain /jobs worker-1")]
    Drain(Target),
    /// Let a member that was drained have partitions again
    #[command(after_help = "Example: zkr partitions undrain /jobs worker-1")]
    Undrain(Target),
    /// Move at once what absent members had, rather than after the rebalance delay
    #[command(after_help = "Example: zkr partitions rebalance /jobs")]
    Rebalance(Base),
    /// Print a line for each change, until Ctrl-C or until the reader of the output closes it
    #[command(after_help = "Example: zkr partitions watch /jobs")]
    Watch(Base),
}

/// An assigner.
#[derive(Args, Debug)]
pub struct Base {
    /// The path of the assigner
    #[arg(value_parser = path)]
    path: String,
}

/// A member of an assigner.
#[derive(Args, Debug)]
pub struct Target {
    #[command(flatten)]
    base: Base,
    /// The id of the member; it need not be present
    #[arg(value_parser = element)]
    member: String,
}

/// An assigner, as it was read.
#[derive(Serialize)]
struct Shown<'a> {
    path: &'a str,
    #[serde(flatten)]
    state: &'a AssignerState,
}

impl Partitions {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        matches!(self, Partitions::Show(_) | Partitions::Watch(_))
    }

    /// Returns whether only a signal ends it.
    pub fn is_endless(&self) -> bool {
        matches!(self, Partitions::Watch(_))
    }

    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        match self {
            Partitions::Show(Base { path }) => show(client, output, &path).await,
            Partitions::Watch(Base { path }) => watch::watch(client, output, &path).await,
            Partitions::Pin { base: Base { path }, partition, member } => {
                set::set(client, output, &path, set::Setting::Pin { partition, member }).await
            }
            Partitions::Unpin { base: Base { path }, partition } => {
                set::set(client, output, &path, set::Setting::Unpin { partition }).await
            }
            Partitions::Drain(Target { base: Base { path }, member }) => {
                set::set(client, output, &path, set::Setting::Drain { member }).await
            }
            Partitions::Undrain(Target { base: Base { path }, member }) => {
                set::set(client, output, &path, set::Setting::Undrain { member }).await
            }
            Partitions::Rebalance(Base { path }) => set::set(client, output, &path, set::Setting::Rebalance).await,
        }
    }
}

async fn show(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    check_exists(client, path).await?;
    let state = state(client, path).await.map_err(of)?;
    output.print(table::text(&state), &Shown { path, state: &state }).await?;
    if is_empty(&state) {
        note(format_args!("{path} has no members: zkr inspect {path} shows what is there"));
    }
    match state.unreadable.len() {
        0 => Ok(Ending::Success),
        nodes => Err(Ending::because(Status::No, format_args!("{} cannot be read", count(nodes, "node", "nodes")))),
    }
}

/// Returns whether nothing was found: no member has ever joined, or the path is that of something else.
fn is_empty(state: &AssignerState) -> bool {
    state.members.is_empty() && state.partitions.is_empty() && state.unreadable.is_empty()
}

/// Returns the ending after a request to an assigner has failed.
fn of(error: Error) -> Ending {
    failed(error.kind(), error)
}
