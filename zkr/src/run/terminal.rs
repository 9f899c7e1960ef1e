//! The terminal of an interactive command, which belongs to one process group at a time.
//!
//! A command has a group of its own. So that it can read from the terminal, and gets Ctrl-C and Ctrl-Z itself, the
//! terminal is given to its group, as a shell does.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Returns whether the standard input is a terminal that this process may read from.
pub fn is_ours() -> bool {
    io::stdin().is_terminal() && tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Gives the terminal to a group. A failure leaves it where it is: the command runs in the background then.
pub fn give_to(group: Pid) {
    // One that is not in the foreground is stopped by this signal when it gives the terminal to another.
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        let _ = tcsetpgrp(io::stdin(), group);
        let _ = stop.thread_unblock();
    }
}

/// Takes the terminal back.
pub fn take() {
    give_to(getpgrp());
}
