//! The znodes of a line: `_c_<uuid>-<base><number>`. The base says what the owner wants. The server appends the number.
//! A participant of an election may state its [rank](super::rank) before the base.

/// The base of a leader latch.
pub(crate) const LATCH: &str = "latch-";
/// The base of a mutex, of a leader selector, and of the line of a semaphore.
pub(crate) const LOCK: &str = "lock-";
/// The bases of a read-write lock.
pub(crate) const READ: &str = "__READ__";
pub(crate) const WRITE: &str = "__WRIT__";

/// The data with which Curator asks a contender to release.
pub(crate) const REVOKED: &[u8] = b"__REVOKE__";

/// The value at which the counter sticks; more than one node can carry it.
pub(crate) const STUCK: u32 = i32::MAX as u32;

/// The place in the line that the number at the end of a name gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// The place: nodes with smaller numbers were created earlier.
    Ordered(u32),
    /// The counter was exhausted when the node was created; its `czxid` decides.
    Exhausted,
}

/// Returns the number of a node of this line, or `None` for a foreign node.
///
/// The number is the text after the *last* occurrence of a base, as in Curator: everything before it belongs to the
/// contender (`_c_<uuid>-`) and may contain the base too. The first base that occurs in the name decides.
pub(crate) fn number_of(name: &str, bases: &[&str]) -> Option<Number> {
    bases.iter().find_map(|base| parse_number(name.rsplit_once(base)?.1))
}

fn parse_number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A sign, and a number too large to parse, both mean that the counter has passed its end.
    Some(match text.parse::<u32>() {
        Ok(number) if number < STUCK => Number::Ordered(number),
        _ => Number::Exhausted,
    })
}

/// Returns the digits for another node at the place of `name`. Beyond the end of the counter, digits do not determine
/// the place; then this returns the largest digits that do. The caller holds, so no other node is before it.
pub(crate) fn digits_of(name: &str, base: &str) -> String {
    match number_of(name, &[base]) {
        Some(Number::Ordered(number)) => format!("{number:010}"),
        _ => (STUCK - 1).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_occurrence_of_the_base_counts() {
        assert_eq!(number_of("lock-5-lock-0000000002", &[LOCK]), Some(Number::Ordered(2)));
        assert_eq!(number_of("lock-0000000002-x", &[LOCK]), None);
        assert_eq!(number_of("lock-1", &[]), None);
        assert_eq!(number_of("lock-1", &[""]), None);
    }

    #[test]
    fn the_edges_of_the_counter() {
        let number = |digits: &str| number_of(&format!("lock-{digits}"), &[LOCK]);
        assert_eq!(number("0000000000"), Some(Number::Ordered(0)));
        assert_eq!(number("2147483646"), Some(Number::Ordered(2_147_483_646)));
        let exhausted =
            ["2147483647", "2147483648", "4294967296", "99999999999999999999999", "-2147483648", "-000000001", "-0"];
        for digits in exhausted {
            assert_eq!(number(digits), Some(Number::Exhausted), "{digits}");
        }
        assert_eq!(number("00000000000000000000000005"), Some(Number::Ordered(5)));
    }

    #[test]
    fn the_digits_of_another_node_at_the_same_place() {
        assert_eq!(digits_of("_c_u-__WRIT__0000000007", "__WRIT__"), "0000000007");
        assert_eq!(digits_of("__WRIT__2147483646", "__WRIT__"), "2147483646");
        assert_eq!(digits_of("__WRIT__2147483647", "__WRIT__"), "2147483646");
        assert_eq!(digits_of("__WRIT__-2147483640", "__WRIT__"), "2147483646");
    }
}
