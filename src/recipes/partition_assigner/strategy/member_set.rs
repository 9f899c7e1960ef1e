//! A set of members, as bits.

/// A set of indices of members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberSet(Vec<u64>);

impl MemberSet {
    /// Returns the members of `0..members` for which `is_in` is true. It is called once for each.
    pub(super) fn of(members: usize, mut is_in: impl FnMut(usize) -> bool) -> Self {
        let mut set = MemberSet(vec![0; members.div_ceil(64)]);
        for member in 0..members {
            set.0[member / 64] |= u64::from(is_in(member)) << (member % 64);
        }
        set
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        self.0[member / 64] >> (member % 64) & 1 == 1
    }

    pub(super) fn remove(&mut self, member: usize) {
        self.0[member / 64] &= !(1 << (member % 64));
    }

    /// Returns the members, from the first to the last.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| bits(word).map(move |bit| at * 64 + bit))
    }

    /// Removes the members that are in both sets from this one, and passes each to `take`.
    pub(super) fn take_common(&mut self, other: &MemberSet, mut take: impl FnMut(usize)) {
        for (at, (mine, its)) in self.0.iter_mut().zip(&other.0).enumerate() {
            bits(*mine & its).for_each(|bit| take(at * 64 + bit));
            *mine &= !its;
        }
    }
}

/// Returns the places of the ones in a word.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        (word != 0).then(|| {
            word &= word - 1;
            bit as usize
        })
    })
}
