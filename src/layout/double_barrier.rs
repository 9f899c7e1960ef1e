//! The znodes of a double barrier.
//!
//! ```text
//! <path>          its data version is the generation number
//! <path>/<uuid>   one for each member, ephemeral; a new name each time a member enters
//! <path>/ready    persistent; exists while a round is open
//! ```

/// The name of the node that marks an open round, the same as Curator's.
pub(crate) const READY: &str = "ready";
