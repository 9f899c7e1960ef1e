//! The state that all parts of one consumer share.

use std::sync::Arc;
use std::time::Duration;

use crate::client;
use crate::client::core::Core;
use crate::layout::queue::Paths;
use crate::queue::error::Error;
use crate::queue::events::Publisher;

/// The delay before an item that could not be claimed or settled is retried.
pub(super) const HIDDEN_AFTER_REFUSAL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) paths: Arc<Paths>,
    pub(super) events: Publisher,
    /// The consumer's uuid, which is the data of its claims' nodes.
    pub(super) holder: String,
    /// The number of deliveries without success after which an item becomes a dead letter.
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
