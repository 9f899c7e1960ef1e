//! How large requests are. A server closes the whole connection when one is too large, so none is sent.

use super::znodes::Paths;
use crate::backend::Op;
use crate::client::core::Config;
use crate::types::Acl;

/// What a step of a transaction has besides its path, its data and its ACL: a header, a version, lengths.
pub(super) const STEP_BYTES: usize = 64;
/// The same for an entry of an ACL.
const ACL_BYTES: usize = 16;
/// Of what a request may have, this is kept for the names in its paths, and for the reason of a dead letter.
pub(super) const RESERVED_BYTES: usize = 4 * 1024;

/// What an ACL takes of a request.
pub(super) fn of_acls(acls: &[Acl]) -> usize {
    acls.iter().map(|acl| acl.scheme.len() + acl.id.len() + ACL_BYTES).sum()
}

/// About what these steps take of a request.
pub(super) fn of_steps(steps: &[Op]) -> usize {
    let of_step = |step: &Op| match step {
        Op::Create { path, data, acls, .. } => path.len() + data.len() + of_acls(acls),
        Op::SetData { path, data, .. } => path.len() + data.len(),
        Op::Check { path, .. } | Op::Delete { path, .. } => path.len(),
    };
    steps.iter().map(|step| STEP_BYTES + of_step(step)).sum()
}

/// What a node may hold that can be put, claimed and made a dead letter: each takes a request with all of it.
pub(super) fn largest_payload(config: &Config, paths: &Paths) -> usize {
    let paths = 2 * paths.items.len() + 2 * paths.claims.len() + paths.dead.len();
    config.max_request_bytes.saturating_sub(RESERVED_BYTES + paths + of_acls(&config.acls))
}
