//! The names of kazoo's znodes that differ from Curator's. The names of its parties are in `group_member`.

use super::parts::{before_number, is_hex_uuid};

/// The base of its `Lock`, `WriteLock` and `Election`.
pub(crate) const LOCK: &str = "__lock__";
/// The base of its `ReadLock`.
pub(crate) const READ: &str = "__rlock__";

/// The suffix that turns the path of a semaphore into the path of its line. Its leases are in the path itself.
pub(crate) const SEMAPHORE_LINE: &str = "-__lock__";

/// The base of the items of a `Queue`, in its path, and of a `LockingQueue`, in [`ENTRIES`].
const ENTRY: &str = "entry-";
/// The directory of the items of a `LockingQueue`, below its path.
pub(crate) const ENTRIES: &str = "entries";
/// The directory of the items that its consumers have taken.
pub(crate) const TAKEN: &str = "taken";
/// The number of digits of a priority, in the names of items.
const PRIORITY_BYTES: usize = 3;

/// Returns whether this is the name of an item: the base, a priority of three digits, a hyphen, and a number.
pub(super) fn is_entry(name: &str) -> bool {
    let priority = name.strip_prefix(ENTRY).and_then(before_number).and_then(|priority| priority.strip_suffix('-'));
    priority.is_some_and(|digits| digits.len() == PRIORITY_BYTES && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether this is the name of a member of a `ShallowParty`: a UUID without hyphens, a hyphen, and the id.
pub(crate) fn is_shallow_member(name: &str) -> bool {
    name.split_once('-').is_some_and(|(uuid, _)| is_hex_uuid(uuid))
}

/// Returns the path of the semaphore whose line this directory may be.
pub(crate) fn semaphore_of(directory: &str) -> Option<&str> {
    directory.strip_suffix(SEMAPHORE_LINE).filter(|path| !path.is_empty() && !path.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_shallow_party_is_known_by_its_name() {
        let uuid = "8d2b5a0e6a864c3c8a273f1f5f4c9a01";
        assert!(is_shallow_member(&format!("{uuid}-host-1")) && is_shallow_member(&format!("{uuid}-")));
        for other in [uuid, "host-1", "8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01", "", &format!("{uuid}__party__")] {
            assert!(!is_shallow_member(other), "{other}");
        }
    }

    #[test]
    fn the_semaphore_of_a_directory_beside_it() {
        assert_eq!(
            ["/s-__lock__", "/s", "/-__lock__", "/a/-__lock__"].map(semaphore_of),
            [Some("/s"), None, None, None]
        );
    }
}
