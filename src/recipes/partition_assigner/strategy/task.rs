//! What a strategy is asked: the partitions and members, checked, and what the pins decide beforehand.

use super::error::StrategyError;
use super::member::Member;
use super::partition::Partition;

/// The partitions and members of one assignment.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) partitions: &'a [Partition],
    pub(super) members: &'a [Member],
    /// For each member, how many partitions are pinned to it.
    pub(super) pins: Vec<usize>,
}

impl<'a> Task<'a> {
    /// Checks the partitions and the members.
    pub(super) fn new(partitions: &'a [Partition], members: &'a [Member]) -> Result<Self, StrategyError> {
        members.iter().try_for_each(Member::validate)?;
        partitions.iter().try_for_each(|partition| partition.validate(members.len()))?;
        let mut pins = vec![0; members.len()];
        partitions.iter().filter_map(|partition| partition.pinned).for_each(|member| pins[member] += 1);
        Ok(Task { partitions, members, pins })
    }

    /// Returns the partitions that are not pinned.
    pub(super) fn free(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.partitions.len()).filter(|&partition| self.partitions[partition].pinned.is_none())
    }

    /// Returns the assignment of the pinned partitions. The others have no member yet.
    pub(super) fn pinned(&self) -> Vec<Option<usize>> {
        self.partitions.iter().map(|partition| partition.pinned).collect()
    }

    /// Returns the most partitions that the member may have: its capacity, or what is pinned to it if that is more.
    pub(super) fn limit(&self, member: usize) -> usize {
        self.members[member].capacity.unwrap_or(usize::MAX).max(self.pins[member])
    }

    /// Sorts partitions of a member by how long it keeps them: what it gives up first is last.
    ///
    /// Each member has an order of its own, a hash of both names. If all members gave up the last by name, a partition
    /// that has just moved would be the next to move again.
    pub(super) fn sort_as_kept_by(&self, member: usize, partitions: &mut [usize]) {
        let id = &self.members[member].id;
        partitions.sort_by_cached_key(|&partition| (hash(id, &self.partitions[partition].name), partition));
    }
}

/// FNV-1a of both names, then the final mix of MurmurHash3, because the names differ in their last letters mostly. It
/// is the same on every machine and in every version of Rust, unlike the standard library's.
fn hash(id: &str, name: &str) -> u64 {
    // No byte of UTF-8 is 0xff, so it separates the names.
    let bytes = id.bytes().chain([0xff]).chain(name.bytes());
    let mut hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
