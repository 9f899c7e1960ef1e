//! The options of the command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::Command;
use crate::commands::postmortem;
use crate::commands::services::Switch;
use crate::connection::Connection;
use crate::run;
use crate::serve;

/// ZooKeeper coordination from the shell: run a command under a lock or as leader; see who holds and who waits.
///
/// The nodes are those of Apache Curator: Java, Rust and shell take turns at the same paths.
#[derive(Parser, Debug)]
#[command(name = "zkr", version, after_help = STATUS)]
pub struct Options {
    #[command(flatten)]
    pub connection: Connection,
    /// Print results as JSON, one value per line; errors too: {"error": ..., "status": ...}
    #[arg(long, global = true, help_heading = None::<&str>)]
    pub json: bool,
    #[command(subcommand)]
    pub what: What,
}

impl Options {
    /// Returns the commands with their options. Those that are no clients have the client options hidden, only to
    /// refuse them.
    pub fn all_commands() -> clap::Command {
        let client = Connection::augment_args(clap::Command::new("zkr"));
        // clap does not pass a global option on to a command that has one of the same name.
        let hidden: Vec<_> = client.get_arguments().cloned().map(|option| option.hide(true)).collect();
        let hide = |command: clap::Command| command.args(hidden.clone());
        Options::command().mut_subcommand("serve", hide).mut_subcommand("postmortem", hide)
    }

    /// Reads the arguments of this process.
    pub fn read() -> Result<Options, clap::Error> {
        let mut command = Options::all_commands();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let options = Options::from_arg_matches(&matches)?;
        let why = match (&options.what, Connection::first_given(&matches)) {
            (What::Serve(_), Some(option)) => {
                format!("--{option} is for clients, and serve is a server; see zkr serve --help")
            }
            (What::Postmortem(_), Some(option)) => {
                format!("--{option} is for clients, and postmortem reads files; see zkr postmortem --help")
            }
            _ => return Ok(options),
        };
        Err(command.error(ErrorKind::ArgumentConflict, why))
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Run a command while this process holds a lock, or a permit of a semaphore
    #[command(after_help = STATUS)]
    Lock(run::LockOptions),
    /// Run a command while this process leads
    ///
    /// It takes part as Curator's LeaderSelector does. To end its term, end the command or this process: `zkr latch
    /// resign` and `transfer` ask only latches.
    #[command(after_help = STATUS)]
    Elect(run::ElectOptions),
    /// Run a command together with others: all start when all are there, and all end together
    #[command(after_help = STATUS)]
    Barrier(run::BarrierOptions),
    /// Run a command while it is registered as an instance of a service; drain instances
    #[command(subcommand)]
    Service(Service),
    #[command(flatten)]
    Ask(Command),
    /// Tell from the servers' transaction logs who held what, when, and how it ended; it needs no server
    ///
    /// For locks, elections, semaphores and queues, and any other ephemeral node, such as the controller of Kafka. The
    /// logs have sessions, and the data of nodes, but no addresses of clients: see --server-log.
    #[command(after_help = postmortem::HELP)]
    Postmortem(postmortem::Options),
    /// Serve an ensemble in memory, for development and tests: nothing is kept on disk
    ///
    /// Any ZooKeeper client can use it, in any language. Ctrl-C ends it, and then all its data is lost. It supports the
    /// words ruok, isro, srvr, stat, mntr, conf, cons, wchs and envi, and authentication with the scheme digest.
    #[command(after_help = serve::help())]
    Serve(serve::Options),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// The directory; it is created if it is missing
        directory: PathBuf,
    },
}

/// What is asked of an instance of a service.
#[derive(Subcommand, Debug)]
pub enum Service {
    /// Run a command, and keep it registered as an instance of a service while it runs
    ///
    /// COMMAND is registered once it is started; with --health-port or --health-command, once it is healthy. When it
    /// ends, it is unregistered, and zkr ends with its status.
    ///
    /// On SIGTERM and SIGINT the instance is disabled first, so that callers give it no new work. COMMAND gets the
    /// signal after --drain; another such signal ends that wait. If it goes on after the signal, it stays disabled.
    ///
    /// A registration is not a lock: if it is lost, or no server can be reached, COMMAND runs on, and is registered
    /// (again) as soon as possible. Messages on the standard error say so.
    #[command(after_help = STATUS)]
    Register(Box<run::RegisterOptions>),
    #[command(flatten)]
    Switch(Switch),
}

/// The help on the exit statuses of `zkr`.
const STATUS: &str = "\
Status:
  0    success; if zkr ran a command, the status of the command (128 + N if signal N ended it)
  1    the answer is no: nothing to take, nothing found, or something is wrong
  122  could not connect to any server, or none accepted this client
  123  what was held for the command was lost, and the command was ended
  124  not acquired, or not healthy, in time
  125  a bad argument, or another failure of zkr itself
  126  the command could not be executed
  127  the command was not found

Durations are written like 500ms, 30s, 2m or 1h30m. RUST_LOG=zookeeper_recipes=info shows what the client does.";
