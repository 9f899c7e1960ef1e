//! The names of kazoo's znodes that differ from Curator's. The names of its parties are in `group_member`.

use super::parts::before_number;

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

/// Returns the path of the semaphore whose line this directory may be.
pub(crate) fn semaphore_of(directory: &str) -> Option<&str> {
    directory.strip_suffix(SEMAPHORE_LINE).filter(|path| !path.is_empty() && !path.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_semaphore_of_a_directory_beside_it() {
        assert_eq!(
            ["/s-__lock__", "/s", "/-__lock__", "/a/-__lock__"].map(semaphore_of),
            [Some("/s"), None, None, None]
        );
    }
}
