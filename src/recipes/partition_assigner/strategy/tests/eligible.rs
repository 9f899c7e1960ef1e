//! Properties of the strategy with a predicate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::strategy::Strategy as Random;

use super::case::{Case, Kind, case, config};
use crate::recipes::partition_assigner::strategy::{Member, Partition, Strategy};

/// For each partition, the members that are eligible.
type Allowed = Vec<BTreeSet<usize>>;

/// Returns who is eligible for what: in each row, a bit for a member.
fn allowed(case: &Case, rows: &[u8]) -> Allowed {
    let members = |row: u8| (0..case.members.len()).filter(|bit| row >> bit & 1 == 1).collect();
    case.partitions.iter().zip(rows.iter().cycle()).map(|(_, &row)| members(row)).collect()
}

fn strategy(case: &Case, allowed: &Allowed) -> Strategy {
    let names = case.partitions.iter().map(|partition| partition.name.to_string());
    let by_name: BTreeMap<String, BTreeSet<String>> = names
        .zip(allowed)
        .map(|(name, members)| (name, members.iter().map(|&member| case.members[member].id.clone()).collect()))
        .collect();
    Strategy::eligible(move |partition, member| by_name[partition].contains(&member.id))
}

/// Returns all assignments within the predicate, the capacities and the pins.
fn all_assignments(case: &Case, allowed: &Allowed) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for (partition, members) in case.partitions.iter().zip(allowed) {
        let choices: Vec<_> = match partition.pinned {
            Some(member) => vec![Some(member)],
            None => members.iter().copied().map(Some).chain([None]).collect(),
        };
        let longer = |one: Vec<Option<usize>>| {
            choices.iter().map(move |&choice| one.iter().copied().chain([choice]).collect()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    let limits = case.limits();
    let fits =
        |one: &Vec<Option<usize>>| case.loads(one.clone()).iter().zip(&limits).all(|(load, limit)| load <= limit);
    all.into_iter().filter(fits).collect()
}

fn count(assignment: &[Option<usize>]) -> usize {
    assignment.iter().flatten().count()
}

fn squares(case: &Case, assignment: &[Option<usize>]) -> usize {
    case.loads(assignment.iter().copied()).iter().map(|load| load * load).sum()
}

/// Returns how many of the partitions that an eligible member has get a member.
fn kept(case: &Case, allowed: &Allowed, assignment: &[Option<usize>]) -> usize {
    let is_kept = |at: usize| {
        let partition = &case.partitions[at];
        let has = partition.owner.is_some_and(|owner| allowed[at].contains(&owner));
        has && partition.pinned.is_none() && assignment[at].is_some()
    };
    (0..assignment.len()).filter(|&at| is_kept(at)).count()
}

/// Returns a chain of members to which one can give a partition that another has, from the first on.
fn reachable(case: &Case, allowed: &Allowed, result: &[Option<usize>], first: BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = first;
    loop {
        let can_move = |at: &usize| {
            case.partitions[*at].pinned.is_none() && result[*at].is_some_and(|member| reached.contains(&member))
        };
        let next: BTreeSet<_> = (0..result.len()).filter(can_move).flat_map(|at| allowed[at].iter().copied()).collect();
        if next.is_subset(&reached) {
            return reached;
        }
        reached.extend(next);
    }
}

/// Checks that no chain of moves gives a partition a member, or makes the members more equal.
fn check_chains(case: &Case, allowed: &Allowed, result: &[Option<usize>]) -> Result<(), TestCaseError> {
    let (loads, limits) = (case.loads(result.iter().copied()), case.limits());
    let with_room =
        |members: BTreeSet<usize>| members.into_iter().filter(|&to| loads[to] < limits[to]).collect::<Vec<_>>();
    for (at, member) in result.iter().enumerate() {
        if member.is_none() {
            let with_room = with_room(reachable(case, allowed, result, allowed[at].clone()));
            prop_assert!(with_room.is_empty(), "{at}: {with_room:?}");
        }
    }
    let weight = |member: usize| u128::from(case.members[member].weight);
    for from in 0..loads.len() {
        for to in with_room(reachable(case, allowed, result, BTreeSet::from([from]))) {
            let (now, then) = (2 * loads[from] as i128 - 1, 2 * loads[to] as i128 + 1);
            let is_better = now * (weight(to) as i128) > then * (weight(from) as i128);
            prop_assert!(from == to || !is_better, "{from} has {}, {to} has {}", loads[from], loads[to]);
        }
    }
    Ok(())
}

fn small() -> Kind {
    Kind { partitions: 0..=5, members: 0..=4, ..Kind::default() }
}

fn large() -> Kind {
    Kind { partitions: 0..=60, members: 0..=8, ..Kind::default() }
}

fn rows() -> impl Random<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 1..=3), prop::collection::vec(any::<u8>(), 60)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_other_assignment_is_better(case in case(small()), rows in rows()) {
        let allowed = allowed(&case, &rows);
        let result = case.assign(&strategy(&case, &allowed));
        let all = all_assignments(&case, &allowed);
        prop_assert!(all.contains(&result), "{result:?}");
        let most = all.iter().map(|one| count(one)).max();
        prop_assert_eq!(most, Some(count(&result)));
        let keeps_most = all.iter().map(|one| kept(&case, &allowed, one)).max();
        prop_assert_eq!(keeps_most, Some(kept(&case, &allowed, &result)));
        let is_same = |one: &&Vec<Option<usize>>| {
            one.iter().zip(&result).all(|(one, other)| one.is_some() == other.is_some())
        };
        let same = all.iter().filter(is_same);
        let least = same.map(|one| squares(&case, one)).min();
        prop_assert_eq!(least, Some(squares(&case, &result)));
    }

    #[test]
    fn no_chain_of_moves_is_better(case in case(large()), rows in rows()) {
        let allowed = allowed(&case, &rows);
        let result = case.assign(&strategy(&case, &allowed));
        check_chains(&case, &allowed, &result)?;
    }

    #[test]
    fn no_chain_of_moves_is_better_for_weights(
        case in case(Kind { members: 2..=8, partitions: 2..=60, weights: 1..=9, ..large() }), rows in rows(),
    ) {
        // A partition that may go to all, and one that may not, so that all members belong together.
        let mut allowed = allowed(&case, &rows);
        let mut case = case;
        case.partitions[..2].iter_mut().for_each(|partition| partition.pinned = None);
        allowed[0] = (0..case.members.len()).collect();
        allowed[1] = BTreeSet::from([1]);
        let result = case.assign(&strategy(&case, &allowed));
        check_chains(&case, &allowed, &result)?;
    }

    #[test]
    fn only_eligible_members_within_their_capacity_get_a_partition(
        case in case(Kind { weights: 1..=u64::MAX, ..large() }), rows in rows(),
    ) {
        let allowed = allowed(&case, &rows);
        let result = case.assign(&strategy(&case, &allowed));
        for (at, partition) in case.partitions.iter().enumerate() {
            let is_pinned = partition.pinned.is_some();
            prop_assert!(!is_pinned || result[at] == partition.pinned);
            prop_assert!(is_pinned || result[at].is_none_or(|member| allowed[at].contains(&member)));
        }
        for (load, limit) in case.loads(result).iter().zip(case.limits()) {
            prop_assert!(*load <= limit);
        }
    }

    #[test]
    fn nothing_moves_twice(case in case(Kind { weights: 1..=u64::MAX, ..large() }), rows in rows()) {
        let allowed = allowed(&case, &rows);
        let strategy = strategy(&case, &allowed);
        let settled = case.settled(&strategy);
        let owners: Vec<_> = settled.partitions.iter().map(|partition| partition.owner).collect();
        prop_assert_eq!(settled.assign(&strategy), owners);
    }

    #[test]
    fn the_predicate_is_called_once_for_each_partition_and_member(case in case(large()), rows in rows()) {
        let allowed = allowed(&case, &rows);
        let calls = Arc::new(Mutex::new(BTreeMap::<_, usize>::new()));
        let ids: BTreeMap<_, _> = case.members.iter().enumerate().map(|(at, member)| (member.id.clone(), at)).collect();
        let names = case.partitions.iter().enumerate();
        let places: BTreeMap<_, _> = names.map(|(at, one)| (one.name.clone(), at)).collect();
        let strategy = {
            let (calls, allowed) = (calls.clone(), allowed.clone());
            Strategy::eligible(move |partition, member| {
                let call = (partition.to_owned(), member.id.clone());
                *calls.lock().expect("no panic").entry(call).or_default() += 1;
                allowed[places[partition]].contains(&ids[&member.id])
            })
        };
        case.assign(&strategy);
        prop_assert!(calls.lock().expect("no panic").values().all(|&calls| calls == 1));
    }

    #[test]
    fn a_predicate_that_is_always_true_is_the_sticky_strategy(case in case(Kind { weights: 1..=u64::MAX, ..large() })) {
        prop_assert_eq!(case.assign(&Strategy::eligible(|_, _| true)), case.assign(&Strategy::Sticky));
    }

    #[test]
    fn each_rack_is_divided_by_itself(case in case(Kind { weights: 1..=9, with_pins: false, ..large() })) {
        let strategy = Strategy::eligible(|partition, member| rack(partition) == rack(&member.id));
        let mut case = case;
        for partition in &mut case.partitions {
            let members = &case.members;
            partition.owner = partition.owner.filter(|&owner| rack(&members[owner].id) == rack(&partition.name));
        }
        let result = case.assign(&strategy);
        for side in [0, 1] {
            let (partitions, members) = side_of(&case, side);
            let alone = Case {
                partitions: partitions.iter().map(|&at| case.partitions[at].clone()).collect(),
                members: members.iter().map(|&at| case.members[at].clone()).collect(),
            };
            let alone = alone.renumbered(|owner| members.binary_search(&owner).ok());
            let expected = alone.assign(&Strategy::Sticky).into_iter().map(|one| one.map(|at| members[at]));
            prop_assert_eq!(partitions.iter().map(|&at| result[at]).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}

/// Names with an even last digit are one rack, the others another.
fn rack(name: &str) -> u8 {
    name.bytes().last().map_or(0, |last| last % 2)
}

/// Returns the partitions and the members of a rack.
fn side_of(case: &Case, side: u8) -> (Vec<usize>, Vec<usize>) {
    let partitions = (0..case.partitions.len()).filter(|&at| rack(&case.partitions[at].name) == side).collect();
    (partitions, (0..case.members.len()).filter(|&at| rack(&case.members[at].id) == side).collect())
}

fn member(id: &str, capacity: usize) -> Member {
    Member::new(id).capacity(capacity)
}

/// A partition may go to the members whose ids are letters of its name.
fn by_letters() -> Strategy {
    Strategy::eligible(|partition, member| partition.contains(&member.id))
}

#[test]
fn a_chain_of_moves_makes_room() {
    // Only a may have the new one, so that a gives one to b, and b one to c.
    let partitions = [Partition::new("ab").owner(0), Partition::new("bc").owner(1), Partition::new("a")];
    let members = [member("a", 1), member("b", 1), member("c", 1)];
    assert_eq!(by_letters().assign(&partitions, &members), Ok(vec![Some(1), Some(2), Some(0)]));
}

#[test]
fn a_partition_that_a_member_has_does_not_make_room_for_one_that_no_member_has() {
    let partitions = [Partition::new("a").owner(0), Partition::new("a'")];
    assert_eq!(by_letters().assign(&partitions, &[member("a", 1)]), Ok(vec![Some(0), None]));
    let partitions = [Partition::new("a"), Partition::new("a'").owner(0)];
    assert_eq!(by_letters().assign(&partitions, &[member("a", 1)]), Ok(vec![None, Some(0)]));
}

#[test]
fn a_member_above_its_capacity_gives_up_what_others_may_have() {
    let names = ["a", "ab", "a'"];
    let partitions = names.map(|name| Partition::new(name).owner(0));
    let members = [member("a", 2), member("b", 9)];
    assert_eq!(by_letters().assign(&partitions, &members), Ok(vec![Some(0), Some(1), Some(0)]));
}

#[test]
fn an_owner_that_is_not_eligible_loses_the_partition() {
    let partitions = [Partition::new("b").owner(0), Partition::new("c").owner(0)];
    let members = ["a", "b"].map(Member::new);
    assert_eq!(by_letters().assign(&partitions, &members), Ok(vec![Some(1), None]));
}

#[test]
fn partitions_that_an_eligible_member_has_come_first_then_those_that_any_member_has() {
    // Only a has room, for one.
    let members = [member("a", 1), member("b", 0), Member::new("x")];
    let names = ["ab 1", "ab 2", "ab 3"];
    let [orphaned, elsewhere, has] = names.map(Partition::new);
    let (elsewhere, has) = (elsewhere.owner(2), has.owner(1));
    let assign = |partitions: &[Partition]| by_letters().assign(partitions, &members).expect("good members");
    assert_eq!(assign(&[orphaned.clone(), elsewhere.clone(), has]), [None, None, Some(0)]);
    assert_eq!(assign(&[orphaned, elsewhere]), [None, Some(0)]);
    // The same for partitions that may go to different members.
    assert_eq!(assign(&[Partition::new("a"), Partition::new("ab").owner(2)]), [None, Some(0)]);
    assert_eq!(assign(&[Partition::new("a").owner(2), Partition::new("ab").owner(1)]), [None, Some(0)]);
}

#[test]
fn a_pin_overrides_a_predicate() {
    let partitions = [Partition::new("b").pinned(0)];
    let members = ["a", "b"].map(Member::new);
    assert_eq!(by_letters().assign(&partitions, &members), Ok(vec![Some(0)]));
}
