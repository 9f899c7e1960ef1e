//! The terminal of an interactive command, which belongs to one process group at a time.
//!
//! A command has a group of its own. So that it can read from the terminal, and gets Ctrl-C and Ctrl-Z itself, the
//! terminal is given to its group, as a shell does: at once, if standard input and output are the terminal; otherwise
//! when the command asks for it, because other processes of the same job, such as `less`, may need it.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Returns whether the command is the only one that needs the terminal, as far as can be seen.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && is_ours()
}

/// Returns whether this process is in the foreground of its terminal.
pub fn is_ours() -> bool {
    own().is_some_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

/// Gives the terminal to a group. A failure leaves it where it is: the command runs in the background then.
pub fn give_to(group: Pid) {
    let Some(terminal) = own() else { return };
    // This signal stops a process that is not in the foreground when it gives the terminal to another group.
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        let _ = tcsetpgrp(terminal, group);
        let _ = stop.thread_unblock();
    }
}

/// Takes the terminal back from a group that has it. A group that a shell has moved to the background does not.
pub fn take_from(group: Pid) {
    if own().is_some_and(|terminal| tcgetpgrp(terminal).is_ok_and(|has| has == group)) {
        give_to(getpgrp());
    }
}

/// Returns the terminal that this process belongs to, whatever its standard input is.
fn own() -> Option<File> {
    File::open("/dev/tty").ok()
}
