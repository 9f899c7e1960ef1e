//! The checks that a server makes of a request.

use std::sync::Arc;

use super::identity::network;
use crate::protocol::ErrorCode;
use crate::util::znode::Acl;

/// Checks the path of a node that is written or compared, as a server does.
pub(crate) fn path(path: &str) -> Result<(), ErrorCode> {
    crate::util::path::validate_or_root(path).map_err(|_| ErrorCode::BadArguments)
}

/// Checks the path of a new node, as a server does.
pub(crate) fn new_path(path: &str) -> Result<(), ErrorCode> {
    if crate::util::path::validate(path).is_err() {
        return Err(ErrorCode::BadArguments);
    }
    Ok(())
}

/// Checks an ACL, as a server does. Returns it as the server keeps it: each entry once.
pub(crate) fn acls(acls: &[Acl]) -> Result<Arc<[Acl]>, ErrorCode> {
    let known = |acl: &Acl| match acl.scheme() {
        "world" => acl.id() == "anyone",
        // Java's split ignores empty parts at the end.
        "digest" => acl.id().trim_end_matches(':').split(':').count() == 2,
        "ip" => network(acl.id()).is_some(),
        _ => false,
    };
    if acls.is_empty() || !acls.iter().all(known) {
        return Err(ErrorCode::InvalidAcl);
    }
    let is_first = |(at, acl): &(usize, &Acl)| !acls[..*at].contains(acl);
    Ok(acls.iter().enumerate().filter(is_first).map(|(_, acl)| acl.clone()).collect())
}
