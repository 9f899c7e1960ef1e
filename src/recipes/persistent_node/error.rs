//! The errors of a persistent node.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`PersistentNode`](super::PersistentNode).
    "persistent node at", closed: "it, or its client, has been closed, or the runtime behind it has ended";
    kind {}
    /// Returns whether the persistent node has ended permanently.
    lost {}
}
