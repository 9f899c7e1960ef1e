//! The process group of a command.

use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long the system may take to end a killed process. A process that takes longer hangs in the kernel.
pub const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// The processes of a command: the command itself and its descendants, as long as they stay in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(pub Pid);

impl Group {
    /// Sends a signal to all of them. It is not an error if none is left.
    pub fn signal(self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }

    /// Returns whether none is left, apart from zombies: there may be no process that collects them, as in a container
    /// without an init.
    pub fn is_gone(self) -> bool {
        killpg(self.0, None) == Err(Errno::ESRCH) || self.has_ended().unwrap_or(false)
    }

    /// Returns whether all of them have ended; `None` if the system does not report it.
    fn has_ended(self) -> Option<bool> {
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
        let mut found = false;
        for stat in stats {
            // The name, in parentheses, may contain anything. After it come the state, the parent and the group.
            let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>());
            if let Some([state, _, group, ..]) = fields.as_deref()
                && group.parse() == Ok(self.0.as_raw())
            {
                found = true;
                if !matches!(*state, "Z" | "X") {
                    return Some(false);
                }
            }
        }
        found.then_some(true)
    }

    /// Kills them, and waits until they are gone.
    pub async fn kill(self) {
        let look = Duration::from_millis(5);
        for _ in 0..KILLED_WITHIN.as_millis() / look.as_millis() {
            // Repeated each time, because one of them may just have started another.
            self.signal(Signal::SIGKILL);
            if self.is_gone() {
                return;
            }
            tokio::time::sleep(look).await;
        }
    }
}
