//! The order in which people expect names: numbers in them count by their value, so `worker-2` is before `worker-10`.

use std::cmp::Ordering;

/// A part of a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    /// Digits: how many without leading zeros, and these. So numbers of any length are compared by their value.
    Number(usize, &'a str),
    /// Anything else.
    Text(&'a str),
}

/// Compares two names. Only equal names are equal: `07` is after `7`.
pub(crate) fn natural(one: &str, other: &str) -> Ordering {
    parts(one).cmp(parts(other)).then_with(|| one.len().cmp(&other.len())).then_with(|| one.cmp(other))
}

/// Returns the names in this order.
pub(crate) fn sorted<T: ToString>(names: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    names.sort_by(|one, other| natural(one, other));
    names
}

fn parts(mut rest: &str) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (part, after) = rest.split_at_checked(end).filter(|(part, _)| !part.is_empty())?;
        rest = after;
        let digits = part.trim_start_matches('0');
        Some(if is_number { Part::Number(digits.len(), digits) } else { Part::Text(part) })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_count_by_their_value() {
        let sorted = [
            "",
            "0",
            "2",
            "10",
            "010",
            "99999999999999999999",
            "100000000000000000000",
            "a",
            "a2b",
            "a10a",
            "a10b",
            "aa1",
            "worker-2",
            "worker-10",
            "ä1",
        ];
        assert!(sorted.is_sorted_by(|one, other| natural(one, other) == Ordering::Less));
    }

    proptest! {
        #[test]
        fn it_is_an_order_of_all_names(names in prop::array::uniform3("[0-2ab]{0,4}")) {
            let [one, two, three] = names.each_ref().map(String::as_str);
            prop_assert_eq!(natural(one, two), natural(two, one).reverse());
            prop_assert_eq!(natural(one, two) == Ordering::Equal, one == two);
            if natural(one, two).is_le() && natural(two, three).is_le() {
                prop_assert!(natural(one, three).is_le());
            }
        }
    }
}
