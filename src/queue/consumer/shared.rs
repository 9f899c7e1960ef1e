//! What all parts of one consumer work with.

use std::sync::Arc;

use crate::client;
use crate::client::core::Core;
use crate::queue::error::Error;
use crate::queue::events::Publisher;
use crate::queue::znodes::Paths;

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
