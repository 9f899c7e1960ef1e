//! One `zkr` as a process.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::support::{until, within};

/// How long anything may take that is only a matter of requests, answers and processes, on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);
/// The session timeout of the tests.
pub const T: Duration = Duration::from_secs(3);

/// A `zkr` that runs; it is killed when it is dropped.
pub struct Contender {
    child: Child,
}

/// What it has said, and how it has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// `zkr` for a server of the tests, with these arguments.
pub fn zkr(connect: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zkr"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ZKR_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("ZKR_CONNECT", connect).env("ZKR_SESSION_TIMEOUT", "3s").env("ZKR_TICK_TIME", "500ms");
    command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

impl Contender {
    pub fn start(mut command: Command) -> Contender {
        Contender { child: command.spawn().expect("it starts") }
    }

    /// The process that the user has started.
    pub fn supervisor(&self) -> Pid {
        Pid::from_raw(self.child.id().expect("it runs").cast_signed())
    }

    /// The process that keeps the session.
    pub async fn keeper(&self) -> Pid {
        until("the keeper is there", SOON, || async {
            let is_keeper = |child: &String| {
                let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                line.split('\0').any(|argument| argument == "__keeper")
            };
            let found = self.children().into_iter().find(is_keeper);
            found.map(|child| Pid::from_raw(child.parse().expect("a number")))
        })
        .await
    }

    /// Waits until the command is stopped.
    pub async fn has_stopped(&self) {
        until("the command is stopped", SOON, || async {
            let is_stopped = |child: &String| {
                let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
            };
            self.children().iter().any(is_stopped).then_some(())
        })
        .await;
    }

    /// Waits until the command has started and ended: of the children of the supervisor the keeper is left.
    pub async fn command_has_ended(&self) {
        self.keeper().await;
        until("the command has ended", SOON, || async { (self.children().len() == 1).then_some(()) }).await;
    }

    /// The children of the supervisor.
    fn children(&self) -> Vec<String> {
        let supervisor = self.supervisor();
        let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"));
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.supervisor(), signal).expect("it can be told");
    }

    /// Waits until it ends.
    pub async fn ended(self) -> Ended {
        let output = within("it ends", SOON, self.child.wait_with_output()).await.expect("its output");
        let text = |bytes| String::from_utf8(bytes).expect("it is text");
        Ended { status: output.status, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Waits for a text on the standard error.
    pub async fn says(&mut self, text: &str) {
        let errors = self.child.stderr.as_mut().expect("its errors");
        let (mut said, mut more) = (String::new(), [0; 1024]);
        within(&format!("it says {text:?}"), SOON, async {
            while !said.contains(text) {
                let read = errors.read(&mut more).await.expect("it can be read");
                assert!(read > 0, "it has ended: {said}");
                said += &String::from_utf8_lossy(&more[..read]);
            }
        })
        .await;
    }
}

impl Ended {
    /// It has ended with this status.
    pub fn with(self, status: i32) -> Ended {
        let code = self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal));
        assert_eq!(code, Some(status), "{self:?}");
        self
    }
}
