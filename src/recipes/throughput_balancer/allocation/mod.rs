//! Divides a maximum among members: whole numbers in, whole numbers out.
//!
//! An [`Allocation`] is a rule. The same maximum and the same members give the same shares on every machine and in any
//! order of the members, so a new leader computes what the old one did and has nothing to rewrite. The rules use no
//! floats, nothing overflows up to `u64::MAX`, and no rule gives out more than the maximum.
//!
//! ```
//! use zookeeper_recipes::throughput_balancer::allocation::{
//!     Allocation, Member,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let members = [Member::new("a"), Member::new("b"), Member::new("c")];
//! let equal = Allocation::Equal.divide(1_000, &members)?;
//! assert_eq!(equal.shares, [333, 333, 333]);
//! assert_eq!(equal.unallocated, 1);
//!
//! // b can use no more than 100, and c counts twice.
//! let members = [
//!     Member::new("a"),
//!     Member::new("b").max(100),
//!     Member::new("c").weight(2),
//! ];
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
//! | [`Equal`](Allocation::Equal) (default) | `maximum / members`, rounded down | ignored | reported | cut off |
//! | [`FairShare`](Allocation::FairShare) | in proportion to its weight, within its bounds | used | kept | kept |
//! | [`Custom`](Allocation::custom) | what your function returns | up to you | reported | an error if exceeded |
//!
//! `FairShare` leaves nothing over unless all have their max: what exceeds a member's max goes to the others.
//!
//! No share exceeds the member's own max. If a share is below the member's min, [`Division::shortfall`] says how much
//! it lacks. Even then, shares are computed: if members kept older ones, they would exceed a maximum that was lowered.
//!
//! Two more rules are special cases of `FairShare`. For shares in proportion to weights, give the members no bounds.
//! For a fixed share of k each, give the members a min and a max of k; a maximum that is too small for that is divided
//! equally and reported.
//!
//! ```
//! use zookeeper_recipes::throughput_balancer::allocation::{
//!     Allocation, Member,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let weighted = [Member::new("a").weight(3), Member::new("b")];
//! let division = Allocation::FairShare.divide(1_000, &weighted)?;
//! assert_eq!(division.shares, [750, 250]);
//!
//! let fixed = ["a", "b"].map(|id| Member::new(id).min(40).max(40));
//! let division = Allocation::FairShare.divide(1_000, &fixed)?;
//! assert_eq!(division.shares, [40, 40]);
//! let too_small = Allocation::FairShare.divide(60, &fixed)?;
//! assert_eq!(too_small.shares, [30, 30]);
//! assert_eq!(too_small.shortfall.map(|lack| lack.missing), Some(20));
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

/// The rule by which a maximum is divided; see the [module](self).
///
/// ```
/// use zookeeper_recipes::throughput_balancer::Allocation;
///
/// assert_eq!(Allocation::default(), Allocation::Equal);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Allocation {
    /// Gives each member `maximum / members`, rounded down. If 64 members share 50, no member gets any.
    #[default]
    Equal,
    /// Weighted max-min fairness. Each member gets a share in proportion to its weight, but at least its min and at
    /// most its max. The others bear or share the difference, again in proportion. Nothing is left over unless all have
    /// their max.
    ///
    /// Units left by rounding go to the members with the largest remainders, and among equal ones to the smaller ids.
    /// So each share is less than one unit away from the ideal. A larger maximum may give a member one unit less.
    ///
    /// If the minima add up to more than the maximum, the maximum is divided in proportion to them, and a [`Shortfall`]
    /// reports that.
    FairShare,
    /// Calls your function; see [`Allocation::custom`].
    Custom(Custom),
}

impl Allocation {
    /// Returns a rule that calls your function.
    ///
    /// The function gets the maximum and the members, sorted by their ids, and returns the share of each in that order.
    /// It must be pure, because every leader must compute the same result. While some members do not follow, a leader
    /// also calls it to divide the rest among the others: then there are fewer members, or none, and a smaller maximum.
    ///
    /// ```
    /// use zookeeper_recipes::throughput_balancer::allocation::{
    ///     Allocation, Member,
    /// };
    ///
    /// // The first member gets everything.
    /// let allocation = Allocation::custom(|maximum, members: &[Member]| {
    ///     let share = |place| if place == 0 { maximum } else { 0 };
    ///     (0..members.len()).map(share).collect()
    /// });
    /// let members = [Member::new("b"), Member::new("a")];
    /// let division = allocation.divide(1_000, &members).expect("a good function");
    /// assert_eq!(division.shares, [0, 1_000]);
    /// ```
    pub fn custom(function: impl Fn(u64, &[Member]) -> Vec<u64> + Send + Sync + 'static) -> Self {
        Allocation::Custom(Custom::new(function))
    }

    /// Returns the share of each member, in the order in which the members are given.
    ///
    /// # Errors
    /// [`AllocationError::InvalidMember`] and [`AllocationError::DuplicateId`] for invalid members. The other errors
    /// are for your own function: it returned too many, too few or too large shares, or it panicked. Minima that cannot
    /// be met are not an error: see [`Division::shortfall`].
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

/// Returns the places of the members, sorted by their ids.
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
