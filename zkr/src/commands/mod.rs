//! Commands that read from the servers or write to them, and end.

mod addresses;
mod balancer;
mod content;
mod doctor;
mod inspect;
mod latch;
mod node;
mod owners;
mod partitions;
pub mod postmortem;
mod queue;
pub mod servers;
pub mod services;
pub mod signals;
mod tree;

use std::fmt::Display;
use std::time::Duration;

use clap::Subcommand;
use zookeeper_recipes::{Client, Error, ErrorKind, Stat};

use self::signals::Signals;
use crate::connection::{Connection, path, path_or_root};
use crate::ending::{Ending, Status};
use crate::output::{self, Output};
use crate::run::LookAtLock;
use crate::runtime::block_on;

/// How long to wait for the end of a session that held nothing.
const CLOSE: Duration = Duration::from_millis(250);

/// What is asked.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[command(flatten)]
    Node(node::Node),
    /// Look at elections, ask a leader to resign, and choose the next one
    #[command(subcommand)]
    Latch(latch::Latch),
    /// Ask the holder of a lock to release it. If it is zkr, its command gets SIGTERM; others decide for themselves
    Revoke {
        /// The node of the holder, as `zkr lock ls` shows it below the path of the lock
        #[arg(value_parser = path)]
        node: String,
    },
    /// Put items into a queue, take them, and manage dead letters
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Show a throughput balancer, and set its maximum
    #[command(subcommand)]
    Balancer(balancer::Balancer),
    /// Show which member has which partition, pin partitions, and drain members
    #[command(subcommand)]
    Partitions(partitions::Partitions),
    /// Show the services that are registered, or the instances of one of them
    #[command(after_help = "Example: zkr services web --path /services")]
    Services(services::Options),
    /// Reached by `zkr service`, which also runs commands.
    #[command(skip)]
    Switch(services::Switch),
    /// Find sessions that wait for each other; status 1 if there are any
    Deadlocks {
        /// Examine the locks at this path and below; elections among them may look like deadlocks
        #[arg(value_parser = path_or_root)]
        path: String,
    },
    /// Show everything at a path and below: locks, semaphores, queues, barriers, shares, partitions, services, groups
    Inspect(tree::TreeOptions),
    /// Find what is wrong with locks, elections, semaphores, queues and the servers; status 1 if anything is
    ///
    /// For locks, elections and semaphores: deadlocks, nodes and leases without a session, counters that end, and ACLs
    /// that hide a line from those who may enter it. For locks and elections: holders that others wait for too long.
    /// For queues: items without a consumer, and dead letters. It also reports what this client may not read.
    ///
    /// It asks the servers with ZooKeeper's four-letter words, of which they permit only srvr by default. It examines
    /// tick times, session timeouts and watches if 4lw.commands.whitelist of the servers contains conf and wchs too.
    Doctor(doctor::Options),
}

impl From<LookAtLock> for Command {
    fn from(look: LookAtLock) -> Command {
        match look {
            LookAtLock::Ls { path, addresses } => Command::Latch(latch::Latch::Ls { path, addresses }),
        }
    }
}

/// Runs the command.
pub fn play(mut connection: Connection, output: Output, command: Command) -> Ending {
    if command.only_looks() {
        connection.give_up_soon();
    }
    block_on(async {
        match answer(&connection, output, command).await {
            Ok(ending) | Err(ending) => ending,
        }
    })
}

async fn answer(connection: &Connection, output: Output, command: Command) -> Result<Ending, Ending> {
    let mut signals = Signals::new()?;
    let client = tokio::select! {
        client = connection.open() => client?,
        ending = signals.next() => return Ok(ending),
    };
    // A command that runs until a signal ends it has then succeeded.
    let is_endless = command.is_endless();
    let only_looks = command.only_looks();
    let ending = tokio::select! {
        biased;
        ending = command.run(&client, connection, output) => ending,
        ending = signals.next() => Ok(if is_endless { Ending::Success } else { ending }),
        () = output::closed(), if only_looks => Ok(Ending::OutputClosed),
    };
    // If a server is there, the session ends at once, and not by its timeout. Otherwise this takes a while: another
    // signal ends the wait.
    tokio::select! {
        _ = client.close() => {}
        _ = signals.next() => {}
        () = tokio::time::sleep(CLOSE), if only_looks => {}
    }
    ending
}

impl Command {
    /// Returns whether only a signal ends it.
    fn is_endless(&self) -> bool {
        match self {
            Command::Node(node::Node::Watch(_)) | Command::Balancer(balancer::Balancer::Watch { .. }) => true,
            Command::Inspect(options) => options.watch.is_some(),
            Command::Partitions(partitions) => partitions.is_endless(),
            Command::Services(options) => options.is_endless(),
            _ => false,
        }
    }

    /// Returns whether it changes nothing. Its caller waits for an answer, and "no server can be reached" is one.
    fn only_looks(&self) -> bool {
        match self {
            Command::Node(node) => node.only_looks(),
            Command::Queue(queue) => queue.only_looks(),
            Command::Balancer(balancer) => balancer.only_looks(),
            Command::Partitions(partitions) => partitions.only_looks(),
            Command::Revoke { .. } | Command::Switch(_) => false,
            Command::Services(_) => true,
            Command::Latch(latch) => latch.only_looks(),
            Command::Deadlocks { .. } | Command::Inspect(_) | Command::Doctor(_) => true,
        }
    }

    async fn run(self, client: &Client, connection: &Connection, output: Output) -> Result<Ending, Ending> {
        match self {
            Command::Node(node) => node.run(client, output).await,
            Command::Latch(latch) => latch.run(client, connection, output).await,
            Command::Revoke { node } => inspect::revoke(client, output, &node).await,
            Command::Queue(queue) => queue.run(client, output).await,
            Command::Balancer(balancer) => balancer.run(client, output).await,
            Command::Partitions(partitions) => partitions.run(client, output).await,
            Command::Services(options) => services::show(client, output, options).await,
            Command::Switch(switch) => switch.run(client, output).await,
            Command::Deadlocks { path } => inspect::deadlocks(client, output, &path).await,
            Command::Inspect(options) => tree::tree(client, connection, output, &options).await,
            Command::Doctor(options) => doctor::examine(client, connection, output, &options).await,
        }
    }
}

/// Returns the ending for a missing node or root: only the error of a read shows which of them is missing.
async fn missing(client: &Client, path: &str) -> Ending {
    match client.get(path).await {
        Err(error) => failed(error.kind(), error.to_string().trim_start_matches("get ")),
        // It was created just now.
        Ok(_) => failed(ErrorKind::NoNode, format_args!("{path}: no such node")),
    }
}

/// Checks that a node exists, because a missing one would look like an empty one. Returns its stat.
async fn check_exists(client: &Client, path: &str) -> Result<Stat, Ending> {
    match client.exists(path).await.map_err(|error| failed(error.kind(), error))? {
        Some(stat) => Ok(stat),
        None => Err(missing(client, path).await),
    }
}

/// A part of the library's text about a missing root, which has the kind of a missing node.
const NO_ROOT: &str = "the root that the connect string names";

/// Returns the ending after a failed request. A missing node is an answer; without a root nothing was asked.
fn failed(kind: ErrorKind, error: impl Display) -> Ending {
    let why = error.to_string();
    match kind {
        ErrorKind::NoNode if !why.contains(NO_ROOT) => {
            Ending::because(Status::No, why + "; check the path, --namespace and --connect")
        }
        kind => Ending::because(Status::of(kind), why),
    }
}

/// Like [`failed`], for commands that look at the nodes of recipes, which do not always exist.
fn not_inspected(error: &Error) -> Ending {
    match failed(error.kind(), error) {
        Ending::Status(Status::No, Some(why)) => {
            Ending::because(Status::No, why + " (a path that nothing uses is removed)")
        }
        other => other,
    }
}
