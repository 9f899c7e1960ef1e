//! Divides partitions among members: who gets which.
//!
//! A [`Strategy`] is a pure function. The same partitions and members, in the same order, give the same result on every
//! machine, so a new leader computes what the old one did. The result has the index of a member for each partition, or
//! `None` if no member can have it. Strategies use no floats and no random numbers. Nothing overflows for weights up to
//! `u64::MAX`.
//!
//! ```
//! use zookeeper_recipes::partition_assigner::strategy::{
//!     Member, Partition, Strategy,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Member 0 has all four, and member 1 is new: it gets two of them.
//! let partitions =
//!     ["p0", "p1", "p2", "p3"].map(|name| Partition::new(name).owner(0));
//! let members = [Member::new("a"), Member::new("b")];
//! let assigned = Strategy::Sticky.assign(&partitions, &members)?;
//! let moved = assigned.iter().filter(|&&member| member == Some(1)).count();
//! assert_eq!(moved, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Which strategy when
//!
//! | strategy | who gets a partition | weight | capacity |
//! |---|---|---|---|
//! | [`Sticky`](Strategy::Sticky) (default) | its owner, unless that has too many | used | kept |
//! | [`Eligible`](Strategy::eligible) | the same, of the members that your predicate allows | used | kept |
//! | [`Custom`](Strategy::custom) | whom your function returns | up to you | an error if exceeded |
//!
//! # Pins
//!
//! In each strategy, a [pinned](Partition::pinned) partition goes to the member to which it is pinned, whatever the
//! capacity of that member is and whatever your function or predicate says. It counts towards the member's quota and
//! capacity, so the member gets fewer others.
//!
//! # Many partitions
//!
//! For 10 000 partitions and 1 000 members, `Sticky` takes about a millisecond. `Eligible` calls your predicate ten
//! million times. Apart from that it takes some ten milliseconds if the predicate goes by labels, and up to a few
//! tenths of a second if each partition may go to other members.

mod class;
mod custom;
mod eligible;
mod error;
mod flow;
mod member;
mod member_set;
mod partition;
mod quota;
mod sticky;
mod task;
#[cfg(test)]
mod tests;

pub use self::custom::Custom;
pub use self::eligible::Eligible;
pub use self::error::StrategyError;
pub use self::member::Member;
pub use self::partition::Partition;
use self::task::Task;

/// Decides which member gets which partition; see the [module](self).
///
/// ```
/// use zookeeper_recipes::partition_assigner::strategy::Strategy;
///
/// assert_eq!(Strategy::default(), Strategy::Sticky);
/// ```
///
/// # What happens
///
/// With `Sticky`, 12 partitions, and members of weight 1 without a capacity, unless the table says otherwise:
///
/// | step | a | b | c | d | e | moved |
/// |---|---|---|---|---|---|---|
/// | a joins | 12 | | | | | 0 |
/// | b joins | 6 | 6 | | | | 6, all to b |
/// | c joins | 4 | 4 | 4 | | | 4, all to c |
/// | d joins | 3 | 3 | 3 | 3 | | 3, all to d |
/// | e joins | 3 | 3 | 2 | 2 | 2 | 2, all to e |
/// | a leaves | | 3 | 3 | 3 | 3 | 3, all of a |
/// | c gets the weight 2 | | 3 | 4 | 3 | 2 | 1 |
/// | b gets the capacity 1 | | 1 | 6 | 3 | 2 | 2, both of b |
/// | c leaves | | 1 | | 6 | 5 | 6, all of c |
/// | d and e get the capacity 4 | | 1 | | 4 | 4 | 3, which no member has |
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// Each partition stays with its owner unless that has more than its quota.
    ///
    /// **Quotas** are in proportion to the weights, and at most the capacities. What a member cannot take is divided
    /// among the others, again in proportion. A quota is this exact share, rounded down or up, and together they are
    /// exactly the partitions. If the capacities together are too small, some partitions get no member; those that a
    /// live member has come first.
    ///
    /// **Rounded up** is first a member that would otherwise give a partition up, and last one that would otherwise
    /// have as many as now. Among equals, the largest remainder comes first, then the member that has most, then the
    /// first in the slice.
    ///
    /// **Moves** are as few as such quotas allow. If the weights are equal, and the partitions were balanced before:
    ///
    /// * When a member joins, partitions move only to that member, and no more than its quota. Without capacities and
    ///   pins, that is at most `partitions / members`, rounded up.
    /// * When a member leaves, only its partitions move.
    ///
    /// If the weights differ, rounding may move a few more: at most one to each other member when a member joins, and
    /// at most one from each other member when a member leaves.
    ///
    /// **Which** partitions a member gives up depends on its id and their names only. Each member has an order of its
    /// own. If all members gave up the last in the slice, the same partition would move each time that a member joins.
    /// The partitions that move go to the members with room in turn, in the order of the slices.
    #[default]
    Sticky,
    /// Like `Sticky`, but only among the members that a predicate allows; see [`Strategy::eligible`].
    Eligible(Eligible),
    /// Calls your function; see [`Strategy::custom`].
    Custom(Custom),
}

impl Strategy {
    /// Returns a strategy that gives a partition only to members for which your predicate is true.
    ///
    /// The predicate gets the name of a partition and a member. It must be pure, because every leader must compute the
    /// same result. It is called at most once for each partition and member, and not for pinned partitions.
    ///
    /// As many partitions get a member as the predicate and the capacities allow, even if others must move for that.
    /// Those that an eligible member has come first.
    ///
    /// Members that are eligible for the same partitions and for no others, for example those of a rack, divide them as
    /// with [`Sticky`](Strategy::Sticky). Where such groups overlap, the division is as balanced as the predicate and
    /// the capacities allow: the sum of `count² / weight` of all members is the smallest for these partitions. There, a
    /// partition moves only if that makes the sum smaller, or gives another one a member.
    ///
    /// ```
    /// use zookeeper_recipes::partition_assigner::strategy::{
    ///     Member, Partition, Strategy,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // "east.orders-0" may go only to members whose label "rack" is "east".
    /// let strategy = Strategy::eligible(|partition, member| {
    ///     let rack = partition.split('.').next();
    ///     member.labels.get("rack").map(String::as_str) == rack
    /// });
    /// let members = [
    ///     Member::new("a").label("rack", "east"),
    ///     Member::new("b").label("rack", "west"),
    ///     Member::new("c").label("rack", "west"),
    /// ];
    /// let names = ["east.orders-0", "west.orders-1", "west.orders-2", "north.orders-3"];
    /// let assigned = strategy.assign(&names.map(Partition::new), &members)?;
    /// assert_eq!(assigned, [Some(0), Some(1), Some(2), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn eligible(predicate: impl Fn(&str, &Member) -> bool + Send + Sync + 'static) -> Self {
        Strategy::Eligible(Eligible::new(predicate))
    }

    /// Returns a strategy that calls your function.
    ///
    /// The function gets the partitions and the members, and returns for each partition the index of its member, or
    /// `None`. It must be pure, because every leader must compute the same result. What it returns for pinned
    /// partitions is ignored. Members that operators have drained are not among those that it gets.
    ///
    /// ```
    /// use zookeeper_recipes::partition_assigner::strategy::{
    ///     Member, Partition, Strategy,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // In turn, whatever they have now.
    /// let strategy = Strategy::custom(|partitions, members| {
    ///     let turn = |at: usize| at.checked_rem(members.len());
    ///     (0..partitions.len()).map(turn).collect()
    /// });
    /// let partitions = ["p0", "p1", "p2"].map(|name| Partition::new(name).owner(1));
    /// let members = [Member::new("a"), Member::new("b")];
    /// let assigned = strategy.assign(&partitions, &members)?;
    /// assert_eq!(assigned, [Some(0), Some(1), Some(0)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn custom(function: impl Fn(&[Partition], &[Member]) -> Vec<Option<usize>> + Send + Sync + 'static) -> Self {
        Strategy::Custom(Custom::new(function))
    }

    /// Returns for each partition the index of its member, or `None` if no member can have it.
    ///
    /// # Errors
    /// [`StrategyError::InvalidMember`] and [`StrategyError::InvalidPartition`] for invalid arguments. The other errors
    /// are for your own function: it returned too many or too few entries, a member that does not exist, or more than a
    /// capacity, or it panicked. A predicate can only panic. Partitions that get no member are not an error.
    pub fn assign(&self, partitions: &[Partition], members: &[Member]) -> Result<Vec<Option<usize>>, StrategyError> {
        let task = Task::new(partitions, members)?;
        match self {
            Strategy::Sticky => Ok(sticky::assign(&task)),
            Strategy::Eligible(eligible) => eligible.assign(&task),
            Strategy::Custom(custom) => custom.assign(&task),
        }
    }
}
