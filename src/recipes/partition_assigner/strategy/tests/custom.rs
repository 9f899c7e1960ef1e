//! What a function of the user may return.

use proptest::prelude::*;

use super::case::{Kind, case, config};
use crate::recipes::partition_assigner::strategy::{Member, Partition, Strategy, StrategyError};

fn returns(result: Vec<Option<usize>>) -> Strategy {
    Strategy::custom(move |_, _| result.clone())
}

fn partitions() -> [Partition; 3] {
    ["p0", "p1", "p2"].map(Partition::new)
}

fn members() -> [Member; 2] {
    [Member::new("a").capacity(2), Member::new("b")]
}

#[test]
fn a_function_decides() {
    let result = vec![Some(1), None, Some(0)];
    assert_eq!(returns(result.clone()).assign(&partitions(), &members()), Ok(result));
}

#[test]
fn a_function_that_returns_too_few_is_an_error() {
    let error = returns(vec![None; 2]).assign(&partitions(), &members()).expect_err("one is missing");
    assert_eq!(error, StrategyError::WrongLength { expected: 3, got: 2 });
}

#[test]
fn a_function_that_names_no_member_is_an_error() {
    let error = returns(vec![None, Some(2), None]).assign(&partitions(), &members()).expect_err("there are two");
    assert_eq!(error, StrategyError::NoSuchMember { partition: "p1".into(), index: 2, members: 2 });
}

#[test]
fn a_function_that_exceeds_a_capacity_is_an_error() {
    assert!(returns(vec![Some(1); 3]).assign(&partitions(), &members()).is_ok());
    let error = returns(vec![Some(0); 3]).assign(&partitions(), &members()).expect_err("a takes two");
    assert_eq!(error, StrategyError::OverCapacity { member: "a".into(), capacity: 2, assigned: 3 });
}

#[test]
fn a_pin_overrides_a_function() {
    let [first, second, third] = partitions();
    let pinned = [first.pinned(0), second.pinned(0), third.pinned(0)];
    // Even if the function returns nonsense, and above the capacity.
    let result = returns(vec![None, Some(9), Some(1)]).assign(&pinned, &members());
    assert_eq!(result, Ok(vec![Some(0); 3]));
    let [first, second, third] = pinned;
    // But then there is no room for others.
    let error = returns(vec![Some(0); 3]).assign(&[first, second, third.pinned(None)], &members());
    assert_eq!(error, Err(StrategyError::OverCapacity { member: "a".into(), capacity: 2, assigned: 3 }));
}

#[test]
fn a_function_that_panics_is_an_error() {
    let error = StrategyError::Panicked { message: "no idea".into() };
    let custom = Strategy::custom(|_, _| panic!("no idea"));
    assert_eq!(custom.assign(&partitions(), &members()), Err(error.clone()));
    let eligible = Strategy::eligible(|_, _| panic!("no idea"));
    assert_eq!(eligible.assign(&partitions(), &members()), Err(error));
}

#[test]
fn a_clone_is_equal_and_another_function_is_not() {
    for make in [|| returns(Vec::new()), || Strategy::eligible(|_, _| true)] {
        let strategy = make();
        assert_eq!(strategy, strategy.clone());
        assert_ne!(strategy, make());
    }
    assert_eq!(format!("{:?}", returns(Vec::new())), "Custom(Custom(..))");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_function_is_held_to_the_members_and_their_capacities(
        case in case(Kind { partitions: 0..=6, members: 0..=3, ..Kind::default() }),
        returned in prop::collection::vec(prop::option::of(0..4_usize), 0..=6),
    ) {
        let pinned = case.partitions.iter().map(|partition| partition.pinned);
        let expected: Vec<_> = pinned.zip(&returned).map(|(pinned, one)| pinned.or(*one)).collect();
        let exists = |member: &Option<usize>| member.is_none_or(|member| member < case.members.len());
        match returns(returned.clone()).assign(&case.partitions, &case.members) {
            Err(StrategyError::WrongLength { expected, got }) => {
                prop_assert_eq!((expected, got), (case.partitions.len(), returned.len()));
                prop_assert_ne!(expected, got);
            }
            Err(StrategyError::NoSuchMember { .. }) => prop_assert!(!expected.iter().all(exists)),
            Err(StrategyError::OverCapacity { member, assigned, .. }) => {
                let at = case.members.iter().position(|one| one.id == member).expect("it exists");
                prop_assert_eq!(case.loads(expected)[at], assigned);
                prop_assert!(assigned > case.limits()[at]);
            }
            Err(error) => prop_assert!(false, "{}", error),
            Ok(result) => {
                prop_assert_eq!(returned.len(), case.partitions.len());
                prop_assert!(expected.iter().all(exists));
                prop_assert!(case.loads(result.clone()).iter().zip(case.limits()).all(|(load, limit)| *load <= limit));
                prop_assert_eq!(result, expected);
            }
        }
    }
}
