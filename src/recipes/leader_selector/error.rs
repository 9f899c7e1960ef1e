//! The errors of a selector.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`LeaderSelector`](super::LeaderSelector).
    "leader selector at", closed: "its client has been closed, or the runtime behind it has ended";
    kind {}
    /// Returns whether the selector, or its leadership, is lost for good.
    lost {}
}
