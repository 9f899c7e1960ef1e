//! What a client stands on: where its servers are, and its sources of time, chance and tasks.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::Error;
use super::runtime::Runtime;
use crate::backend::zookeeper::Connector;
use crate::backend::zookeeper::connect_string::ConnectString;
use crate::util::clock::Clock;
use crate::util::random::Random;

/// What one client stands on.
pub(crate) struct Ground {
    pub(crate) connect_string: ConnectString,
    /// None for the network.
    pub(crate) connector: Option<Arc<dyn Connector>>,
    pub(crate) runtime: Runtime,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

/// Servers other than those of a connect string.
pub(crate) trait Host: fmt::Debug + Send + Sync {
    /// Returns what one new client stands on. Must be called inside a tokio runtime.
    fn ground(&self) -> Ground;
}

impl Ground {
    /// Returns that of a client on the network. With a runtime of its `own`, that lasts until the client is `closed`.
    pub(super) fn network(
        connect_string: ConnectString,
        own: bool,
        mut closed: watch::Receiver<Option<bool>>,
    ) -> Result<Self, Error> {
        let runtime = if own {
            Runtime::dedicated(async move {
                // The thread also ends if the client could not be built: then the sender is dropped.
                let _ = closed.wait_for(|closed| closed.is_some()).await;
            })?
        } else {
            Runtime::shared()?
        };
        Ok(Ground { connect_string, connector: None, runtime, clock: Clock::default(), random: Random::default() })
    }
}
