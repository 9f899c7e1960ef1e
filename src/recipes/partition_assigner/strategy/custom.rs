//! The user's function. Its result is checked, so that no member gets more than its capacity.

use std::fmt;
use std::sync::Arc;

use super::error::StrategyError;
use super::member::Member;
use super::partition::Partition;
use super::task::Task;
use crate::util::panic::caught;

/// A user's function; see [`Strategy::custom`](super::Strategy::custom). Two are equal if one is a clone of the other.
#[derive(Clone)]
pub struct Custom(Arc<Function>);

type Function = dyn Fn(&[Partition], &[Member]) -> Vec<Option<usize>> + Send + Sync;

impl Custom {
    pub(super) fn new(
        function: impl Fn(&[Partition], &[Member]) -> Vec<Option<usize>> + Send + Sync + 'static,
    ) -> Self {
        Custom(Arc::new(function))
    }

    /// Returns the member of each partition: the one it is pinned to, or else what the function says.
    pub(super) fn assign(&self, task: &Task<'_>) -> Result<Vec<Option<usize>>, StrategyError> {
        // A panic is a failure of the function, not of the leader that calls it.
        let returned = caught(|| (self.0)(task.partitions, task.members))
            .map_err(|message| StrategyError::Panicked { message })?;
        let (expected, got) = (task.partitions.len(), returned.len());
        if got != expected {
            return Err(StrategyError::WrongLength { expected, got });
        }
        let pinned = |(partition, returned): (&Partition, Option<usize>)| partition.pinned.or(returned);
        let result: Vec<_> = task.partitions.iter().zip(returned).map(pinned).collect();
        check_members(task, &result)?;
        check_capacities(task, &result)?;
        Ok(result)
    }
}

/// Checks that each entry names a member.
fn check_members(task: &Task<'_>, result: &[Option<usize>]) -> Result<(), StrategyError> {
    let members = task.members.len();
    for (partition, &entry) in task.partitions.iter().zip(result) {
        if let Some(index) = entry.filter(|&index| index >= members) {
            let partition = partition.name.as_ref().into();
            return Err(StrategyError::NoSuchMember { partition, index, members });
        }
    }
    Ok(())
}

/// Checks the capacities. Partitions that are pinned to a member may exceed its capacity, but then it gets no others.
fn check_capacities(task: &Task<'_>, result: &[Option<usize>]) -> Result<(), StrategyError> {
    let mut loads = vec![0; task.members.len()];
    result.iter().flatten().for_each(|&member| loads[member] += 1);
    for (index, (member, &assigned)) in task.members.iter().zip(&loads).enumerate() {
        if assigned > task.limit(index) {
            let capacity = member.capacity.unwrap_or(usize::MAX);
            return Err(StrategyError::OverCapacity { member: member.id.clone(), capacity, assigned });
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
