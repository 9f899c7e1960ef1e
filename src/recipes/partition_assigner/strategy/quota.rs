//! How many partitions each member gets: in proportion to its weight, but at least its min and at most its max.

use std::cmp::{Ordering, Reverse};

use crate::util::filling::{Filled, Vessel, fill};

/// How a member takes part in the division.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// How much it counts; at least 1.
    pub(super) weight: u64,
    /// What it gets in any case.
    pub(super) min: usize,
    /// The most that it gets; at least `min`.
    pub(super) max: usize,
    /// What it keeps if it gets so much.
    pub(super) held: usize,
}

/// Returns how many of `total` partitions each member gets. The sum of the minima must not exceed it.
///
/// Each quota is the exact share, rounded down or up. The sum is `total`, or the sum of the maxima if that is less.
pub(super) fn quotas(total: usize, claims: &[Claim]) -> Vec<usize> {
    let vessel =
        |claim: &Claim| Vessel { weight: claim.weight, min: claim.min as u64, max: claim.max.min(total) as u64 };
    let vessels: Vec<_> = claims.iter().map(vessel).collect();
    let Filled { amounts, remainders, left } = fill(total as u64, &vessels);
    let mut quotas: Vec<usize> = amounts.into_iter().map(|amount| amount as usize).collect();
    let turn = |(at, remainder): (usize, u128)| {
        let held = claims[at].held;
        (Turn::of(held, quotas[at]), Reverse(remainder), Reverse(held), at)
    };
    let mut turns: Vec<_> = remainders.into_iter().map(turn).collect();
    turns.sort_unstable();
    for (.., at) in turns.into_iter().take(left as usize) {
        quotas[at] += 1;
    }
    quotas
}

/// Who gets the units that are left when all shares are rounded down. The first come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Without the unit it would give up a partition more.
    Keeps,
    /// It gets partitions in any case, or it has none.
    Receives,
    /// Nothing would change for it.
    Unchanged,
}

impl Turn {
    fn of(held: usize, rounded_down: usize) -> Self {
        match held.cmp(&rounded_down) {
            Ordering::Greater => Turn::Keeps,
            Ordering::Equal if held > 0 => Turn::Unchanged,
            _ => Turn::Receives,
        }
    }
}
