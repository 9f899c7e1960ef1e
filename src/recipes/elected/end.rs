//! How a term ends.

use crate::engine;

/// Why a term is over. Unless another member leads, the next term reads everything again.
#[derive(Debug)]
pub(crate) enum End {
    /// Another member leads.
    Fenced,
    /// The epoch was written by hand or for a change that needs a new term, or a directory was deleted.
    Superseded,
    /// A request got no answer, or was refused.
    Failed(engine::Error),
}
