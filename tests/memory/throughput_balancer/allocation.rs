//! Properties of every rule, for members at random; `ALLOCATION_CASES` says how many cases a property gets.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use proptest::prelude::*;

use zookeeper_recipes::throughput_balancer::allocation::{Allocation, AllocationError, Division, Member};

/// The number of cases, unless the environment says otherwise.
const CASES: u32 = 2_000;
const MOST_MEMBERS: usize = 12;

fn cases() -> ProptestConfig {
    let asked = std::env::var("ALLOCATION_CASES").ok();
    let cases = asked.map_or(CASES, |cases| cases.parse().expect("ALLOCATION_CASES is a number"));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn maximum() -> impl Strategy<Value = u64> {
    prop_oneof![0..40_u64, 0..10_000_u64, any::<u64>(), Just(u64::MAX)]
}

/// A member apart from its id; bounds around an equal share of the maximum, so that all of it matters.
fn member(maximum: u64, weights: RangeInclusive<u64>) -> impl Strategy<Value = Member> {
    let around = maximum / (MOST_MEMBERS as u64 / 2);
    let bound = || prop_oneof![0..=around, 0..=around.min(5), 0..=maximum];
    let weight = prop_oneof![Just(1_u64), 1..=9_u64, weights];
    let min = prop_oneof![2 => Just(0), 3 => 0..=around, 1 => bound()];
    let member = |(weight, min, more): (u64, u64, Option<u64>)| Member {
        id: String::new(),
        weight,
        min,
        max: more.map(|more| min.saturating_add(more)),
    };
    (weight, min, prop::option::of(bound())).prop_map(member)
}

/// A maximum, members in an order that is not that of their ids, and the same in another order.
fn case(weights: RangeInclusive<u64>) -> impl Strategy<Value = (u64, Vec<Member>, Vec<Member>)> {
    let members = move |maximum: u64| prop::collection::vec(member(maximum, weights.clone()), 0..=MOST_MEMBERS);
    maximum().prop_flat_map(move |maximum| (Just(maximum), members(maximum))).prop_flat_map(|(maximum, mut members)| {
        for (number, member) in members.iter_mut().enumerate() {
            member.id = format!("member-{number}");
        }
        (Just(maximum), Just(members.clone()).prop_shuffle(), Just(members).prop_shuffle())
    })
}

fn sum(amounts: impl IntoIterator<Item = u64>) -> u128 {
    amounts.into_iter().map(u128::from).sum()
}

fn minima(members: &[Member]) -> u128 {
    sum(members.iter().map(|member| member.min))
}

fn by_id(members: &[Member], division: &Division) -> BTreeMap<String, u64> {
    members.iter().map(|member| member.id.clone()).zip(division.shares.iter().copied()).collect()
}

fn divide(allocation: &Allocation, maximum: u64, members: &[Member]) -> Division {
    allocation.divide(maximum, members).expect("good members")
}

/// The fair share of each member, as fractions of one denominator, found in another way: all are given shares in
/// proportion; then those that had to be raised to their min are fixed there, or, if more was cut off than added, those
/// that had to be cut to their max; and again with what is left. Weights of 32 bits keep the fractions in 128.
fn ideal(maximum: u64, members: &[Member]) -> Vec<(i128, i128)> {
    let mut fixed: Vec<Option<i128>> = vec![None; members.len()];
    loop {
        let free = || (0..members.len()).filter(|&at| fixed[at].is_none()).map(|at| (at, &members[at]));
        let rest = i128::from(maximum) - fixed.iter().flatten().sum::<i128>();
        let weight: i128 = free().map(|(_, member)| i128::from(member.weight)).sum();
        let target = |member: &Member| i128::from(member.weight) * rest;
        let low = |member: &Member| i128::from(member.min) * weight;
        let high = |member: &Member| i128::from(member.max.unwrap_or(u64::MAX)) * weight;
        let raised: i128 = free().map(|(_, member)| (low(member) - target(member)).max(0)).sum();
        let cut: i128 = free().map(|(_, member)| (target(member) - high(member)).max(0)).sum();
        let bound = |member: &Member| {
            let too_low = (target(member) < low(member)).then_some(member.min);
            let too_high = || (target(member) > high(member)).then(|| member.max.expect("there is a max"));
            let above = if raised <= cut { too_high() } else { None };
            too_low.filter(|_| raised >= cut).or(above)
        };
        let new: Vec<_> = free().filter_map(|(at, member)| Some((at, bound(member)?))).collect();
        if new.is_empty() {
            let share = |(member, fixed): (&Member, &Option<i128>)| match fixed {
                Some(amount) => (*amount, 1),
                None => (target(member), weight),
            };
            return members.iter().zip(&fixed).map(share).collect();
        }
        for (at, amount) in new {
            fixed[at] = Some(amount.into());
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_rule_gives_away_more_than_there_is_or_than_a_member_can_use(
        (maximum, members, shuffled) in case(1..=u64::MAX),
    ) {
        for rule in [Allocation::Equal, Allocation::FairShare] {
            let division = divide(&rule, maximum, &members);
            prop_assert_eq!(division.shares.len(), members.len());
            let given = sum(division.shares.iter().copied());
            prop_assert_eq!(given + u128::from(division.unallocated), u128::from(maximum), "{:?}", rule);
            for (member, &share) in members.iter().zip(&division.shares) {
                prop_assert!(share <= member.max.unwrap_or(u64::MAX), "{:?}", rule);
            }
            let other = divide(&rule, maximum, &shuffled);
            prop_assert_eq!(by_id(&members, &division), by_id(&shuffled, &other), "{:?}", rule);
            prop_assert_eq!(&division.shortfall, &other.shortfall, "{:?}", rule);
        }
    }

    #[test]
    fn a_member_below_its_min_is_reported((maximum, members, _) in case(1..=u64::MAX)) {
        for rule in [Allocation::Equal, Allocation::FairShare] {
            let division = divide(&rule, maximum, &members);
            let shares = by_id(&members, &division);
            let mut lacking: Vec<_> = members.iter().filter(|member| shares[&member.id] < member.min).collect();
            lacking.sort_by(|a, b| a.id.cmp(&b.id));
            let reported = division.shortfall.as_ref().map_or(&[][..], |shortfall| &shortfall.members);
            prop_assert_eq!(reported.len(), lacking.len());
            for (reported, member) in reported.iter().zip(&lacking) {
                prop_assert_eq!((&reported.id, reported.wanted), (&member.id, member.min));
                prop_assert_eq!(reported.share, shares[&member.id]);
            }
            let missing = lacking.iter().map(|member| u128::from(member.min - shares[&member.id])).sum();
            prop_assert_eq!(division.shortfall.map_or(0, |shortfall| shortfall.missing), missing);
        }
    }

    #[test]
    fn a_fair_share_leaves_nothing_over_and_keeps_all_bounds((maximum, members, _) in case(1..=u64::MAX)) {
        let division = divide(&Allocation::FairShare, maximum, &members);
        let given = sum(division.shares.iter().copied());
        if minima(&members) > maximum.into() {
            prop_assert_eq!(given, u128::from(maximum));
            prop_assert_eq!(division.shortfall.expect("not all can be met").missing, minima(&members) - given);
            for (member, &share) in members.iter().zip(&division.shares) {
                // In proportion to the minima, within a unit.
                let (product, all) = (u128::from(member.min) * u128::from(maximum), minima(&members));
                prop_assert!(u128::from(share) == product / all || u128::from(share) == product.div_ceil(all));
            }
        } else {
            let all_have_max = sum(members.iter().map(|member| member.max.unwrap_or(u64::MAX)));
            prop_assert_eq!(given, all_have_max.min(maximum.into()));
            prop_assert_eq!(division.shortfall, None);
        }
    }

    #[test]
    fn a_fair_share_is_less_than_a_unit_from_the_ideal((maximum, mut members, _) in case(1..=u64::from(u32::MAX))) {
        // Of minima that cannot all be met there is no ideal.
        if minima(&members) > maximum.into() {
            members.iter_mut().for_each(|member| member.min = 0);
        }
        let division = divide(&Allocation::FairShare, maximum, &members);
        for ((share, (amount, of)), member) in division.shares.iter().zip(ideal(maximum, &members)).zip(&members) {
            let distance = (i128::from(*share) * of - amount).abs();
            prop_assert!(distance < of, "{:?} has {share}, ideal is {amount} / {of}, of {maximum}", member);
        }
    }

    #[test]
    fn equal_shares_are_rounded_down((maximum, members, _) in case(1..=u64::MAX)) {
        let equal = divide(&Allocation::Equal, maximum, &members);
        for (share, member) in equal.shares.iter().zip(&members) {
            prop_assert_eq!(*share, (maximum / members.len() as u64).min(member.max.unwrap_or(u64::MAX)));
        }
    }

    #[test]
    fn fair_shares_without_bounds_are_in_proportion_to_the_weights((maximum, members, _) in case(1..=u64::MAX)) {
        let free = |member: &Member| Member::new(member.id.clone()).weight(member.weight);
        let members: Vec<_> = members.iter().map(free).collect();
        let weight: u128 = sum(members.iter().map(|member| member.weight));
        let division = divide(&Allocation::FairShare, maximum, &members);
        for (&share, member) in division.shares.iter().zip(&members) {
            let product = u128::from(maximum) * u128::from(member.weight);
            prop_assert!([product / weight, product.div_ceil(weight)].contains(&share.into()));
        }
    }

    #[test]
    fn fair_shares_are_fixed_where_min_and_max_are_the_same((maximum, members, _) in case(1..=9), each in maximum()) {
        let fixed = |member: &Member| Member::new(member.id.clone()).min(each).max(each);
        let members: Vec<_> = members.iter().map(fixed).collect();
        let equal = maximum.checked_div(members.len() as u64).unwrap_or(0);
        for share in divide(&Allocation::FairShare, maximum, &members).shares {
            if each <= equal {
                prop_assert_eq!(share, each);
            } else {
                prop_assert!(share - equal <= 1, "{share} of {maximum} for {}", members.len());
            }
        }
    }

    #[test]
    fn a_function_is_held_to_the_maximum_and_to_one_share_a_member(
        (maximum, members, shuffled) in case(1..=9),
        shares in prop::collection::vec(prop_oneof![0..20_u64, any::<u64>()], 0..=MOST_MEMBERS),
    ) {
        let rule = { let shares = shares.clone(); Allocation::custom(move |_, _| shares.clone()) };
        let mut sorted = members.clone();
        sorted.sort_by(|a, b| a.id.cmp(&b.id));
        let given = sum(shares.iter().copied());
        let too_much = sorted.iter().zip(&shares).any(|(member, &share)| share > member.max.unwrap_or(u64::MAX));
        match rule.divide(maximum, &members) {
            Err(AllocationError::WrongLength { members: expected, returned }) => {
                prop_assert_eq!((expected, returned), (members.len(), shares.len()));
                prop_assert_ne!(expected, returned);
            }
            Err(AllocationError::ExceedsMaximum { sum, .. }) => prop_assert!(sum == given && given > maximum.into()),
            Err(AllocationError::ExceedsMemberMax { .. }) => prop_assert!(too_much),
            Err(error) => prop_assert!(false, "{}", error),
            Ok(division) => {
                prop_assert!(shares.len() == members.len() && given <= maximum.into() && !too_much);
                let other = divide(&rule, maximum, &shuffled);
                prop_assert_eq!(by_id(&members, &division), by_id(&shuffled, &other));
            }
        }
    }
}

fn named(count: usize) -> Vec<Member> {
    (0..count).map(|number| Member::new(format!("client-{number:010}"))).collect()
}

#[test]
fn equal_shares_are_those_of_the_story() {
    for (maximum, count, share) in [(1_000, 1, 1_000), (1_000, 2, 500), (1_000, 3, 333), (1_000, 4, 250), (500, 3, 166)]
    {
        let division = divide(&Allocation::default(), maximum, &named(count));
        assert_eq!(division.shares, vec![share; count]);
    }
    assert_eq!(divide(&Allocation::Equal, 50, &named(64)).unallocated, 50);
}

#[test]
fn without_members_there_are_no_shares() {
    for rule in [Allocation::Equal, Allocation::FairShare] {
        let division = divide(&rule, 1_000, &[]);
        assert_eq!((division.shares.len(), division.unallocated, division.shortfall), (0, 1_000, None));
    }
}

#[test]
fn the_last_units_go_to_the_largest_remainders_and_then_to_the_smaller_id() {
    // 100 in the proportion 1 : 1 : 4 is 16⅔, 16⅔, 66⅔: two units are left for three equal remainders.
    let members = [Member::new("c").weight(4), Member::new("b"), Member::new("a")];
    assert_eq!(divide(&Allocation::FairShare, 100, &members).shares, [66, 17, 17]);
    // 10 in the proportion 1 : 2 : 4 is 1.43, 2.86, 5.71.
    let members = [Member::new("a"), Member::new("b").weight(2), Member::new("c").weight(4)];
    assert_eq!(divide(&Allocation::FairShare, 10, &members).shares, [1, 3, 6]);
}

#[test]
fn the_share_that_one_cannot_use_is_given_to_the_others() {
    // Who asks for 1 000, 50 and 10 of 120 gets 60, 50 and 10.
    let members = [Member::new("a").max(1_000), Member::new("b").max(50), Member::new("c").max(10)];
    assert_eq!(divide(&Allocation::FairShare, 120, &members).shares, [60, 50, 10]);
    // And a min is borne by the others.
    let members = [Member::new("a").min(80), Member::new("b"), Member::new("c")];
    assert_eq!(divide(&Allocation::FairShare, 120, &members).shares, [80, 20, 20]);
}

#[test]
fn a_fixed_share_that_is_not_to_be_had_is_reported() {
    let members: Vec<_> = named(3).into_iter().map(|member| member.min(40).max(40)).collect();
    let division = divide(&Allocation::FairShare, 120, &members);
    assert_eq!((division.shares, division.shortfall), (vec![40; 3], None));
    let division = divide(&Allocation::FairShare, 100, &members);
    assert_eq!(division.shares, [34, 33, 33]);
    assert_eq!(division.shortfall.expect("40 were asked for").missing, 20);
}

#[test]
fn the_largest_values_do_not_overflow() {
    let heavy = |id: &str| Member::new(id).weight(u64::MAX);
    let members = [heavy("a"), heavy("b"), heavy("c").min(u64::MAX / 2)];
    let division = divide(&Allocation::FairShare, u64::MAX, &members);
    assert_eq!(sum(division.shares.iter().copied()), u128::from(u64::MAX));
    let members = [heavy("a").min(u64::MAX), heavy("b").min(u64::MAX), heavy("c").min(u64::MAX)];
    let division = divide(&Allocation::FairShare, u64::MAX, &members);
    assert_eq!(sum(division.shares.iter().copied()), u128::from(u64::MAX));
    assert_eq!(division.shortfall.expect("three times as much").missing, 2 * u128::from(u64::MAX));
}

#[test]
fn members_that_make_no_sense_are_an_error() {
    let fails = |members: &[Member]| Allocation::Equal.divide(9, members).expect_err("no sense").to_string();
    assert_eq!(fails(&[Member::new("a").weight(0)]), "member \"a\": the weight is 0; it must be at least 1");
    assert_eq!(fails(&[Member::new("a").min(2).max(1)]), "member \"a\": the min, 2, is above the max, 1");
    assert_eq!(fails(&[Member::new("a"), Member::new("b"), Member::new("a")]), "two members have the id \"a\"");
}

#[test]
fn a_function_that_panics_is_an_error() {
    let rule = Allocation::custom(|_, _| panic!("no idea"));
    let error = rule.divide(9, &named(1)).expect_err("it panics");
    assert_eq!(error, AllocationError::Panicked { message: "no idea".into() });
}
