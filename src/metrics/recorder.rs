//! The recorder that the user of this library has installed: code that may do anything.

use ::metrics::Metadata;

use crate::util::panic::caught;

/// What the recorder is told of where a metric comes from.
pub(super) static METADATA: Metadata<'static> =
    Metadata::new("zookeeper_recipes", ::metrics::Level::INFO, Some("zookeeper_recipes"));

/// Runs code of the recorder. A recorder that panics must not end a session, nor abort the process in a destructor.
pub(super) fn recording<T>(record: impl FnOnce() -> T) -> Option<T> {
    let recorded = caught(record);
    recorded
        .inspect_err(|panic| tracing::warn!(event = "recorder_panicked", panic, "the recorder of metrics panicked"))
        .ok()
}
