//! `zkr`: ZooKeeper coordination from the shell.
//!
//! `options.rs` has the options, `commands/` the commands that ask the servers and end, and `run/` those that run a
//! command while a lock is held.

mod commands;
mod connection;
mod ending;
mod options;
mod output;
mod run;
mod runtime;
mod serve;

use std::ffi::OsStr;
use std::process::ExitCode;

use ending::Ending;
use options::{Options, Service, What};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The other two processes of `run`: see its documentation.
    let ending = match arguments.next().as_deref().and_then(OsStr::to_str) {
        Some(run::KEEPER) => {
            output::speak_as_told();
            run::keeper()
        }
        Some(run::EXEC) => {
            output::speak_as_told();
            run::exec(arguments)
        }
        _ => asked(),
    };
    ending.report()
}

/// Runs the command that the arguments name.
fn asked() -> Ending {
    let Options { connection, json, what } = match Options::read() {
        Ok(options) => options,
        Err(error) => return Ending::of_arguments(&error),
    };
    show_events();
    if json {
        output::speak_json();
    }
    let output = output::Output { json };
    match what {
        What::Lock(options) => match options.what {
            Some(look) => commands::play(connection, output, look.into()),
            None => run::lock(connection, options),
        },
        What::Elect(options) => run::elect(connection, options),
        What::Barrier(options) => run::barrier(connection, options),
        What::Service(Service::Register(options)) => run::register(&connection, &options),
        What::Service(Service::Switch(switch)) => commands::play(connection, output, commands::Command::Switch(switch)),
        What::Ask(command) => commands::play(connection, output, command),
        What::Postmortem(options) => commands::postmortem::tell(output, &options),
        What::Serve(options) => serve::serve(output, &options),
        What::Completions { shell } => output::completions(shell),
        What::Man { directory } => output::man(&directory),
    }
}

/// Logs the library's events to the standard error, if `RUST_LOG` is set.
fn show_events() {
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}
