//! The signals that the supervisor handles.

use std::io;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, unfold};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use tokio::signal::unix::{SignalKind, signal};

/// The signals that are passed on to the command.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// The signals that arrive, except those that are to be ignored.
pub struct Signals {
    streams: SelectAll<BoxStream<'static, Signal>>,
}

impl Signals {
    /// Starts to listen. A signal that this process was started to ignore, as by `nohup`, is ignored by the command
    /// too.
    pub fn listen() -> io::Result<Self> {
        // The program that has started this one may have blocked them.
        let wanted: SigSet = PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect();
        wanted.thread_unblock()?;
        let ignored = ignored();
        let mut streams = SelectAll::new();
        for one in PASSED_ON.into_iter().filter(|&one| !is_in(ignored, one)).chain([Signal::SIGCHLD]) {
            let receiver = signal(SignalKind::from_raw(one as i32))?;
            streams.push(
                unfold(receiver, move |mut receiver| async move {
                    receiver.recv().await?;
                    Some((one, receiver))
                })
                .boxed(),
            );
        }
        Ok(Signals { streams })
    }

    /// Returns the next signal. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        match self.streams.next().await {
            Some(signal) => signal,
            None => futures::future::pending().await,
        }
    }

    /// Waits for a signal that asks this process to end. Cancel safe.
    pub async fn ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::SIGCHLD => {}
                signal => return signal,
            }
        }
    }
}

/// Starts a process in which the signals that would end it are blocked. It inherits the mask, so they have no effect
/// from the start.
pub fn blocked<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::from_iter(PASSED_ON).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}

/// Returns the signals that this process ignores, one bit each; 0 if the system does not report them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal as u32 - 1) & 1 == 1
}
