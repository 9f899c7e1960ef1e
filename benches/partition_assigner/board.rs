//! Who works on which partition, and for how long no member has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct Seen {
    /// By the member, how many partitions it works on.
    works: HashMap<String, usize>,
    total: usize,
    /// When the work on a partition has ended, if no member works on it.
    ended: HashMap<String, Instant>,
    /// For how long no member worked on a partition since the last question.
    gaps: HashMap<String, Duration>,
}

/// Shared by all members.
#[derive(Debug, Default, Clone)]
pub(crate) struct Board(Arc<Mutex<Seen>>);

/// A member works on a partition.
#[derive(Debug)]
pub(crate) struct Works {
    board: Board,
    member: String,
    partition: String,
}

/// For how long no member worked on partitions.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Gaps {
    pub(crate) partitions: usize,
    pub(crate) longest: Duration,
    pub(crate) sum: Duration,
}

impl Board {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no panic")
    }

    pub(crate) fn begin(&self, member: &str, partition: &str) -> Works {
        let mut seen = self.seen();
        *seen.works.entry(member.to_owned()).or_default() += 1;
        seen.total += 1;
        if let Some(ended) = seen.ended.remove(partition) {
            *seen.gaps.entry(partition.to_owned()).or_default() += ended.elapsed();
        }
        Works { board: self.clone(), member: member.to_owned(), partition: partition.to_owned() }
    }

    /// Returns whether this many members share all partitions.
    pub(crate) fn is_shared(&self, partitions: usize, members: usize) -> bool {
        let (seen, most) = (self.seen(), partitions.div_ceil(members));
        seen.total == partitions && seen.works.values().all(|works| *works <= most)
    }

    /// Returns whether a member works on nothing.
    pub(crate) fn is_idle(&self, member: &str) -> bool {
        self.seen().works.get(member).is_none_or(|works| *works == 0)
    }

    /// Returns the gaps since the last call.
    pub(crate) fn take_gaps(&self) -> Gaps {
        let gaps = std::mem::take(&mut self.seen().gaps);
        let longest = gaps.values().max().copied().unwrap_or_default();
        Gaps { partitions: gaps.len(), longest, sum: gaps.values().sum() }
    }

    pub(crate) fn describe(&self) -> String {
        let seen = self.seen();
        format!("{} are worked on, at most {:?} by a member", seen.total, seen.works.values().max())
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        let mut seen = self.board.seen();
        if let Some(works) = seen.works.get_mut(&self.member) {
            *works -= 1;
        }
        seen.total -= 1;
        seen.ended.insert(std::mem::take(&mut self.partition), Instant::now());
    }
}
