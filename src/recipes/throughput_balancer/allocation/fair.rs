//! Weighted max-min fairness by water filling: the level rises until the maximum is used up. At level L, a member has L
//! times its weight, but at least its min and at most its max.

use std::cmp::{Ordering, Reverse};

use super::member::Member;

/// How a member takes part in the filling.
#[derive(Debug, Clone, Copy)]
struct Vessel {
    weight: u64,
    min: u64,
    max: u64,
}

/// Returns the shares of the members, which are sorted by their ids.
pub(super) fn share<'a>(maximum: u64, members: impl Iterator<Item = &'a Member>) -> Vec<u64> {
    // No member can have more than the maximum, so it replaces a missing limit.
    let vessel = |member: &Member| {
        let max = member.cut(maximum).max(member.min);
        Vessel { weight: member.weight, min: member.min, max }
    };
    let vessels: Vec<_> = members.map(vessel).collect();
    if total(&vessels, |vessel| vessel.min) <= maximum.into() {
        return fill(maximum, &vessels);
    }
    // The minima exceed the maximum, so each member gets at most its own.
    let minima = vessels.iter().map(|vessel| Vessel { weight: vessel.min, min: 0, max: vessel.min });
    fill(maximum, &minima.collect::<Vec<_>>())
}

fn total(vessels: &[Vessel], of: impl Fn(&Vessel) -> u64) -> u128 {
    vessels.iter().map(|vessel| u128::from(of(vessel))).sum()
}

/// The level at which something changes for a vessel: `amount / weight`, which is never divided.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at: usize,
    weight: u64,
    amount: u64,
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
        let one = u128::from(self.amount) * u128::from(other.weight);
        one.cmp(&(u128::from(other.amount) * u128::from(self.weight)))
    }
}

/// Returns what each vessel has when `maximum` has been poured in. The sum of the minima must not exceed it.
fn fill(maximum: u64, vessels: &[Vessel]) -> Vec<u64> {
    if total(vessels, |vessel| vessel.max) <= maximum.into() {
        return vessels.iter().map(|vessel| vessel.max).collect();
    }
    let mut shares: Vec<u64> = vessels.iter().map(|vessel| vessel.min).collect();
    let mut rising = vec![false; vessels.len()];
    // The total weight of the rising vessels, and what they have together: the maximum minus what the others have at
    // their min or max.
    let mut weight: u128 = 0;
    let mut water = maximum - shares.iter().sum::<u64>();
    for edge in edges(vessels) {
        // Reaching the level of this edge takes weight * amount / edge.weight. A product that overflows is more than
        // there is.
        let enough = u128::from(water) * u128::from(edge.weight) > weight.saturating_mul(edge.amount.into());
        if !enough {
            break;
        }
        match edge.what {
            Change::Rises => {
                rising[edge.at] = true;
                weight += u128::from(edge.weight);
                water += edge.amount;
            }
            Change::Full => {
                rising[edge.at] = false;
                shares[edge.at] = edge.amount;
                weight -= u128::from(edge.weight);
                water -= edge.amount;
            }
        }
    }
    let risen = (0..vessels.len()).filter(|&at| rising[at]).map(|at| (at, vessels[at].weight));
    for (at, share) in proportional(water, weight, risen) {
        shares[at] = share;
    }
    shares
}

/// Returns the edges of all vessels, from the lowest level to the highest.
fn edges(vessels: &[Vessel]) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(2 * vessels.len());
    for (at, &Vessel { weight, min, max }) in vessels.iter().enumerate() {
        if min < max {
            edges.push(Edge { at, weight, amount: min, what: Change::Rises });
            edges.push(Edge { at, weight, amount: max, what: Change::Full });
        }
    }
    edges.sort_unstable_by(Edge::cmp_level);
    edges
}

/// Divides `water` in proportion to the weights, which add up to `weight`. Shares are rounded down, and the remaining
/// units go to the largest remainders, and among equal ones to the first. There are fewer units than shares with a
/// remainder, so no share exceeds its max: a share with a remainder is below it.
fn proportional(water: u64, weight: u128, parts: impl Iterator<Item = (usize, u64)>) -> Vec<(usize, u64)> {
    let mut remainders = Vec::new();
    let mut shares = Vec::new();
    let mut left = water;
    for (at, part) in parts {
        let product = u128::from(water) * u128::from(part);
        let share = u64::try_from(product / weight).expect("a part of the water");
        remainders.push((Reverse(product % weight), shares.len()));
        shares.push((at, share));
        left -= share;
    }
    remainders.sort_unstable();
    for (_, place) in remainders.into_iter().take(usize::try_from(left).expect("fewer than members")) {
        shares[place].1 += 1;
    }
    shares
}
