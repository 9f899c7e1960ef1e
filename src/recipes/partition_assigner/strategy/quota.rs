//! How many partitions each member gets: weighted max-min fairness by water filling. The level rises until all
//! partitions are given out. At level L, a member gets L times its weight, but at least its min and at most its max.

use std::cmp::{Ordering, Reverse};

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
    let max = |claim: &Claim| claim.max.min(total);
    if sum(claims.iter().map(max)) <= total as u128 {
        return claims.iter().map(max).collect();
    }
    let mut quotas: Vec<usize> = claims.iter().map(|claim| claim.min).collect();
    let mut rising = vec![false; claims.len()];
    // The total weight of the rising members, and what they have together: the total minus what the others have at
    // their min or max.
    let mut weight: u128 = 0;
    let mut water = total as u128 - sum(quotas.iter().copied());
    for edge in edges(total, claims) {
        // Reaching the level of this edge takes weight * amount / edge.weight. A product that overflows is more than
        // there is.
        let enough = water * u128::from(edge.weight) > weight.saturating_mul(edge.amount as u128);
        if !enough {
            break;
        }
        match edge.what {
            Change::Rises => {
                rising[edge.at] = true;
                weight += u128::from(edge.weight);
                water += edge.amount as u128;
            }
            Change::Full => {
                rising[edge.at] = false;
                quotas[edge.at] = edge.amount;
                weight -= u128::from(edge.weight);
                water -= edge.amount as u128;
            }
        }
    }
    let risen: Vec<usize> = (0..claims.len()).filter(|&at| rising[at]).collect();
    divide(water, weight, claims, &risen, &mut quotas);
    quotas
}

fn sum(amounts: impl Iterator<Item = usize>) -> u128 {
    amounts.map(|amount| amount as u128).sum()
}

/// The level at which something changes for a member: `amount / weight`, which is never divided.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at: usize,
    weight: u64,
    amount: usize,
    what: Change,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    /// The water has reached its min: from here on its share rises with the level.
    Rises,
    /// The water has reached its max.
    Full,
}

impl Edge {
    fn cmp_level(&self, other: &Edge) -> Ordering {
        let one = self.amount as u128 * u128::from(other.weight);
        one.cmp(&(other.amount as u128 * u128::from(self.weight)))
    }
}

/// Returns the edges of all members, from the lowest level to the highest.
fn edges(total: usize, claims: &[Claim]) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(2 * claims.len());
    for (at, &Claim { weight, min, max, .. }) in claims.iter().enumerate() {
        let max = max.min(total);
        if min < max {
            edges.push(Edge { at, weight, amount: min, what: Change::Rises });
            edges.push(Edge { at, weight, amount: max, what: Change::Full });
        }
    }
    edges.sort_unstable_by(Edge::cmp_level);
    edges
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

/// Divides `water` among the risen members in proportion to their weights, which add up to `weight`.
///
/// Shares are rounded down. The units that are left go to members with a remainder, at most one to each, so no share
/// exceeds its max: a share with a remainder is below it. There are fewer units than such members.
fn divide(water: u128, weight: u128, claims: &[Claim], risen: &[usize], quotas: &mut [usize]) {
    let mut left = water;
    let mut turns = Vec::new();
    for &at in risen {
        let Claim { weight: part, held, .. } = claims[at];
        let product = water * u128::from(part);
        let (share, remainder) = ((product / weight) as usize, product % weight);
        quotas[at] = share;
        left -= share as u128;
        if remainder > 0 {
            turns.push((Turn::of(held, share), Reverse(remainder), Reverse(held), at));
        }
    }
    turns.sort_unstable();
    for (.., at) in turns.into_iter().take(left as usize) {
        quotas[at] += 1;
    }
}
