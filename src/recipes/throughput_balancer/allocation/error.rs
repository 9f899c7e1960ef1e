//! The errors of a division.

/// Why a maximum could not be divided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// A member's weight is zero, or its min is above its max.
    #[error("member {id:?}: {why}")]
    InvalidMember {
        /// The member's id.
        id: String,
        /// Which value, and what is allowed.
        why: String,
    },
    /// Two members have the same id.
    #[error("two members have the id {id:?}")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// The function did not return one share for each member.
    #[error("the allocation function returned {returned} shares for {members} members")]
    WrongLength {
        /// How many members there are.
        members: usize,
        /// How many shares it returned.
        returned: usize,
    },
    /// The function gave out more than the maximum.
    #[error("the allocation function gave out {sum}, more than the maximum of {maximum}")]
    ExceedsMaximum {
        /// The sum of the shares.
        sum: u128,
        /// The maximum.
        maximum: u64,
    },
    /// The function gave a member more than its max.
    #[error("the allocation function gave member {id:?} {share}, more than its max of {max}")]
    ExceedsMemberMax {
        /// The member's id.
        id: String,
        /// What the function gave it.
        share: u64,
        /// The member's own max.
        max: u64,
    },
    /// The function panicked.
    #[error("the allocation function panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}
