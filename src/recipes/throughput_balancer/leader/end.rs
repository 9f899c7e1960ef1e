//! How a term ends.

use crate::engine;

/// Why a term is over. Unless another member leads, the next term reads everything again.
#[derive(Debug)]
pub(super) enum End {
    /// Another member leads.
    Fenced,
    /// The epoch was written, by hand or because the maximum was created, or a directory was deleted.
    Superseded,
    /// A request got no answer, or was refused.
    Failed(engine::Error),
}
