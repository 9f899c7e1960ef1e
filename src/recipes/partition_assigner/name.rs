//! What the names of partitions and the ids of members may be.

use crate::util::path::{quoted, validate};

/// The longest id of a member. Each leader reads the nodes of all members.
pub(super) const MOST_ID_BYTES: usize = 256;

/// Checks the name of a partition. The error names it, and what is allowed.
pub(super) fn check_partition(name: &str) -> Result<(), String> {
    check_name("partition", name)
}

/// Checks the id of a member. The error names it, and what is allowed.
pub(super) fn check_member(id: &str) -> Result<(), String> {
    check_name("member", id)?;
    match id.len() {
        0..=MOST_ID_BYTES => Ok(()),
        bytes => Err(format!("the id of a member with {bytes} bytes; at most {MOST_ID_BYTES} are allowed")),
    }
}

/// Checks that this can be part of the name of a node.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let why = match name {
        "" => "must not be empty",
        _ if name.contains('/') => "must not contain '/'",
        _ => match validate(&format!("/{name}")) {
            Ok(()) => return Ok(()),
            Err(error) => error.why,
        },
    };
    Err(format!("{what} {}: {why}", quoted(name)))
}
