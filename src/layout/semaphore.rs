//! The znodes of a semaphore, the same as Curator's.
//!
//! ```text
//! <path>/locks/_c_<uuid>-lock-<number>      the line
//! <path>/leases/_c_<uuid>-lease-<number>    one for each permit
//! ```

use super::line::number_of;

/// The directory of the line, below the path.
pub(crate) const LINE: &str = "locks";
/// The directory of the leases, below the path.
pub(crate) const LEASES: &str = "leases";
/// The base of a lease.
pub(crate) const LEASE: &str = "lease-";

/// Returns whether this is the name of a lease.
pub(crate) fn is_lease(name: &str) -> bool {
    number_of(name, &[LEASE]).is_some()
}

/// Returns the part of a lease's name by which Curator orders leases.
pub(crate) fn digits_of_lease(name: &str) -> &str {
    name.rsplit_once(LEASE).map_or(name, |(_, number)| number)
}
