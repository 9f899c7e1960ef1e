//! The checks of a request before it is sent.

use std::time::Duration;

use super::error::Error;
use super::ops::Op;
use crate::util::znode::CreateMode;

/// Checks one step.
pub(crate) fn op(op: &Op) -> Result<(), Error> {
    match op {
        Op::Check { path, .. } | Op::SetData { path, .. } => node(path),
        Op::Delete { path, .. } => delete(path),
        Op::Create { path, mode, acls, .. } => create(path, *mode, acls.is_empty()),
    }
}

/// Checks the deletion of a node.
pub(crate) fn delete(path: &str) -> Result<(), Error> {
    node(path)?;
    not_root(path, "can not delete root node")
}

/// Checks the creation of a node.
pub(crate) fn create(path: &str, mode: CreateMode, without_acl: bool) -> Result<(), Error> {
    if without_acl {
        return Err(Error::InvalidAcl);
    }
    valid(path, mode.is_sequential())?;
    not_root(path, "can not create root node")?;
    match mode {
        CreateMode::PersistentTtl(ttl) => self::ttl(ttl).map_err(Error::BadArguments),
        _ => Ok(()),
    }
}

/// Checks a time to live. The error names the value and the allowed range.
pub(crate) fn ttl(ttl: Duration) -> Result<(), String> {
    let most = CreateMode::MAX_TTL;
    if ttl.as_millis() >= 1 && ttl.as_millis() <= most.as_millis() {
        return Ok(());
    }
    Err(format!("a time to live of {ttl:?}: must be at least 1ms and at most {} ms", most.as_millis()))
}

/// Checks the path of a node that exists, or may exist.
pub(crate) fn node(path: &str) -> Result<(), Error> {
    valid(path, false)
}

fn not_root(path: &str, why: &str) -> Result<(), Error> {
    if path == "/" { Err(bad(why)) } else { Ok(()) }
}

fn bad(why: &str) -> Error {
    Error::BadArguments(why.to_owned())
}

/// Checks a path. The prefix of a sequential node may end with a slash: the node's name is then only the digits.
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
