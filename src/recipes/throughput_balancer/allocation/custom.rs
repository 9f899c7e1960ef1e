//! The user's function. Its result is checked, so that it never gives out more than the maximum.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::AllocationError;
use super::member::Member;
use crate::util::panic::panic_text;

/// A user's function; see [`Allocation::custom`](super::Allocation::custom). Two are equal if one is a clone of the
/// other.
#[derive(Clone)]
pub struct Custom(Arc<Function>);

type Function = dyn Fn(u64, &[Member]) -> Vec<u64> + Send + Sync;

impl Custom {
    pub(super) fn new(function: impl Fn(u64, &[Member]) -> Vec<u64> + Send + Sync + 'static) -> Self {
        Custom(Arc::new(function))
    }

    /// Returns the shares of the members, which are sorted by their ids.
    pub(super) fn divide(&self, maximum: u64, members: Vec<Member>) -> Result<Vec<u64>, AllocationError> {
        // A panic is a failure of the function, not of the leader that calls it.
        let shares = catch_unwind(AssertUnwindSafe(|| (self.0)(maximum, &members)))
            .map_err(|panic| AllocationError::Panicked { message: panic_text(panic) })?;
        check(maximum, &members, &shares)?;
        Ok(shares)
    }
}

fn check(maximum: u64, members: &[Member], shares: &[u64]) -> Result<(), AllocationError> {
    if shares.len() != members.len() {
        return Err(AllocationError::WrongLength { members: members.len(), returned: shares.len() });
    }
    let sum: u128 = shares.iter().map(|&share| u128::from(share)).sum();
    if sum > maximum.into() {
        return Err(AllocationError::ExceedsMaximum { sum, maximum });
    }
    for (member, &share) in members.iter().zip(shares) {
        if let Some(max) = member.max.filter(|&max| share > max) {
            return Err(AllocationError::ExceedsMemberMax { id: member.id.clone(), share, max });
        }
    }
    Ok(())
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom(..)")
    }
}
