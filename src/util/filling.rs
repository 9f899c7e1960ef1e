//! Weighted max-min fairness by water filling: the level rises until the water is used up. At level L, a vessel has L
//! times its weight, but at least its min and at most its max.

use std::cmp::Ordering;

/// Who takes part in the filling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vessel {
    /// At least 1, unless `min` is `max`.
    pub(crate) weight: u64,
    pub(crate) min: u64,
    /// At least `min`.
    pub(crate) max: u64,
}

/// What the vessels have in the end.
#[derive(Debug)]
pub(crate) struct Filled {
    /// What each vessel has, rounded down.
    pub(crate) amounts: Vec<u64>,
    /// The vessels for which something was cut off, and how much: comparable numbers, greater than 0. All of these are
    /// below their max.
    pub(crate) remainders: Vec<(usize, u128)>,
    /// How many units were cut off in all: fewer than there are remainders. 0 if all vessels are full.
    pub(crate) left: u64,
}

/// Pours in the water. The sum of the minima must not exceed it.
pub(crate) fn fill(water: u64, vessels: &[Vessel]) -> Filled {
    if vessels.iter().map(|vessel| u128::from(vessel.max)).sum::<u128>() <= water.into() {
        let amounts = vessels.iter().map(|vessel| vessel.max).collect();
        return Filled { amounts, remainders: Vec::new(), left: 0 };
    }
    let mut amounts: Vec<u64> = vessels.iter().map(|vessel| vessel.min).collect();
    let mut rising = vec![false; vessels.len()];
    // The total weight of the rising vessels, and what they have together: the water minus what the others have at
    // their min or max.
    let mut weight: u128 = 0;
    let mut water = water - amounts.iter().sum::<u64>();
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
                amounts[edge.at] = edge.amount;
                weight -= u128::from(edge.weight);
                water -= edge.amount;
            }
        }
    }
    let (mut remainders, mut left) = (Vec::new(), water);
    for at in (0..vessels.len()).filter(|&at| rising[at]) {
        let product = u128::from(water) * u128::from(vessels[at].weight);
        amounts[at] = u64::try_from(product / weight).expect("a part of the water");
        left -= amounts[at];
        if product % weight > 0 {
            remainders.push((at, product % weight));
        }
    }
    Filled { amounts, remainders, left }
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
    /// The water has reached its min: from here on its amount rises with the level.
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
