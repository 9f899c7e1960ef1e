//! What all parts of one consumer work with.

use std::sync::Arc;
use std::time::Duration;

use crate::client;
use crate::client::core::Core;
use crate::queue::error::Error;
use crate::queue::events::Publisher;
use crate::queue::znodes::Paths;

/// Delays after what was refused, each twice the one before, up to the second figure.
pub(super) const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// An item that cannot be claimed, or settled, is tried again after this.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) paths: Arc<Paths>,
    pub(super) events: Publisher,
    /// The consumer's uuid: what the nodes of its claims hold.
    pub(super) holder: String,
    /// An item that was delivered so often without success becomes a dead letter.
    pub(super) max_deliveries: Option<u32>,
}

impl Shared {
    pub(super) fn error(&self, error: client::Error) -> Error {
        Error::client(&self.paths.path, error)
    }

    pub(super) fn closed(&self) -> Error {
        Error::closed(&self.paths.path)
    }
}
