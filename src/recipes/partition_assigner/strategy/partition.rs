//! A partition that a member gets.

use std::sync::Arc;

use super::error::StrategyError;

/// A partition, as a strategy sees it. Members are named by their index in the slice of members.
///
/// ```
/// use zookeeper_recipes::partition_assigner::strategy::Partition;
///
/// let partition = Partition::new("orders-7").owner(2);
/// assert_eq!((&*partition.name, partition.owner), ("orders-7", Some(2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Partition {
    /// Identifies the partition.
    pub name: Arc<str>,
    /// The member that has it now. The default is `None`: no live member has it.
    pub owner: Option<usize>,
    /// The member to which an operator has pinned it. The default is `None`.
    pub pinned: Option<usize>,
}

impl Partition {
    /// Returns a partition that no member has and that is not pinned.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Partition { name: name.into(), owner: None, pinned: None }
    }

    /// Sets the member that has it now.
    #[must_use]
    pub fn owner(mut self, member: impl Into<Option<usize>>) -> Self {
        self.owner = member.into();
        self
    }

    /// Sets the member to which it is pinned.
    #[must_use]
    pub fn pinned(mut self, member: impl Into<Option<usize>>) -> Self {
        self.pinned = member.into();
        self
    }

    /// Checks that the owner, and the member to which it is pinned, are among this many members.
    pub(super) fn validate(&self, members: usize) -> Result<(), StrategyError> {
        for (what, index) in [("owned by", self.owner), ("pinned to", self.pinned)] {
            if let Some(index) = index.filter(|&index| index >= members) {
                let why = format!("it is {what} member {index} of {members}; the first is 0");
                return Err(StrategyError::InvalidPartition { name: self.name.as_ref().into(), why });
            }
        }
        Ok(())
    }
}
