//! The recorder that the user of this library has installed. It may run any code.

use ::metrics::Metadata;

use crate::util::panic::caught;

/// The origin of the metrics, for the recorder.
pub(super) static METADATA: Metadata<'static> =
    Metadata::new("zookeeper_recipes", ::metrics::Level::INFO, Some("zookeeper_recipes"));

/// Runs code of the recorder and logs its panic, which must not end a session or abort the process in a destructor.
pub(super) fn recording<T>(record: impl FnOnce() -> T) -> Option<T> {
    let recorded = caught(record);
    recorded
        .inspect_err(|panic| tracing::warn!(event = "recorder_panicked", panic, "the metrics recorder panicked"))
        .ok()
}
