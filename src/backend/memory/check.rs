//! What is found wrong with a request before anybody tries it: by the client crate, whose checks the real adapter passes
//! on, and by the server's look at an ACL.

use crate::backend::{Error, Op};
use crate::types::Acl;

/// The client crate's own checks of one step.
pub(super) fn op(op: &Op) -> Result<(), Error> {
    match op {
        Op::Check { path, .. } | Op::SetData { path, .. } => node(path),
        Op::Delete { path, .. } => {
            node(path)?;
            not_root(path, "can not delete root node")
        }
        Op::Create { path, mode, acls, .. } => {
            if acls.is_empty() {
                return Err(Error::InvalidAcl);
            }
            valid(path, mode.is_sequential())?;
            not_root(path, "can not create root node")
        }
    }
}

/// The client crate's check of a path.
pub(super) fn node(path: &str) -> Result<(), Error> {
    valid(path, false)
}

fn not_root(path: &str, why: &str) -> Result<(), Error> {
    if path == "/" { Err(bad(why)) } else { Ok(()) }
}

fn bad(why: &str) -> Error {
    Error::BadArguments(why.to_owned())
}

/// The prefix of a sequential name may end with a slash: its node has only digits for a name.
fn valid(path: &str, prefix: bool) -> Result<(), Error> {
    if path.is_empty() {
        return Err(bad("path cannot be empty"));
    }
    let Some(elements) = path.strip_prefix('/') else {
        return Err(bad("path must start with '/'"));
    };
    if elements.is_empty() {
        return Ok(());
    }
    if elements.chars().any(is_forbidden) {
        return Err(bad("unsupported characters in path"));
    }
    let mut elements = elements.split('/').peekable();
    while let Some(element) = elements.next() {
        let last = elements.peek().is_none();
        match element {
            "" if last && prefix => {}
            "" if last => return Err(bad("path must not end with '/'")),
            "" => return Err(bad("empty node is not allowed in path")),
            "." | ".." if !last => return Err(bad("relative path is not allowed")),
            _ => {}
        }
    }
    Ok(())
}

fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

/// The server's check of the path of a new node, of what the crate lets pass.
pub(super) fn new_path(path: &str) -> Result<(), Error> {
    let relative = matches!(crate::path::split(path).1, "." | "..");
    if relative || path.chars().any(|c| c > '\u{ffff}') {
        return Err(bad("server error"));
    }
    Ok(())
}

/// The server's check of an ACL, for a session without credentials.
pub(super) fn acls(acls: &[Acl]) -> Result<(), Error> {
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
