//! The process group of a command.

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

    /// Returns whether none is left.
    pub fn is_gone(self) -> bool {
        killpg(self.0, None) == Err(Errno::ESRCH)
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
