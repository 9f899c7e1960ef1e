//! Ctrl-C and SIGTERM: the command ends, and the session with it, so that nothing of it is left.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ending::{Ending, status_of_signal};

/// The signals that end a command.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to listen. From now on these signals do not end the process by themselves.
    pub fn new() -> Result<Signals, Ending> {
        let listen = |kind| signal(kind).map_err(Ending::failed);
        Ok(Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next signal. Returns the ending of a command that this signal ends.
    pub async fn next(&mut self) -> Ending {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        Ending::Command(status_of_signal(kind.as_raw_value()))
    }
}
