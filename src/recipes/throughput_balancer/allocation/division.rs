//! The result of a division: the shares, what is left over, and the members that got too little.

use std::fmt;

use super::member::Member;

/// The result of dividing a maximum.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Division {
    /// The share of each member, in the order in which the members were given.
    pub shares: Vec<u64>,
    /// What is left over.
    pub unallocated: u64,
    /// The members that got less than their minimum, if there are any.
    pub shortfall: Option<Shortfall>,
}

impl Division {
    /// Returns the division. `members` has each member with its place in `shares`, sorted by their ids.
    pub(super) fn new<'a>(maximum: u64, shares: Vec<u64>, members: impl Iterator<Item = (usize, &'a Member)>) -> Self {
        let shortfall = Shortfall::of(members.map(|(at, member)| (member, shares[at])));
        let unallocated = maximum - shares.iter().sum::<u64>();
        Division { shares, unallocated, shortfall }
    }
}

/// Members that got less than their minimum. This is reported, and the other members still get their shares.
///
/// ```
/// use zookeeper_recipes::throughput_balancer::allocation::{
///     Allocation, Member,
/// };
///
/// let members = [Member::new("a").min(80), Member::new("b").min(40)];
/// let division =
///     Allocation::FairShare.divide(90, &members).expect("good members");
/// assert_eq!(division.shares, [60, 30]);
/// let shortfall = division.shortfall.expect("120 are more than 90");
/// assert_eq!(shortfall.missing, 30);
/// assert_eq!(
///     shortfall.to_string(),
///     "30 are missing for the minima of 2 members \
///      (\"a\": 60 of 80, \"b\": 30 of 40)"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Shortfall {
    /// How much they lack in total.
    pub missing: u128,
    /// The members, sorted by their ids.
    pub members: Vec<Lacking>,
}

impl Shortfall {
    /// Returns what the members with these shares lack, sorted by their ids; `None` if all have enough.
    pub(in crate::recipes::throughput_balancer) fn of<'a>(
        members: impl Iterator<Item = (&'a Member, u64)>,
    ) -> Option<Self> {
        let lacking = |(member, share): (&Member, u64)| {
            (share < member.min).then(|| Lacking { id: member.id.clone(), share, wanted: member.min })
        };
        let members: Vec<_> = members.filter_map(lacking).collect();
        let missing = members.iter().map(|one| u128::from(one.wanted - one.share)).sum();
        (!members.is_empty()).then_some(Shortfall { missing, members })
    }
}

/// A member that got less than its minimum.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Lacking {
    /// The member's id.
    pub id: String,
    /// What it got.
    pub share: u64,
    /// Its minimum.
    pub wanted: u64,
}

/// How many members the text of a shortfall names.
const NAMED: usize = 3;

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.members.len();
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{} are missing for the minima of {count} member{plural} (", self.missing)?;
        for (place, lacking) in self.members.iter().take(NAMED).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{lacking}")?;
        }
        f.write_str(if count > NAMED { ", …)" } else { ")" })
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} of {}", self.id, self.share, self.wanted)
    }
}

impl std::error::Error for Shortfall {}
