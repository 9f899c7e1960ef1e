//! How `zkr` ends: the status for the shell, and the message on the standard error.

use std::process::ExitCode;

use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;
use zookeeper_recipes::{Error, ErrorKind};

use crate::output;

/// Returns the status that shells report for a process that this signal has ended.
pub fn status_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The statuses of `zkr` itself. They are above those that most commands use; 124 to 127 are those of `timeout(1)` and
/// of shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Status {
    /// The answer is no: nothing to take, nothing found, something is wrong with what was examined.
    No = 1,
    /// Could not connect to any server, or none accepted this client.
    Unreachable = 122,
    /// What was held for the command (a lock, a leadership, permits, a barrier) was lost, and the command was ended.
    Lost = 123,
    /// Not acquired in time, or not healthy in time.
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
    /// Success.
    Success,
    /// With a status of its own, and an explanation, if there is something to explain.
    Status(Status, Option<String>),
    /// With the status of the command that it ran, or 128 plus the number of the signal that ended the command.
    Command(u8),
    /// The reader of the output has closed it.
    OutputClosed,
    /// Clap has reported what is wrong with the arguments.
    Arguments,
}

impl Ending {
    /// Returns an ending with a status and an explanation, which names the option in place of the library's setting.
    pub fn because(status: Status, why: impl ToString) -> Ending {
        Ending::Status(status, Some(why.to_string().replace("ClientBuilder::max_request_bytes", "--max-buffer")))
    }

    /// Returns the ending after `zkr` itself has failed.
    pub fn failed(why: impl ToString) -> Ending {
        Ending::because(Status::Failed, why)
    }

    /// Returns the ending after a request to the servers has failed.
    pub fn of(error: &Error) -> Ending {
        Ending::because(Status::of(error.kind()), error)
    }

    /// Prints why the arguments cannot be used, or the help that they ask for.
    pub fn of_arguments(error: &clap::Error) -> Ending {
        // The arguments could not be parsed, but `--json` still counts.
        if error.use_stderr() && std::env::args_os().take_while(|argument| argument != "--").any(|one| one == "--json")
        {
            output::speak_json();
            let text = error.render().to_string();
            return Ending::failed(text.trim_start_matches("error: ").trim_end());
        }
        // If it cannot be printed, the status still reports the failure.
        let _ = error.print();
        if error.use_stderr() { Ending::Arguments } else { Ending::Success }
    }

    /// Prints the message, if there is one, and returns the status for the shell.
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
    /// Returns the status after a request has failed in this way.
    pub fn of(kind: ErrorKind) -> Status {
        match kind {
            ErrorKind::ConnectionLoss | ErrorKind::AuthFailed | ErrorKind::TimedOut => Status::Unreachable,
            _ => Status::Failed,
        }
    }
}
