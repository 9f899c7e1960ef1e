//! What a client runs on: the servers and how to reach them, a runtime, a clock and random numbers.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::Error;
use super::runtime::Runtime;
use crate::engine::Connector;
use crate::engine::connect_string::ConnectString;
use crate::util::clock::Clock;
use crate::util::random::Random;

/// What one client runs on.
pub(crate) struct Platform {
    pub(crate) connect_string: ConnectString,
    /// `None` for TCP and TLS.
    pub(crate) connector: Option<Arc<dyn Connector>>,
    pub(crate) runtime: Runtime,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

/// Servers that are reached without the connect string of a user: an ensemble in memory.
pub(crate) trait Host: fmt::Debug + Send + Sync {
    /// Returns what one new client runs on. Must be called inside a tokio runtime.
    fn platform(&self) -> Platform;
}

impl Platform {
    /// Returns what a client of real servers runs on. With `dedicated`, its tasks get their own thread, which ends when
    /// the client is `closed`.
    pub(super) fn network(
        connect_string: ConnectString,
        dedicated: bool,
        mut closed: watch::Receiver<Option<bool>>,
    ) -> Result<Self, Error> {
        let runtime = if dedicated {
            Runtime::dedicated(async move {
                // The thread also ends if the client could not be built, because then the sender is dropped.
                let _ = closed.wait_for(|closed| closed.is_some()).await;
            })?
        } else {
            Runtime::shared()?
        };
        Ok(Platform { connect_string, connector: None, runtime, clock: Clock::default(), random: Random::default() })
    }
}
