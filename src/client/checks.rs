//! Checks of options.

use std::time::Duration;

use super::error::{Error, ErrorKind};
use crate::util::znode::Acl;

pub(super) fn at_least(what: &str, value: usize, least: usize) -> Result<(), Error> {
    if value >= least {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format!("{what} of {value}: must be at least {least}")))
}

pub(super) fn in_range(what: &str, value: Duration, least: Duration, most: Duration) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("{what} of {value:?}: must be at least {least:?} and at most {most:?}");
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// Checks that nodes with this ACL can be created.
pub(super) fn has_entries(acls: &[Acl]) -> Result<(), Error> {
    if !acls.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        "acls: an empty list; give at least one entry, such as Acl::anyone_all()",
    ))
}
