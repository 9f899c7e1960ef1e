//! The sizes of requests. A server closes the whole connection if a request is too large, so such a request is not
//! sent.

use crate::client::core::Config;
use crate::engine::Op;
use crate::layout::queue::Paths;
use crate::util::znode::Acl;

/// Bytes of a transaction's step besides its path, its data and its ACL: a header, a version, lengths.
pub(super) const STEP_BYTES: usize = 64;
/// The part of a request that is reserved for the names in its paths, and for the reason of a dead letter.
pub(super) const RESERVED_BYTES: usize = 4 * 1024;

/// Returns approximately how many bytes these steps take in a request.
pub(super) fn of_steps(steps: &[Op]) -> usize {
    let of_step = |step: &Op| match step {
        Op::Create { path, data, acls, .. } => path.len() + data.len() + Acl::request_bytes(acls),
        Op::SetData { path, data, .. } => path.len() + data.len(),
        Op::Check { path, .. } | Op::Delete { path, .. } => path.len(),
    };
    steps.iter().map(|step| STEP_BYTES + of_step(step)).sum()
}

/// Returns the size of the largest item that can be put, claimed and made a dead letter: the request for each of these
/// contains all of its data.
pub(super) fn largest_payload(config: &Config, paths: &Paths) -> usize {
    let paths = 2 * paths.items.len() + 2 * paths.claims.len() + paths.dead.len();
    config.max_request_bytes.saturating_sub(RESERVED_BYTES + paths + Acl::request_bytes(&config.acls))
}
