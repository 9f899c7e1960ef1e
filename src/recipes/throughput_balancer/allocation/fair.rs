//! Shares in proportion to the weights, within the bounds of the members.

use std::cmp::Reverse;

use super::member::Member;
use crate::util::filling::{self, Filled, Vessel};

/// Returns the shares of the members, which are sorted by their ids.
pub(super) fn share<'a>(maximum: u64, members: impl Iterator<Item = &'a Member>) -> Vec<u64> {
    // No member can have more than the maximum, so it replaces a missing limit.
    let vessel = |member: &Member| {
        let max = member.cut(maximum).max(member.min);
        Vessel { weight: member.weight, min: member.min, max }
    };
    let vessels: Vec<_> = members.map(vessel).collect();
    if vessels.iter().map(|vessel| u128::from(vessel.min)).sum::<u128>() <= maximum.into() {
        return fill(maximum, &vessels);
    }
    // The minima exceed the maximum, so each member gets at most its own.
    let minima = vessels.iter().map(|vessel| Vessel { weight: vessel.min, min: 0, max: vessel.min });
    fill(maximum, &minima.collect::<Vec<_>>())
}

/// Fills the vessels. The units that are left go to the largest remainders, and among equal ones to the first.
fn fill(maximum: u64, vessels: &[Vessel]) -> Vec<u64> {
    let Filled { amounts: mut shares, mut remainders, left } = filling::fill(maximum, vessels);
    remainders.sort_unstable_by_key(|&(at, remainder)| (Reverse(remainder), at));
    for (at, _) in remainders.into_iter().take(usize::try_from(left).expect("fewer than members")) {
        shares[at] += 1;
    }
    shares
}
