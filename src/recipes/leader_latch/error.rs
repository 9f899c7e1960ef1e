//! The errors of a latch.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`LeaderLatch`](super::LeaderLatch).
    "leader latch at", closed: "it, or its client, has been closed, or the runtime behind it has ended";
    kind {}
    /// Returns whether the latch, or its leadership, is lost permanently.
    lost {}
}
