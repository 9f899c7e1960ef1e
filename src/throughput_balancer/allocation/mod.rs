//! Who gets how much of a maximum: whole numbers in, whole numbers out.
//!
//! An [`Allocation`] is a rule. The same maximum and the same members give the same shares on every machine and in whatever
//! order the members are listed: a new leader computes what the old one did, and has nothing to rewrite. There are no floats,
//! nothing overflows up to `u64::MAX`, and no rule ever gives away more than the maximum.
//!
//! ```
//! use zookeeper_recipes::throughput_balancer::allocation::{Allocation, Member};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let members = [Member::new("a"), Member::new("b"), Member::new("c")];
//! let equal = Allocation::Equal.divide(1_000, &members)?;
//! assert_eq!(equal.shares, [333, 333, 333]);
//! assert_eq!(equal.unallocated, 1);
//!
//! // b can use no more than 100, and c counts twice.
//! let members = [Member::new("a"), Member::new("b").max(100), Member::new("c").weight(2)];
//! let fair = Allocation::FairShare.divide(1_000, &members)?;
//! assert_eq!(fair.shares, [300, 100, 600]);
//! # Ok(())
//! # }
//! ```
//!
//! # Which rule when
//!
//! | rule | a member's share | weight | min | max |
//! |---|---|---|---|---|
//! | [`Equal`](Allocation::Equal) (default) | `maximum / members`, rounded down | | reported | cut off |
//! | [`FairShare`](Allocation::FairShare) | in proportion to its weight, within its bounds; nothing is left over | yes | kept | kept, and what is above it goes to others |
//! | [`Custom`](Allocation::custom) | what your function says | as you like | reported | an error if exceeded |
//!
//! No share is ever above the member's own max. A share below its min is in [`Division::shortfall`], with who lacks how much:
//! even then there are shares, because members that kept older ones would exceed a maximum that was lowered.
//!
//! Two more rules that are often wanted are cases of `FairShare`: shares in proportion to weights are those of members without
//! bounds; a fixed share of k for each is that of members whose min and max are k, and a maximum too small for that is divided
//! equally and reported.
//!
//! ```
//! use zookeeper_recipes::throughput_balancer::allocation::{Allocation, Member};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let weighted = [Member::new("a").weight(3), Member::new("b")];
//! assert_eq!(Allocation::FairShare.divide(1_000, &weighted)?.shares, [750, 250]);
//!
//! let fixed = [Member::new("a").min(40).max(40), Member::new("b").min(40).max(40)];
//! assert_eq!(Allocation::FairShare.divide(1_000, &fixed)?.shares, [40, 40]);
//! let too_small = Allocation::FairShare.divide(60, &fixed)?;
//! assert_eq!(too_small.shares, [30, 30]);
//! assert_eq!(too_small.shortfall.map(|shortfall| shortfall.missing), Some(20));
//! # Ok(())
//! # }
//! ```

mod custom;
mod division;
mod error;
mod fair;
mod member;

pub use self::custom::Custom;
pub use self::division::{Division, Lacking, Shortfall};
pub use self::error::AllocationError;
pub use self::member::Member;

/// How a maximum is divided; see the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Allocation {
    /// Each gets `maximum / members`, rounded down. Of 50 for 64 members none gets any.
    #[default]
    Equal,
    /// Weighted max-min fairness: each gets in proportion to its weight, but at least its min and at most its max, and what
    /// that frees or takes is borne by the others in proportion again. Nothing is left over unless all have their max.
    ///
    /// Fractions go, as whole units, to those with the largest remainder, and of equal ones to the smaller id: so each share
    /// is less than one unit away from the ideal. That a larger maximum gives a member a unit less is possible.
    ///
    /// If the minima add up to more than the maximum, it is divided in proportion to them, which is reported as a
    /// [`Shortfall`].
    FairShare,
    /// A function of yours; see [`Allocation::custom`].
    Custom(Custom),
}

impl Allocation {
    /// Divides by a function of yours, which gets the maximum and the members, sorted by their ids, and returns the share of
    /// each in that order. It has to be a pure one: every leader must come to the same result. While members do not follow, a leader
    /// also asks how the others divide what is left: then there are fewer members, or none, and a smaller maximum.
    ///
    /// ```
    /// use zookeeper_recipes::throughput_balancer::allocation::{Allocation, Member};
    ///
    /// // The first one gets all.
    /// let allocation = Allocation::custom(|maximum, members: &[Member]| {
    ///     (0..members.len()).map(|place| if place == 0 { maximum } else { 0 }).collect()
    /// });
    /// let division = allocation.divide(1_000, &[Member::new("b"), Member::new("a")]).expect("a good function");
    /// assert_eq!(division.shares, [0, 1_000]);
    /// ```
    pub fn custom(function: impl Fn(u64, &[Member]) -> Vec<u64> + Send + Sync + 'static) -> Self {
        Allocation::Custom(Custom::new(function))
    }

    /// The share of each member, in the order in which they are given.
    ///
    /// # Errors
    /// [`AllocationError::InvalidMember`] and [`AllocationError::DuplicateId`] for members that make no sense, the others for
    /// a function of yours that returns too many, too few or too large shares, or panics. That minima cannot be met is none:
    /// see [`Division::shortfall`].
    pub fn divide(&self, maximum: u64, members: &[Member]) -> Result<Division, AllocationError> {
        let order = order(members)?;
        let sorted = || order.iter().map(|&at| &members[at]);
        let in_order = match self {
            Allocation::Equal => {
                let equal = maximum.checked_div(members.len() as u64).unwrap_or(0);
                sorted().map(|member| member.cut(equal)).collect()
            }
            Allocation::FairShare => fair::share(maximum, sorted()),
            Allocation::Custom(custom) => custom.divide(maximum, sorted().cloned().collect())?,
        };
        let mut shares = vec![0; members.len()];
        for (&at, share) in order.iter().zip(in_order) {
            shares[at] = share;
        }
        Ok(Division::new(maximum, shares, order.iter().map(|&at| (at, &members[at]))))
    }
}

/// The places of the members, sorted by their ids.
fn order(members: &[Member]) -> Result<Vec<usize>, AllocationError> {
    members.iter().try_for_each(Member::validate)?;
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_unstable_by(|&a, &b| members[a].id.cmp(&members[b].id));
    let twice = order.windows(2).find(|pair| members[pair[0]].id == members[pair[1]].id);
    match twice {
        Some(pair) => Err(AllocationError::DuplicateId { id: members[pair[0]].id.clone() }),
        None => Ok(order),
    }
}
