//! Partitions that only some members may get, by the user's predicate.

use std::fmt;
use std::sync::Arc;

use super::class::{classify, separate};
use super::error::StrategyError;
use super::flow;
use super::member::Member;
use super::sticky;
use super::task::Task;
use crate::util::panic::caught;

/// A user's predicate; see [`Strategy::eligible`](super::Strategy::eligible). Two are equal if one is a clone of the
/// other.
#[derive(Clone)]
pub struct Eligible(Arc<Predicate>);

type Predicate = dyn Fn(&str, &Member) -> bool + Send + Sync;

impl Eligible {
    pub(super) fn new(predicate: impl Fn(&str, &Member) -> bool + Send + Sync + 'static) -> Self {
        Eligible(Arc::new(predicate))
    }

    /// Returns the member of each partition.
    pub(super) fn assign(&self, task: &Task<'_>) -> Result<Vec<Option<usize>>, StrategyError> {
        // A panic is a failure of the predicate, not of the leader that calls it.
        let classes = caught(|| classify(task, &*self.0)).map_err(|message| StrategyError::Panicked { message })?;
        let mut result = task.pinned();
        let (lone, overlapping) = separate(task, classes);
        for class in lone {
            sticky::divide(task, &class.partitions, &class.members.iter().collect::<Vec<_>>(), &mut result);
        }
        flow::divide(task, &overlapping, &mut result);
        Ok(result)
    }
}

impl PartialEq for Eligible {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Eligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Eligible(..)")
    }
}
