//! What the user can say.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::Command;
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
    /// Print results as JSON, one value a line, and errors too: {"error": ..., "status": ...}
    #[arg(long, global = true, help_heading = None::<&str>)]
    pub json: bool,
    #[command(subcommand)]
    pub what: What,
}

impl Options {
    /// Returns the commands with their options, each where it means something: `serve` has none of a client.
    pub fn all_commands() -> clap::Command {
        let client = Connection::augment_args(clap::Command::new("zkr"));
        // A global option is not repeated where one of its name is there already.
        let hidden = client.get_arguments().cloned().map(|option| option.hide(true));
        Options::command().mut_subcommand("serve", |serve| serve.args(hidden))
    }

    /// Reads the arguments of this process.
    pub fn read() -> Result<Options, clap::Error> {
        let mut command = Options::all_commands();
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let options = Options::from_arg_matches(&matches)?;
        match (&options.what, Connection::first_given(&matches)) {
            (What::Serve(_), Some(option)) => {
                let why = format!("--{option} is for clients, and serve is a server; see zkr serve --help");
                Err(command.error(ErrorKind::ArgumentConflict, why))
            }
            _ => Ok(options),
        }
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Run a command while this process holds a lock, or permits of a semaphore
    #[command(after_help = STATUS)]
    Lock(run::LockOptions),
    /// Run a command while this process leads
    #[command(after_help = STATUS)]
    Elect(run::ElectOptions),
    /// Run a command together with others: all start once all are there, and end together
    #[command(after_help = STATUS)]
    Barrier(run::BarrierOptions),
    #[command(flatten)]
    Ask(Command),
    /// Serve an ensemble in memory, for development and tests: nothing is kept on disk
    ///
    /// Any client of ZooKeeper can use it, of any language. It ends with Ctrl-C, and all that was in it with it. It
    /// knows the words ruok, srvr, stat, mntr, conf, cons, wchs and envi, and the scheme digest for authentication.
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

/// What the status of `zkr` says.
const STATUS: &str = "\
Status:
  0    success; with a command, that of the command (128 + N if signal N ended it)
  1    the answer is no: nothing to take, nothing found, something is wrong
  122  no server could be reached, or none let this client in
  123  what the command ran under was lost, and the command was ended
  124  not acquired in time
  125  a bad argument, or another failure of zkr itself
  126  the command could not be executed
  127  the command was not found

Durations are written as 500ms, 30s, 2m or 1h30m. RUST_LOG=zookeeper_recipes=info shows what the client does.";
