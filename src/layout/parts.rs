//! Parts that names of several recipes have in common: the number that a server appends, UUIDs, and protection.

use uuid::Uuid;

/// The length of the number that a server appends.
pub(crate) const NUMBER_BYTES: usize = 10;
/// The lengths of the parts of a UUID.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];
/// The length of a UUID as kazoo writes it.
const HEX_BYTES: usize = 32;

/// Returns the part before the number at the end of a name.
pub(crate) fn before_number(name: &str) -> Option<&str> {
    let (before, number) = name.split_at_checked(name.len().checked_sub(NUMBER_BYTES)?)?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(before)
}

/// Returns whether it is a UUID and nothing else: a member of a double barrier, or a producer of a queue.
pub(crate) fn is_uuid(name: &str) -> bool {
    let parts = name.split('-').map(str::len);
    is_hex_uuid(name) || (parts.eq(UUID_PARTS) && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()))
}

/// Returns whether it is a UUID without hyphens: a member of kazoo's double barrier, or a lease of its semaphore.
pub(crate) fn is_hex_uuid(name: &str) -> bool {
    name.len() == HEX_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the prefix of a protected node's name: `_c_<uuid>-` (40 bytes), as Curator writes it.
pub(crate) fn protection(uuid: Uuid) -> String {
    format!("_c_{uuid}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_curators() {
        let prefix = protection(Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert_eq!(prefix, "_c_01234567-89ab-cdef-0123-456789abcdef-");
        assert_eq!(prefix.len(), 40);
    }
}
