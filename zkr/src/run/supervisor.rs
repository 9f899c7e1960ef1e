//! The process that the user has started: the parent of the keeper and of the command.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::exec::{self, Held, Start, this_program};
use super::group::Group;
use super::lease_file::{self, Moment};
use super::messages::{Conversation, ToKeeper, ToSupervisor};
use super::plan::Plan;
use super::running::Running;
use super::schedule::{Due, Schedule};
use super::signals::{self, Signals};
use super::{KEEPER, terminal};
use crate::ending::{Ending, Status, status_of_signal};
use crate::output::note;

/// How long the keeper may take to withdraw when it is no longer needed.
const WITHDRAWN_WITHIN: Duration = Duration::from_secs(10);

/// How a round has ended.
#[derive(Debug)]
pub struct Round {
    pub ending: Ending,
    /// Whether this process was asked to end by a signal.
    pub is_last: bool,
}

/// Starts a keeper that holds what the plan names, and runs the command while it holds.
pub async fn play(plan: &Plan, command: &[OsString], signals: &mut Signals) -> Round {
    match Supervisor::start(signals).map(|supervisor| supervisor.play(plan, command)) {
        Ok(playing) => playing.await,
        Err(error) => Round { ending: Ending::failed(error), is_last: true },
    }
}

struct Supervisor<'a> {
    keeper: Conversation,
    process: Child,
    lease: File,
    signals: &'a mut Signals,
    /// The signal that has asked this process to end.
    asked: Option<Signal>,
}

/// A command that runs, or has run, under what the keeper holds.
struct Supervised {
    running: Running,
    schedule: Schedule,
    /// A signal that came after its end.
    late: Option<Signal>,
    /// Whether it was told to end because what it runs under is lost.
    lost: bool,
}

impl<'a> Supervisor<'a> {
    fn start(signals: &'a mut Signals) -> std::io::Result<Self> {
        let (own, other) = UnixStream::pair()?;
        let lease = lease_file::create()?;
        let mut keeper = this_program()?;
        keeper.arg(KEEPER).stdin(Stdio::from(OwnedFd::from(other))).stdout(Stdio::from(lease.try_clone()?));
        // The keeper must not get signals that a terminal sends to a group, or a service manager to all processes.
        let process = signals::blocked(|| keeper.process_group(0).spawn())?;
        Ok(Supervisor { keeper: Conversation::new(own)?, process, lease, signals, asked: None })
    }

    async fn play(mut self, plan: &Plan, command: &[OsString]) -> Round {
        self.keeper.say(&ToKeeper::Plan(Box::new(plan.clone()))).await;
        let ending = match self.held().await {
            Ok((token, session_timeout)) => {
                let schedule = plan.schedule(session_timeout);
                self.run(plan, command, token, schedule).await
            }
            Err(ending) => ending,
        };
        let Supervisor { mut process, asked, keeper, .. } = self;
        drop(keeper);
        // The keeper ends by itself: it has said so, or it notices that nothing need be held any more.
        let _ = process.wait();
        Round { ending, is_last: asked.is_some() }
    }

    /// Waits until the keeper holds, and the command may be started.
    async fn held(&mut self) -> Result<(Option<i64>, Duration), Ending> {
        let mut held = None;
        loop {
            tokio::select! {
                biased;
                heard = self.keeper.hear() => match (heard, held) {
                    (Some(ToSupervisor::Held { token, timeout_ms }), _) => {
                        held = Some((token, Duration::from_millis(timeout_ms)));
                        self.keeper.say(&ToKeeper::Ready).await;
                    }
                    (Some(ToSupervisor::Start), Some(held)) => return Ok(held),
                    (heard, _) => return Err(ended(heard).unwrap_or_else(keeper_is_gone)),
                },
                signal = self.signals.ending() => return Err(self.withdraw(signal).await),
            }
        }
    }

    /// Makes the keeper stop waiting, as this signal asks. Returns how to end.
    async fn withdraw(&mut self, signal: Signal) -> Ending {
        self.asked = Some(signal);
        // Otherwise a keeper that has permitted the start would end the command, and this process with it.
        self.keeper.say(&ToKeeper::Over).await;
        self.keeper.finish().await;
        let until_gone = async { while self.keeper.hear::<ToSupervisor>().await.is_some() {} };
        if timeout(WITHDRAWN_WITHIN, until_gone).await.is_err() {
            let _ = self.process.kill();
        }
        Ending::Command(status_of_signal(signal as i32))
    }

    async fn run(&mut self, plan: &Plan, command: &[OsString], token: Option<i64>, schedule: Schedule) -> Ending {
        let in_foreground = terminal::is_interactive();
        let held = Some(Held { path: &plan.path, token });
        let start = Start { command, held, connection: &plan.connection, in_foreground };
        let child = match exec::start(&start) {
            Ok(child) => child,
            Err(error) => {
                self.over(None).await;
                return Ending::failed(error);
            }
        };
        let group = Group(Pid::from_raw(child.id().cast_signed()));
        self.keeper.say(&ToKeeper::Started { group: group.0.as_raw() }).await;
        let running = Running::new(group, in_foreground);
        let mut command = Supervised { running, schedule, late: None, lost: false };
        let keeper_is_there = self.until_over(plan, &mut command).await;
        terminal::take_from(group.0);
        let released = if keeper_is_there { self.over(command.late).await } else { None };
        match (command.lost, command.running.ended) {
            // The loss was reported when it was noticed.
            (true, _) => Ending::Status(Status::Lost, None),
            (false, Some(status)) => released.unwrap_or(Ending::Command(status)),
            (false, None) => Ending::failed("the command could not be watched"),
        }
    }

    /// Returns when no process of the command is left. Returns false if the keeper is gone.
    async fn until_over(&mut self, plan: &Plan, command: &mut Supervised) -> bool {
        let mut keeper_is_there = true;
        let mut looks = interval(command.schedule.interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                heard = self.keeper.hear(), if keeper_is_there => match heard {
                    Some(ToSupervisor::Lost { why }) => {
                        command.lose(&why);
                        // It is possible that the next holder does not wait.
                        command.keep_to(lease_file::read(&self.lease));
                    }
                    // Only the command decides whether it ends.
                    Some(ToSupervisor::Revoked) => {
                        note(format_args!("{}: another client asks for it; the command gets SIGTERM", plan.path));
                        command.running.pass_on(Signal::SIGTERM);
                    }
                    Some(ToSupervisor::Held { .. } | ToSupervisor::Start) => {}
                    Some(ToSupervisor::Ended { .. }) | None => {
                        keeper_is_there = false;
                        command.lose("the process that kept the session has ended");
                        command.running.kill();
                    }
                },
                signal = self.signals.next() => match signal {
                    Signal::SIGCHLD => command.running.look(),
                    signal => {
                        // Only the command knows what these mean.
                        if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
                            self.asked = Some(signal);
                        }
                        command.hear(signal);
                    }
                },
                _ = looks.tick() => {
                    let end = if keeper_is_there { lease_file::read(&self.lease) } else { None };
                    command.keep_to(end);
                }
            }
            // A signal reports the end of the command. Each tick checks for what the command has left in its group.
            if command.running.is_over() {
                return keeper_is_there;
            }
        }
    }

    /// Tells the keeper that the command is over, and waits until it has released. Returns how to end if that failed,
    /// or if a signal asked not to wait.
    async fn over(&mut self, late: Option<Signal>) -> Option<Ending> {
        self.keeper.say(&ToKeeper::Over).await;
        if let Some(signal) = late {
            return Some(self.withdraw(signal).await);
        }
        loop {
            tokio::select! {
                biased;
                heard = self.keeper.hear() => match heard {
                    Some(ToSupervisor::Ended { status: None, .. }) => return None,
                    Some(ToSupervisor::Ended { .. }) | None => return Some(ended(heard).unwrap_or_else(keeper_is_gone)),
                    // It was lost after the command had ended.
                    Some(_) => {}
                },
                // A member of a barrier waits for the others; a signal ends that wait.
                signal = self.signals.ending() => return Some(self.withdraw(signal).await),
            }
        }
    }
}

impl Supervised {
    /// Tells the command to end, because what it runs under is lost.
    fn lose(&mut self, why: &str) {
        self.note_lost(why);
        self.running.terminate();
    }

    /// Notes the loss, unless the command has already ended.
    fn note_lost(&mut self, why: &str) {
        if self.running.ended.is_none() && !std::mem::replace(&mut self.lost, true) {
            note(format_args!("{why}; the command is ended"));
        }
    }

    /// Passes on a signal from the user. If the command itself has ended, the signal applies to what follows.
    fn hear(&mut self, signal: Signal) {
        self.running.look();
        if self.running.ended.is_some() {
            self.late = Some(signal);
        }
        self.running.pass_on(signal);
    }

    /// Does what is due now. `end` is the end of the lease.
    fn keep_to(&mut self, end: Option<Moment>) {
        let due = self.schedule.due(Moment::now(), end, self.running.told);
        if due != Due::Nothing {
            self.note_lost("no server has answered for too long");
        }
        match due {
            Due::Nothing => {}
            Due::Terminate => self.running.terminate(),
            Due::Kill => self.running.kill(),
        }
    }
}

/// Returns how to end after the keeper has ended; `None` if it has not.
fn ended(heard: Option<ToSupervisor>) -> Option<Ending> {
    match heard {
        Some(ToSupervisor::Ended { status, why }) => Some(Ending::Status(status.unwrap_or(Status::Failed), why)),
        Some(ToSupervisor::Lost { why }) => Some(Ending::because(Status::Lost, why)),
        _ => None,
    }
}

fn keeper_is_gone() -> Ending {
    Ending::failed("the process that keeps the session has ended")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use futures::FutureExt;

    use super::*;
    use crate::run::plan::Kind;

    /// The next tick is in an hour.
    #[tokio::test]
    async fn the_end_of_a_command_is_noticed_without_a_tick() {
        let (own, other) = UnixStream::pair().expect("a pair");
        let _keeper = Conversation::new(other).expect("a conversation");
        let spawned = |command: &mut Command| command.process_group(0).spawn().expect("it starts");
        let mut supervisor = Supervisor {
            keeper: Conversation::new(own).expect("a conversation"),
            process: spawned(&mut Command::new("true")),
            lease: lease_file::create().expect("a file"),
            signals: &mut Signals::listen().expect("signals"),
            asked: None,
        };
        lease_file::write(&supervisor.lease, Moment::NEVER).expect("written");
        let mut command = spawned(Command::new("cat").stdin(Stdio::piped()));
        let connection = <crate::options::Options as clap::Parser>::parse_from(["zkr", "latch", "ls", "/l"]).connection;
        let plan = Plan {
            connection,
            path: "/l".to_owned(),
            kind: Kind::Mutex,
            wait: None,
            data: String::new(),
            grace: Duration::ZERO,
        };
        let mut schedule = plan.schedule(Duration::from_secs(10));
        schedule.interval = Duration::from_secs(3600);
        let group = Group(Pid::from_raw(command.id().cast_signed()));
        let mut supervised = Supervised { running: Running::new(group, false), schedule, late: None, lost: false };
        {
            let mut over = Box::pin(supervisor.until_over(&plan, &mut supervised));
            // The first tick is immediate.
            assert_eq!((&mut over).now_or_never(), None);
            drop(command.stdin.take());
            assert_eq!(timeout(Duration::from_secs(30), over).await, Ok(true));
        }
        assert_eq!(supervised.running.ended, Some(0));
        assert!(command.wait().is_err(), "it was already waited for");
        supervisor.process.wait().expect("it has ended");
    }
}
