//! A member that can get partitions.

use std::collections::BTreeMap;

use super::error::StrategyError;
use crate::layout::partition_assigner::Presence;

/// A member that can get partitions, as a strategy sees it.
///
/// ```
/// use zookeeper_recipes::partition_assigner::strategy::Member;
///
/// let member = Member::new("worker-0000000007")
///     .weight(3)
///     .capacity(500)
///     .label("rack", "east");
/// assert!(member.validate().is_ok());
/// assert_eq!(member.labels["rack"], "east");
/// assert!(Member::new("worker-0000000008").weight(0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Member {
    /// Identifies the member.
    pub id: String,
    /// How much it counts compared with the others. At least 1; the default is 1.
    pub weight: u64,
    /// The most partitions that it takes; 0 for none. The default, `None`, is no limit.
    pub capacity: Option<usize>,
    /// What your function can decide by, for example a rack or a version.
    pub labels: BTreeMap<String, String>,
}

impl Member {
    /// Returns a member of weight 1, with no limit and no labels.
    pub fn new(id: impl Into<String>) -> Self {
        Member { id: id.into(), weight: 1, capacity: None, labels: BTreeMap::new() }
    }

    /// Returns the member with the options that it has written.
    pub(in crate::recipes::partition_assigner) fn of(id: &str, presence: &Presence) -> Self {
        let Presence { weight, capacity, labels } = presence.clone();
        Member { id: id.into(), weight, capacity, labels }
    }

    /// Sets the weight.
    #[must_use]
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the most partitions that the member takes.
    #[must_use]
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Sets a label. A second value for the same key replaces the first.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Checks that the values are valid.
    ///
    /// # Errors
    /// [`StrategyError::InvalidMember`] if the weight is zero.
    pub fn validate(&self) -> Result<(), StrategyError> {
        if self.weight == 0 {
            let why = "the weight is 0; it must be at least 1".into();
            return Err(StrategyError::InvalidMember { id: self.id.clone(), why });
        }
        Ok(())
    }
}
