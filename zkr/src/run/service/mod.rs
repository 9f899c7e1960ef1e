//! Runs a command while it is registered as an instance of a service.
//!
//! A registration is not a lock: if it is lost, the command runs on, and is registered again. So, unlike under a lock,
//! one process (`registrar.rs`) both keeps the session and watches the command. If it is stopped, or killed, the
//! instance ends with the session; on Linux, the system kills the command with it.

mod health;
mod options;
mod registrar;

use std::pin::{Pin, pin};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

pub use self::options::RegisterOptions;
use self::registrar::{Confirmed, Registrar, Wanted};
use super::exec::{self, Start};
use super::group::Group;
use super::lease_file::Moment;
use super::running::Running;
use super::signals::Signals;
use super::{supervised, terminal};
use crate::connection::Connection;
use crate::ending::Ending;
use crate::output::note;

/// How often to check what is left of a command that is ending.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a command, and registers it.
pub fn register(connection: &Connection, options: &RegisterOptions) -> Ending {
    let instance = match connection.validate().and_then(|()| options.instance()) {
        Ok(instance) => instance,
        Err(ending) => return ending,
    };
    supervised(async |signals| {
        let (wanted, is_wanted) = watch::channel(Wanted::Registered);
        let (confirmed, is_confirmed) = watch::channel(Confirmed::Nothing);
        let registrar = Registrar {
            connection,
            base: &options.base.path,
            instance,
            waits: options.wait,
            health: options.health(),
            health_timeout: options.health_timeout,
            wanted: is_wanted,
            confirmed,
        };
        // Not in the foreground of a terminal: Ctrl-C is to drain the instance first.
        let start = Start { command: &options.command, held: None, connection, in_foreground: false };
        let group = match exec::start(&start) {
            Ok(child) => Group(Pid::from_raw(child.id().cast_signed())),
            Err(error) => return Ending::failed(error),
        };
        let running = Running::new(group, false);
        let (drain, grace) = (options.drain, options.grace);
        let served = Served { running, wanted, confirmed: is_confirmed, drain, grace, draining: None };
        served.play(&registrar, connection.session_timeout(), signals).await
    })
}

/// A command that is registered, or is to be.
struct Served {
    running: Running,
    wanted: watch::Sender<Wanted>,
    confirmed: watch::Receiver<Confirmed>,
    /// How long callers have to notice that it is disabled.
    drain: Duration,
    /// How long it may take to end after SIGTERM.
    grace: Duration,
    /// The signal that the command gets when that time is over.
    draining: Option<Draining>,
}

struct Draining {
    signal: Signal,
    over: Pin<Box<dyn Future<Output = ()>>>,
}

impl Served {
    async fn play(mut self, registrar: &Registrar<'_>, unregister_within: Duration, signals: &mut Signals) -> Ending {
        let mut keeping = pin!(registrar.keep());
        let mut is_kept = true;
        let mut refused = None;
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !self.running.is_over() {
            tokio::select! {
                biased;
                signal = signals.next() => self.hear(signal),
                result = &mut keeping, if is_kept => {
                    is_kept = false;
                    if let (Err(ending), None) = (result, self.running.ended) {
                        refused = Some(ending);
                        self.running.terminate();
                    }
                }
                signal = drained(&mut self.draining) => self.running.pass_on(signal),
                _ = looks.tick(), if self.running.told.is_some() => self.kill_if_late(),
            }
            if self.running.ended.is_some() {
                // What is left of its group does not serve.
                self.wanted.send_if_modified(|wanted| std::mem::replace(wanted, Wanted::Nothing) != Wanted::Nothing);
            }
        }
        terminal::take_from(self.running.group.0);
        if is_kept {
            let is_done = tokio::select! {
                biased;
                done = timeout(unregister_within, keeping) => done.is_ok(),
                // Another signal ends the wait.
                _ = signals.ending() => false,
            };
            if !is_done {
                note("no server confirmed that it is unregistered; the instance ends with the session");
            }
        }
        refused
            .or(self.running.ended.map(Ending::Command))
            .unwrap_or(Ending::failed("the command could not be watched"))
    }

    fn hear(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.running.look(),
            Signal::SIGINT | Signal::SIGTERM => self.end_by(signal),
            // Only the command knows what these mean: SIGHUP, to most, to read its configuration again.
            signal => self.running.pass_on(signal),
        }
    }

    /// Passes on a signal that asks the command to end, after callers have had time to notice. Another such signal ends
    /// that time.
    fn end_by(&mut self, signal: Signal) {
        let is_first = *self.wanted.borrow() == Wanted::Registered;
        let is_registered = *self.confirmed.borrow() != Confirmed::Nothing;
        if is_first && is_registered && !self.drain.is_zero() {
            self.wanted.send_replace(Wanted::Disabled);
            let drain = humantime::format_duration(self.drain);
            note(format_args!("it is disabled; {signal} goes to the command after {drain}, or with another signal"));
            let over = Box::pin(until_drained(self.confirmed.clone(), self.drain));
            self.draining = Some(Draining { signal, over });
            return;
        }
        if !is_registered {
            // It is not registered any more while it ends.
            self.wanted.send_replace(Wanted::Nothing);
        }
        // Another one ends the wait. The first one may be what the command handles.
        let waiting = self.draining.take().map(|draining| draining.signal);
        self.running.pass_on(waiting.unwrap_or(signal));
    }

    /// Kills what has not ended in time after SIGTERM.
    fn kill_if_late(&mut self) {
        if self.running.told.is_some_and(|told| Moment::now() >= told.after(self.grace)) {
            self.running.kill();
        }
    }
}

/// Waits until the command is to get the signal, and returns it.
async fn drained(draining: &mut Option<Draining>) -> Signal {
    match draining {
        None => std::future::pending().await,
        Some(Draining { signal, over }) => {
            over.as_mut().await;
            let signal = *signal;
            *draining = None;
            signal
        }
    }
}

/// Waits until callers have had time to notice that the instance is disabled. If the servers do not confirm in that
/// time that it is, there is nothing to wait for.
async fn until_drained(mut confirmed: watch::Receiver<Confirmed>, drain: Duration) {
    // What this returns locks the channel, so it is dropped before the wait.
    let is_disabled = timeout(drain, confirmed.wait_for(|confirmed| *confirmed == Confirmed::Disabled)).await.is_ok();
    if is_disabled {
        sleep(drain).await;
    } else {
        note("no server confirmed that it is disabled; the command gets the signal now");
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_to_drain_begins_when_the_servers_have_confirmed_it() {
        let drain = Duration::from_secs(5);
        let (confirmed, is_confirmed) = watch::channel(Confirmed::Registered);
        let over = until_drained(is_confirmed, drain);
        let mut over = pin!(over);
        assert_eq!((&mut over).now_or_never(), None);
        advance(drain - Duration::from_millis(1)).await;
        assert_eq!((&mut over).now_or_never(), None);
        confirmed.send_replace(Confirmed::Disabled);
        let start = Instant::now();
        over.await;
        // Tokio's timer may be a millisecond late.
        assert!(start.elapsed() >= drain && start.elapsed() < drain * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_server_the_command_gets_the_signal_after_that_time() {
        let drain = Duration::from_secs(5);
        let (_confirmed, is_confirmed) = watch::channel(Confirmed::Registered);
        let start = Instant::now();
        until_drained(is_confirmed, drain).await;
        assert!(start.elapsed() >= drain && start.elapsed() < drain * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_is_returned_once() {
        let mut draining = Some(Draining { signal: Signal::SIGINT, over: Box::pin(async {}) });
        assert_eq!(drained(&mut draining).await, Signal::SIGINT);
        assert_eq!(drained(&mut draining).now_or_never(), None);
    }
}
