//! The state that all calls of one semaphore share.

use std::sync::Arc;

use super::permits::Permits;
use crate::contender::Spec;
use crate::contender::acquire::Acquire;

/// A semaphore: its two directories, and its permits.
pub(super) struct Shared {
    pub(super) acquire: Acquire,
    /// The line of the callers that ask for permits: `locks`.
    pub(super) line: Arc<Spec>,
    /// The leases, one for each permit that is taken or asked for: `leases`.
    pub(super) leases: Arc<Spec>,
    pub(super) permits: Permits,
}
