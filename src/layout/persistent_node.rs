//! The child of a persistent node with a time to live, the same as Curator's.

/// The name of the child, which is written to renew the time to live.
pub(crate) const TOUCH: &str = "touch";
