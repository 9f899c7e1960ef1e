//! The options of the commands that run a command.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::connection::{path, time};

/// What is run, and how it is ended.
#[derive(Args, Debug)]
pub struct Work {
    /// How long the command may take to end after SIGTERM; less if the lease ends earlier
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub grace: Duration,
    /// The command to run, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A lock, or permits of a semaphore.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LockOptions {
    #[command(subcommand)]
    pub what: Option<LookAtLock>,
    /// The path of the lock
    #[arg(required = true, value_parser = path)]
    pub path: Option<String>,
    /// How long to wait for it once connected, including the time to leave the line again (an eighth of TIME, at most
    /// 1s); 0s does not wait for others [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    /// Hold one permit of a semaphore that has this many. All users of the path must give the same number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub permits: Option<u32>,
    /// What others see of this process [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub data: Option<String>,
    #[command(flatten)]
    pub work: Work,
}

/// Shows a lock without acquiring it.
#[derive(Subcommand, Debug)]
pub enum LookAtLock {
    /// Show who holds it and who waits
    Ls {
        /// The path of the lock
        #[arg(value_parser = path)]
        path: String,
        /// Show the address of each session too; the servers must permit the four-letter word cons
        #[arg(long)]
        addresses: bool,
    },
}

/// A leadership.
#[derive(Args, Debug)]
pub struct ElectOptions {
    /// The path of the election
    #[arg(value_parser = path)]
    pub path: String,
    /// The name of this participant [default: host:pid]
    #[arg(long, value_name = "NAME")]
    pub id: Option<String>,
    /// Rejoin when the command has ended or the leadership was lost; after a failure, one second later
    #[arg(long)]
    pub requeue: bool,
    /// How long to wait for the leadership once connected, including the time to leave the line again (an eighth of
    /// TIME, at most 1s); with --requeue, this applies to each round [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    #[command(flatten)]
    pub work: Work,
}

/// A barrier.
#[derive(Args, Debug)]
pub struct BarrierOptions {
    /// The path of the barrier
    #[arg(value_parser = path)]
    pub path: String,
    /// How many members take part
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub members: u32,
    /// How long to wait for the others once connected, including the time to leave again (an eighth of TIME, at most
    /// 1s) [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    #[command(flatten)]
    pub work: Work,
}
