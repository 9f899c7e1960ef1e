//! One-shot faults that wait for a request of a certain kind.

use std::time::Duration;

use tokio::sync::watch;

use super::OpCode;
use crate::support::waiting::within;

const PATIENCE: Duration = Duration::from_secs(30);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In good order.
    Fin,
    /// With a reset.
    Rst,
    /// Not at all: it stays open and everything later on it is swallowed.
    Silence,
}

/// Tells whether a one-shot fault has happened. It happens also when this is dropped.
#[derive(Clone, Debug)]
pub struct OneShot {
    op: OpCode,
    fired: watch::Receiver<bool>,
}

impl OneShot {
    /// Whether it has happened.
    pub fn has_fired(&self) -> bool {
        *self.fired.borrow()
    }

    /// Waits until it has happened; panics when that takes too long.
    pub async fn fired(&self) {
        let mut fired = self.fired.clone();
        let waiting = within("the one-shot fault of the proxy happens", PATIENCE, fired.wait_for(|fired| *fired));
        assert!(waiting.await.is_ok(), "the proxy ended before a request {:?} came", self.op);
    }
}

/// A one-shot fault that has not happened yet.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) op: OpCode,
    pub(super) how: How,
    /// Whether the request is forwarded to the server, and its answer is lost; else the request is lost.
    pub(super) forward: bool,
    fired: watch::Sender<bool>,
}

impl Script {
    pub(super) fn new(op: OpCode, how: How, forward: bool) -> (Script, OneShot) {
        let (sender, fired) = watch::channel(false);
        (Script { op, how, forward, fired: sender }, OneShot { op, fired })
    }

    /// Marks it as fired; returns the action for the connection.
    pub(super) fn fire(self) -> How {
        self.fired.send_replace(true);
        self.how
    }
}
