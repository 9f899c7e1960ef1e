//! A member that takes part in a division.

use super::error::AllocationError;

/// A member that gets a share, with its weight and bounds.
///
/// ```
/// use zookeeper_recipes::throughput_balancer::allocation::Member;
///
/// let member = Member::new("client-0000000007").weight(3).min(10).max(500);
/// assert!(member.validate().is_ok());
/// assert!(Member::new("client-0000000008").min(2).max(1).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// Identifies the member. No two members have the same id. If two members have equal claims to a last unit, the one
    /// with the smaller id gets it.
    pub id: String,
    /// How much it counts compared with the others. At least 1; the default is 1.
    pub weight: u64,
    /// The least that it should have. The default is 0.
    pub min: u64,
    /// The most that it can use. The default, `None`, is no limit.
    pub max: Option<u64>,
}

impl Member {
    /// Returns a member of weight 1, without bounds.
    pub fn new(id: impl Into<String>) -> Self {
        Member { id: id.into(), weight: 1, min: 0, max: None }
    }

    /// Sets the weight.
    #[must_use]
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the lower bound.
    #[must_use]
    pub fn min(mut self, min: u64) -> Self {
        self.min = min;
        self
    }

    /// Sets the upper bound.
    #[must_use]
    pub fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Checks that the values are valid together.
    ///
    /// # Errors
    /// [`AllocationError::InvalidMember`] if the weight is zero, or the min is above the max.
    pub fn validate(&self) -> Result<(), AllocationError> {
        let invalid = |why: String| Err(AllocationError::InvalidMember { id: self.id.clone(), why });
        if self.weight == 0 {
            return invalid("the weight is 0; it must be at least 1".into());
        }
        match self.max {
            Some(max) if self.min > max => invalid(format!("the min, {}, is above the max, {max}", self.min)),
            _ => Ok(()),
        }
    }

    /// Returns how much of `share` the member can use.
    pub(super) fn cut(&self, share: u64) -> u64 {
        self.max.map_or(share, |max| share.min(max))
    }
}
