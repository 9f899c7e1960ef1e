//! The rules that a user can check in the head: rounded down, and what a member cannot use is left over.

use super::member::Member;

/// `maximum / members` each.
pub(super) fn equal<'a>(maximum: u64, count: usize, members: impl Iterator<Item = &'a Member>) -> Vec<u64> {
    fixed(u64::MAX, maximum, count, members)
}

/// `each`, or `maximum / members` if that is less.
pub(super) fn fixed<'a>(each: u64, maximum: u64, count: usize, members: impl Iterator<Item = &'a Member>) -> Vec<u64> {
    let equal = maximum.checked_div(count as u64).unwrap_or(0);
    members.map(|member| member.cut(each.min(equal))).collect()
}

/// In proportion to the weights.
pub(super) fn weighted<'a>(maximum: u64, members: impl Iterator<Item = &'a Member> + Clone) -> Vec<u64> {
    let all: u128 = members.clone().map(|member| u128::from(member.weight)).sum();
    members
        .map(|member| {
            let share = u128::from(maximum) * u128::from(member.weight) / all;
            member.cut(u64::try_from(share).expect("a part of the maximum"))
        })
        .collect()
}
