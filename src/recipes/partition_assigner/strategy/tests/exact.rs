//! The exact shares, found in another way than the strategy finds them.

use super::case::Case;

/// An exact share, as a fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) amount: i128,
    pub(super) of: i128,
}

impl Share {
    pub(super) fn rounded_down(self) -> usize {
        usize::try_from(self.amount / self.of).expect("a share of the partitions")
    }

    pub(super) fn is_whole(self) -> bool {
        self.amount % self.of == 0
    }

    /// Whether this many are the share, rounded down or up.
    pub(super) fn is_near(self, count: usize) -> bool {
        (self.amount - count as i128 * self.of).abs() < self.of
    }
}

/// Returns the exact share of each member. All are given shares in proportion. Then those that had to be raised to
/// their pins are fixed there, or, if more was cut off than added, those that had to be cut to their limits; and again
/// with what is left. Weights of 32 bits keep the fractions in 128.
pub(super) fn shares(case: &Case) -> Vec<Share> {
    let whole = |amount: usize| Share { amount: amount as i128, of: 1 };
    let (pins, limits) = (case.pins(), case.limits());
    if limits.iter().sum::<usize>() <= case.partitions.len() {
        return limits.into_iter().map(whole).collect();
    }
    let mut fixed: Vec<Option<usize>> = vec![None; case.members.len()];
    loop {
        let free: Vec<usize> = (0..fixed.len()).filter(|&at| fixed[at].is_none()).collect();
        let rest = (case.partitions.len() - fixed.iter().flatten().sum::<usize>()) as i128;
        let weight: i128 = free.iter().map(|&at| i128::from(case.members[at].weight)).sum();
        let target = |at: usize| i128::from(case.members[at].weight) * rest;
        let lacks = |at: usize| (pins[at] as i128 * weight - target(at)).max(0);
        let exceeds = |at: usize| (target(at) - limits[at] as i128 * weight).max(0);
        let lacking: i128 = free.iter().map(|&at| lacks(at)).sum();
        let exceeding: i128 = free.iter().map(|&at| exceeds(at)).sum();
        let bound = |at: usize| match lacking >= exceeding {
            true => (lacks(at) > 0).then_some(pins[at]),
            false => (exceeds(at) > 0).then_some(limits[at]),
        };
        let new: Vec<_> = free.iter().filter_map(|&at| Some((at, bound(at)?))).collect();
        if new.is_empty() {
            let share = |at: usize| fixed[at].map_or(Share { amount: target(at), of: weight }, whole);
            return (0..fixed.len()).map(share).collect();
        }
        new.into_iter().for_each(|(at, amount)| fixed[at] = Some(amount));
    }
}

/// Returns the fewest partitions that can move so that each member has its share, rounded down or up.
pub(super) fn fewest_moves(case: &Case) -> usize {
    let shares = shares(case);
    let given: usize = case.limits().iter().sum::<usize>().min(case.partitions.len());
    // What a member has is with it already, or pinned to it.
    let has = case.partitions.iter().map(|partition| partition.pinned.or(partition.owner));
    let held = case.loads(has);
    let base: Vec<usize> = shares.iter().map(|share| share.rounded_down()).collect();
    let left = given - base.iter().sum::<usize>();
    let fraction: Vec<usize> = (0..shares.len()).filter(|&at| !shares[at].is_whole()).collect();
    let ways = (0..1_usize << fraction.len()).filter(|way| way.count_ones() as usize == left);
    let moves = |way: usize| {
        let mut quotas = base.clone();
        let up = fraction.iter().enumerate().filter(|(bit, _)| way >> bit & 1 == 1);
        up.for_each(|(_, &at)| quotas[at] += 1);
        held.iter().zip(&quotas).map(|(held, quota)| held.saturating_sub(*quota)).sum::<usize>()
    };
    ways.map(moves).min().expect("there is a way to round")
}
