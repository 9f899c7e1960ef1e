//! What a server finds wrong with a request. What is checked before it is sent is in [`crate::backend::check`].

use crate::backend::Error;
pub(crate) use crate::backend::check::{node, op};
use crate::znode::Acl;

fn bad(why: &str) -> Error {
    Error::BadArguments(why.to_owned())
}

/// The server's check of the path of a new node, of what the check before it lets pass.
pub(crate) fn new_path(path: &str) -> Result<(), Error> {
    let relative = matches!(crate::path::split(path).1, "." | "..");
    if relative || path.chars().any(|c| c > '\u{ffff}') {
        return Err(bad("server error"));
    }
    Ok(())
}

/// The server's check of an ACL, for a session without credentials.
pub(crate) fn acls(acls: &[Acl]) -> Result<(), Error> {
    let known = |acl: &Acl| match acl.scheme() {
        "world" => acl.id() == "anyone",
        "digest" => acl.id().split(':').count() == 2,
        "ip" => acl.id().split('/').next().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok()),
        _ => false,
    };
    if acls.is_empty() || !acls.iter().all(known) {
        return Err(Error::InvalidAcl);
    }
    Ok(())
}
