//! Properties of the sticky strategy.

use proptest::prelude::*;

use super::case::{Case, Kind, case, config};
use super::exact::{fewest_moves, shares};
use crate::recipes::partition_assigner::strategy::{Member, Strategy};

fn weighted() -> Kind {
    Kind { weights: 1..=u64::from(u32::MAX), ..Kind::default() }
}

/// The same as `settled` for the sticky strategy.
fn settled(case: Case) -> Case {
    case.settled(&Strategy::Sticky)
}

fn newcomer() -> Member {
    Member::new("newcomer")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_partition_has_no_member_only_if_all_are_full(case in case(weighted())) {
        let result = case.assign(&Strategy::Sticky);
        let loads = case.loads(result.iter().copied());
        for (load, limit) in loads.iter().zip(case.limits()) {
            prop_assert!(*load <= limit);
        }
        let places: usize = case.limits().iter().sum();
        prop_assert_eq!(loads.iter().sum::<usize>(), places.min(case.partitions.len()));
        for (partition, member) in case.partitions.iter().zip(&result) {
            prop_assert!(partition.pinned.is_none() || partition.pinned == *member);
        }
    }

    #[test]
    fn partitions_that_a_member_has_come_first(case in case(weighted())) {
        let result = case.assign(&Strategy::Sticky);
        let count = |owned: bool, assigned: bool| {
            let all = case.partitions.iter().zip(&result).filter(|(partition, _)| partition.pinned.is_none());
            all.filter(|(partition, member)| partition.owner.is_some() == owned && member.is_some() == assigned).count()
        };
        prop_assert!(count(true, false) == 0 || count(false, true) == 0);
    }

    #[test]
    fn each_member_has_its_exact_share_rounded_down_or_up(case in case(weighted())) {
        let loads = case.loads(case.assign(&Strategy::Sticky));
        for (share, load) in shares(&case).iter().zip(loads) {
            prop_assert!(share.is_near(load), "{load} is not near {share:?}");
        }
    }

    #[test]
    fn equal_members_have_equal_counts(
        case in case(Kind { members: 1..=6, with_capacities: false, with_pins: false, ..Kind::default() }),
    ) {
        let (all, count) = (case.partitions.len(), case.members.len());
        for load in case.loads(case.assign(&Strategy::Sticky)) {
            prop_assert!(load == all / count || load == all.div_ceil(count));
        }
    }

    #[test]
    fn no_more_partitions_move_than_must(case in case(weighted())) {
        let result = case.assign(&Strategy::Sticky);
        // Those that are pinned elsewhere move anyway.
        let mut free = case.clone();
        free.partitions.iter_mut().filter(|one| one.pinned.is_some()).for_each(|one| one.owner = one.pinned);
        prop_assert_eq!(free.moves(&result).len(), fewest_moves(&case));
    }

    #[test]
    fn nothing_moves_twice(case in case(weighted())) {
        let settled = settled(case);
        let again = settled.assign(&Strategy::Sticky);
        let owners: Vec<_> = settled.partitions.iter().map(|partition| partition.owner).collect();
        prop_assert_eq!(again, owners);
    }

    #[test]
    fn when_a_member_joins_partitions_move_only_to_it(
        case in case(Kind::default()), at in any::<prop::sample::Index>(),
    ) {
        let joiner = at.index(case.members.len() + 1);
        let joined = settled(case).joined(joiner, newcomer());
        let moves = joined.moves(&joined.assign(&Strategy::Sticky));
        prop_assert!(moves.iter().all(|&(_, to)| to == Some(joiner)), "{moves:?}");
    }

    #[test]
    fn a_member_that_joins_gets_at_most_its_part(
        case in case(Kind { with_capacities: false, with_pins: false, ..Kind::default() }),
        at in any::<prop::sample::Index>(),
    ) {
        let joined = settled(case.clone()).joined(at.index(case.members.len() + 1), newcomer());
        let moves = joined.moves(&joined.assign(&Strategy::Sticky));
        prop_assert!(moves.len() <= joined.partitions.len().div_ceil(joined.members.len()));
    }

    #[test]
    fn when_a_member_leaves_only_its_partitions_move(
        case in case(Kind { members: 1..=6, ..Kind::default() }), at in any::<prop::sample::Index>(),
    ) {
        let left = settled(case.clone()).left(at.index(case.members.len()));
        // No member has those of the one that left, so they are not among the moves.
        prop_assert_eq!(left.moves(&left.assign(&Strategy::Sticky)), []);
    }

    #[test]
    fn with_weights_a_member_that_joins_moves_at_most_one_to_each_other(
        case in case(weighted()), weight in 1..=9_u64, at in any::<prop::sample::Index>(),
    ) {
        let joiner = at.index(case.members.len() + 1);
        let joined = settled(case).joined(joiner, newcomer().weight(weight));
        let result = joined.assign(&Strategy::Sticky);
        let share = shares(&joined)[joiner];
        let loads = joined.loads(result.iter().copied());
        prop_assert!(share.is_near(loads[joiner]));
        for (member, (before, after)) in joined.owned().into_iter().zip(loads).enumerate() {
            // Those that no member had are not moves.
            let found = joined.partitions.iter().zip(&result);
            let found = found.filter(|(one, to)| one.owner.is_none() && **to == Some(member)).count();
            prop_assert!(member == joiner || after <= before + found.max(1), "{member}: {before}, {after}");
        }
    }

    #[test]
    fn with_weights_a_member_that_leaves_moves_at_most_one_from_each_other(
        case in case(Kind { members: 1..=6, ..weighted() }), at in any::<prop::sample::Index>(),
    ) {
        let left = settled(case.clone()).left(at.index(case.members.len()));
        let loads = left.loads(left.assign(&Strategy::Sticky));
        for (before, after) in left.owned().into_iter().zip(loads) {
            prop_assert!(after + 1 >= before);
        }
    }

    #[test]
    fn a_series_of_changes_keeps_the_counts_equal(
        case in case(Kind { members: 1..=4, with_capacities: false, with_pins: false, ..Kind::default() }),
        changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..20),
    ) {
        let mut case = settled(case);
        for (number, (joins, at)) in changes.into_iter().enumerate() {
            case = if joins || case.members.len() == 1 {
                let at = at.index(case.members.len() + 1);
                case.joined(at, Member::new(format!("newcomer-{number}")))
            } else {
                let at = at.index(case.members.len());
                case.left(at)
            };
            case = settled(case);
            let owned = case.owned();
            let (least, most) = (owned.iter().min(), owned.iter().max());
            prop_assert!(most <= least.map(|least| least + 1).as_ref());
            prop_assert_eq!(owned.iter().sum::<usize>(), case.partitions.len());
        }
    }
}
