//! The errors of an assignment.

/// Why partitions could not be assigned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// A member's weight is zero.
    #[error("member {id:?}: {why}")]
    InvalidMember {
        /// The member's id.
        id: String,
        /// Which value, and what is allowed.
        why: String,
    },
    /// A partition is owned by, or pinned to, a member that does not exist.
    #[error("partition {name:?}: {why}")]
    InvalidPartition {
        /// The partition's name.
        name: String,
        /// Which value, and what is allowed.
        why: String,
    },
    /// The function did not return one entry for each partition.
    #[error("the strategy function returned {got} entries for {expected} partitions")]
    WrongLength {
        /// How many partitions there are.
        expected: usize,
        /// How many entries it returned.
        got: usize,
    },
    /// The function returned the index of a member that does not exist.
    #[error("the strategy function gave partition {partition:?} to member {index} of {members}; the first is 0")]
    NoSuchMember {
        /// The partition's name.
        partition: String,
        /// The index that it returned.
        index: usize,
        /// How many members there are.
        members: usize,
    },
    /// The function gave a member more than its capacity.
    #[error("the strategy function gave member {member:?} {assigned} partitions, more than its capacity of {capacity}")]
    OverCapacity {
        /// The member's id.
        member: String,
        /// The member's own capacity.
        capacity: usize,
        /// How many it would have, with those that are pinned to it.
        assigned: usize,
    },
    /// The function panicked.
    #[error("the strategy function panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}
