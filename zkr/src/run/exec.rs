//! The process that becomes the command. It is started by the supervisor in a group of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::unistd::{Pid, getpid, getppid};

use super::{EXEC, terminal};
use crate::connection::Connection;
use crate::ending::{Ending, Status};
use crate::output;

/// What the process is started with.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub command: &'a [OsString],
    /// What it runs under, if that is what another process waits for.
    pub held: Option<Held<'a>>,
    pub connection: &'a Connection,
    /// Whether the process gets the terminal.
    pub in_foreground: bool,
}

/// What a command runs under.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    pub path: &'a str,
    pub token: Option<i64>,
}

/// Marks a command that runs in the foreground of the terminal.
const FOREGROUND: &str = "foreground";
const BACKGROUND: &str = "background";

/// Starts the process.
pub fn start(start: &Start<'_>) -> io::Result<Child> {
    let mut command = this_program()?;
    command.arg(EXEC).arg(getpid().to_string());
    command.arg(if start.in_foreground { FOREGROUND } else { BACKGROUND });
    command.args(start.command).process_group(0);
    // A `zkr` that the command runs then finds the path at the same servers.
    command.envs(start.connection.place());
    if let Some(Held { path, token }) = start.held {
        command.env("ZKR_PATH", path).env_remove("ZKR_FENCING_TOKEN");
        command.envs(token.map(|token| ("ZKR_FENCING_TOKEN", token.to_string())));
    }
    command.spawn()
}

/// Returns the command that starts this program, even if its file has been replaced meanwhile.
pub fn this_program() -> io::Result<Command> {
    let own = "/proc/self/exe";
    let mut command = if File::open(own).is_ok() { Command::new(own) } else { Command::new(std::env::current_exe()?) };
    command.arg0("zkr");
    output::tell_how_to_speak(&mut command);
    Ok(command)
}

/// Becomes the command. The arguments are those that [`start`] has given.
pub fn become_command(mut arguments: impl Iterator<Item = OsString>) -> Ending {
    let supervisor = arguments.next().and_then(|pid| pid.to_str()?.parse().ok()).map(Pid::from_raw);
    let in_foreground = arguments.next().as_deref() == Some(OsStr::new(FOREGROUND));
    let (Some(supervisor), Some(program)) = (supervisor, arguments.next()) else {
        return Ending::failed("for use by zkr itself only");
    };
    if let Err(error) = end_with_parent() {
        return Ending::failed(error);
    }
    // The supervisor ended before that.
    if getppid() != supervisor {
        return Ending::failed("the process that watches over the command has ended");
    }
    if in_foreground {
        terminal::give_to(getpid());
    }
    let error = output::tell_nothing(Command::new(&program).args(arguments)).exec();
    let status = if error.kind() == io::ErrorKind::NotFound { Status::NotFound } else { Status::NotExecutable };
    Ending::because(status, format_args!("{}: {error}", program.to_string_lossy()))
}

/// Has the system kill this process, and the command that it becomes, when its parent ends.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn end_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

/// Does nothing where the system does not offer that: the keeper kills the group once it knows which one it is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn end_with_parent() -> io::Result<()> {
    Ok(())
}
