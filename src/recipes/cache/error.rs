//! The error of a cache.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`Cache`](super::Cache).
    "cache of", closed: "its client has been closed, or the runtime behind it has ended";
    kind {}
    /// Returns whether the client is closed permanently. A cache belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}
