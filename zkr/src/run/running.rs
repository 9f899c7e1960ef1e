//! A command that runs, or has run: its processes, its status, and its turn at the terminal.

use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

use super::group::{Group, KILLED_WITHIN};
use super::lease_file::Moment;
use super::terminal;
use crate::ending::{Status, status_of_signal};

/// A command that runs, or has run.
#[derive(Debug)]
pub struct Running {
    pub group: Group,
    in_foreground: bool,
    /// Its status, once it has ended.
    pub ended: Option<u8>,
    /// When its processes were told to end.
    pub told: Option<Moment>,
    /// When they were first killed.
    killed: Option<Moment>,
}

impl Running {
    /// A command that was started in this group, with the terminal or without.
    pub fn new(group: Group, in_foreground: bool) -> Running {
        Running { group, in_foreground, ended: None, told: None, killed: None }
    }

    /// Tells its processes to end, once.
    pub fn terminate(&mut self) {
        if self.told.is_none() {
            self.told = Some(Moment::now());
            self.pass_on(Signal::SIGTERM);
        }
    }

    /// Passes on a signal. Continues a stopped command, which would not notice it otherwise.
    pub fn pass_on(&self, signal: Signal) {
        self.group.signal(signal);
        self.group.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.killed.get_or_insert(Moment::now());
        self.group.signal(Signal::SIGKILL);
    }

    /// Checks what has become of the command.
    pub fn look(&mut self) {
        while self.ended.is_none() {
            match waitpid(self.group.0, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(_, status)) => self.end(u8::try_from(status & 0xff).unwrap_or(u8::MAX)),
                Ok(WaitStatus::Signaled(_, signal, _)) => self.end(status_of_signal(signal as i32)),
                Ok(WaitStatus::Stopped(_, signal)) => self.stopped(signal),
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) => {}
                // The command no longer exists, and its status is not known.
                Err(_) => self.end(Status::Failed as u8),
            }
        }
    }

    /// Handles the end of the command. Tells what is left of its group to end: it would run on without what the command
    /// ran under.
    fn end(&mut self, status: u8) {
        self.ended = Some(status);
        if !self.group.is_gone() {
            self.terminate();
        }
    }

    /// Handles a stop of the command by this signal.
    fn stopped(&mut self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && terminal::is_ours() {
            self.go_on();
        } else if wants_terminal || (signal == Signal::SIGTSTP && self.in_foreground) {
            // Gives the shell its turn. What is held is kept meanwhile, if another process keeps it.
            terminal::take_from(self.group.0);
            let _ = raise(Signal::SIGSTOP);
            // The shell has continued this process, in the foreground or not.
            self.go_on();
        }
    }

    /// Continues the command, with the terminal if this process has it.
    fn go_on(&mut self) {
        self.in_foreground = terminal::is_ours();
        if self.in_foreground {
            terminal::give_to(self.group.0);
        }
        self.group.signal(Signal::SIGCONT);
    }

    /// Returns whether no process is left, or the processes that are left cannot be killed.
    pub fn is_over(&self) -> bool {
        let hangs = self.killed.is_some_and(|killed| Moment::now() >= killed.after(KILLED_WITHIN));
        self.ended.is_some() && (self.group.is_gone() || hangs)
    }
}
