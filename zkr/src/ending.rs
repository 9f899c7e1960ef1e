//! How `zkr` ends: the status for the shell, and what is said on the standard error.

use std::process::ExitCode;

use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;
use zookeeper_recipes::{Error, ErrorKind};

use crate::output;

/// Returns the status of a process that this signal has ended, as shells tell it.
pub fn status_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The statuses of `zkr` itself. They are beyond those that most commands use; 124 to 127 are those of `timeout(1)` and
/// of shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Status {
    /// The answer is no: nothing to take, nothing found, something is wrong with what was examined.
    No = 1,
    /// No server could be reached, or none let this client in.
    Unreachable = 122,
    /// What the command ran under was lost, and the command was ended.
    Lost = 123,
    /// Not acquired in time.
    NotAcquired = 124,
    /// A bad argument, or another failure of `zkr` itself.
    Failed = 125,
    /// The command could not be executed.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
}

/// How a call of `zkr` ends.
#[derive(Debug)]
pub enum Ending {
    /// All is well.
    Success,
    /// With a status of its own, and an explanation, if there is something to explain.
    Status(Status, Option<String>),
    /// As the command that it ran: with its status, or 128 and the number of the signal that ended it.
    Command(u8),
    /// The reader of the output has closed it.
    OutputClosed,
    /// Clap has said what is wrong with the arguments.
    Arguments,
}

impl Ending {
    /// With a status, and an explanation. What the library calls by its own name is an option here.
    pub fn because(status: Status, why: impl ToString) -> Ending {
        Ending::Status(status, Some(why.to_string().replace("ClientBuilder::max_request_bytes", "--max-buffer")))
    }

    /// `zkr` itself has failed.
    pub fn failed(why: impl ToString) -> Ending {
        Ending::because(Status::Failed, why)
    }

    /// A request to the servers has failed.
    pub fn of(error: &Error) -> Ending {
        Ending::because(Status::of(error.kind()), error)
    }

    /// The arguments cannot be used, or they ask for help.
    pub fn of_arguments(error: &clap::Error) -> Ending {
        // They could not be read, but that one is known.
        if error.use_stderr() && std::env::args_os().take_while(|argument| argument != "--").any(|one| one == "--json")
        {
            output::speak_json();
            let text = error.render().to_string();
            return Ending::failed(text.trim_start_matches("error: ").trim_end());
        }
        // Where it cannot be printed, the status still tells.
        let _ = error.print();
        if error.use_stderr() { Ending::Arguments } else { Ending::Success }
    }

    /// Says what is to be said, and returns the status for the shell.
    pub fn report(self) -> ExitCode {
        match self {
            Ending::Success | Ending::OutputClosed => ExitCode::SUCCESS,
            Ending::Status(status, why) => {
                if let Some(why) = why {
                    output::error(&why, status as u8);
                }
                ExitCode::from(status as u8)
            }
            Ending::Command(status) => {
                // A shell ends its loop only if the signal has ended this process too.
                if status == status_of_signal(SIGINT) {
                    let _ = emulate_default_handler(SIGINT);
                }
                ExitCode::from(status)
            }
            Ending::Arguments => ExitCode::from(Status::Failed as u8),
        }
    }
}

impl Status {
    /// The status after a request has failed in this way.
    pub fn of(kind: ErrorKind) -> Status {
        match kind {
            ErrorKind::ConnectionLoss | ErrorKind::AuthFailed | ErrorKind::TimedOut => Status::Unreachable,
            _ => Status::Failed,
        }
    }
}
