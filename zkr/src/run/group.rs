//! The process group of a command.

use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long the system may take to end what was killed. One that takes longer hangs in the kernel.
pub const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// The processes of a command: it and its children, as far as they stay in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(pub Pid);

impl Group {
    /// Sends a signal to all of them. It is no failure if none is left.
    pub fn signal(self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }

    /// Returns whether none is left, but for those that have ended and that their parent has not asked about: there may
    /// be no process that does, as in a container without an init.
    pub fn is_gone(self) -> bool {
        killpg(self.0, None) == Err(Errno::ESRCH) || self.has_ended().unwrap_or(false)
    }

    /// `None` if the system does not tell.
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
            // Once more each time: one of them may just have made another.
            self.signal(Signal::SIGKILL);
            if self.is_gone() {
                return;
            }
            tokio::time::sleep(look).await;
        }
    }
}
