//! The calls on a number.

use zookeeper_recipes::atomic_long::{Added, DistributedAtomicLong, Error};

use crate::history;

pub(crate) const PATH: &str = "/counter";

/// No two calls of a seed have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Add(i64),
    /// Sets the number, whatever it was before.
    Set(i64),
    Swap {
        expected: i64,
        new: i64,
    },
    Initialize(i64),
}

/// Returns the number in the data of a node.
pub(crate) fn parsed(data: &[u8]) -> Option<i64> {
    data.try_into().ok().map(i64::from_be_bytes)
}

impl history::Call for Call {
    fn makes(&self, before: Option<&[u8]>, after: &[u8]) -> bool {
        match self {
            Call::Add(delta) => Some(before.and_then(parsed).unwrap_or(0) + delta) == parsed(after),
            Call::Set(new) | Call::Swap { new, .. } | Call::Initialize(new) => parsed(after) == Some(*new),
        }
    }

    fn may(&self, before: Option<&[u8]>, _after: &[u8]) -> bool {
        let before = before.and_then(parsed);
        match self {
            Call::Add(_) | Call::Set(_) => true,
            Call::Swap { expected, .. } => before == Some(*expected),
            Call::Initialize(_) => before.is_none(),
        }
    }
}

/// The outcome of a call: whether it was done; an addition also returns the number before and after.
pub(crate) type Ended = (bool, Option<(i64, i64)>);

impl Call {
    pub(crate) async fn on(self, number: &DistributedAtomicLong) -> Result<Ended, Error> {
        let without_numbers = |is_done: bool| (is_done, None);
        match self {
            Call::Add(delta) => {
                number.add(delta).await.map(|Added { before, after, .. }| (true, Some((before, after))))
            }
            Call::Set(new) => number.set(new).await.map(|()| (true, None)),
            Call::Swap { expected, new } => number.compare_and_set(expected, new).await.map(without_numbers),
            Call::Initialize(new) => number.initialize(new).await.map(without_numbers),
        }
    }
}
