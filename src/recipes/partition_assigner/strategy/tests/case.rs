//! Partitions and members at random, and what happens to them.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use proptest::strategy::Strategy as Random;

use crate::recipes::partition_assigner::strategy::{Member, Partition, Strategy};

/// The number of cases, unless the environment says otherwise.
const CASES: u32 = 1_000;

pub(super) fn config() -> ProptestConfig {
    let asked = std::env::var("STRATEGY_CASES").ok();
    let cases = asked.map_or(CASES, |cases| cases.parse().expect("STRATEGY_CASES is a number"));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What is made at random.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) partitions: RangeInclusive<usize>,
    pub(super) members: RangeInclusive<usize>,
    pub(super) weights: RangeInclusive<u64>,
    pub(super) with_capacities: bool,
    pub(super) with_pins: bool,
}

impl Default for Kind {
    fn default() -> Self {
        Kind { partitions: 0..=24, members: 0..=6, weights: 1..=1, with_capacities: true, with_pins: true }
    }
}

/// Partitions, with members that have them.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) partitions: Vec<Partition>,
    pub(super) members: Vec<Member>,
}

/// Returns members of all weights and capacities, and partitions that any of them has, or is pinned to.
pub(super) fn case(kind: Kind) -> impl Random<Value = Case> {
    let capacity = prop_oneof![3 => Just(None), 2 => (0..=8_usize).prop_map(Some)];
    let member = |weights: RangeInclusive<u64>| {
        (weights, capacity.clone()).prop_map(move |(weight, capacity)| {
            let member = Member::new("").weight(weight);
            Member { capacity: capacity.filter(|_| kind.with_capacities), ..member }
        })
    };
    // Small weights have shares without a remainder.
    let few = 1..=4.min(*kind.weights.end());
    let members = [few, kind.weights].map(|weights| prop::collection::vec(member(weights), kind.members.clone()));
    let [few, all] = members;
    // Some members have most of what there is.
    let place = || prop_oneof![any::<usize>(), 0..2_usize];
    let partition = (prop::option::weighted(0.8, place()), prop::option::weighted(0.1, place()));
    (prop_oneof![few, all], prop::collection::vec(partition, kind.partitions)).prop_map(
        move |(mut members, partitions)| {
            for (number, member) in members.iter_mut().enumerate() {
                member.id = format!("worker-{number:010}");
            }
            let among = |place: Option<usize>| place.and_then(|place| place.checked_rem(members.len()));
            let partition = |(number, (owner, pinned)): (usize, (Option<usize>, Option<usize>))| {
                let pinned = pinned.filter(|_| kind.with_pins);
                Partition::new(format!("orders-{number}")).owner(among(owner)).pinned(among(pinned))
            };
            let partitions = partitions.into_iter().enumerate().map(partition).collect();
            Case { partitions, members }
        },
    )
}

impl Case {
    pub(super) fn assign(&self, strategy: &Strategy) -> Vec<Option<usize>> {
        strategy.assign(&self.partitions, &self.members).expect("good partitions and members")
    }

    /// Lets the members have what the strategy gives them.
    pub(super) fn settled(mut self, strategy: &Strategy) -> Case {
        let result = self.assign(strategy);
        self.partitions.iter_mut().zip(result).for_each(|(partition, member)| partition.owner = member);
        self
    }

    /// Adds a member that has nothing.
    pub(super) fn joined(mut self, at: usize, member: Member) -> Case {
        self.members.insert(at, member);
        self.renumbered(|other| Some(other + usize::from(other >= at)))
    }

    /// Removes a member: no member has its partitions.
    pub(super) fn left(mut self, at: usize) -> Case {
        self.members.remove(at);
        self.renumbered(|other| (other != at).then_some(other - usize::from(other > at)))
    }

    /// Gives the members new numbers.
    pub(super) fn renumbered(mut self, new: impl Fn(usize) -> Option<usize>) -> Case {
        for partition in &mut self.partitions {
            partition.owner = partition.owner.and_then(&new);
            partition.pinned = partition.pinned.and_then(&new);
        }
        self
    }

    /// How many partitions each member has, if these are their members.
    pub(super) fn loads(&self, result: impl IntoIterator<Item = Option<usize>>) -> Vec<usize> {
        let mut loads = vec![0; self.members.len()];
        result.into_iter().flatten().for_each(|member| loads[member] += 1);
        loads
    }

    pub(super) fn pins(&self) -> Vec<usize> {
        self.loads(self.partitions.iter().map(|partition| partition.pinned))
    }

    pub(super) fn owned(&self) -> Vec<usize> {
        self.loads(self.partitions.iter().map(|partition| partition.owner))
    }

    /// The most that each member may have; no limit is above all partitions.
    pub(super) fn limits(&self) -> Vec<usize> {
        let limit = |(member, pins): (&Member, usize)| member.capacity.unwrap_or(self.partitions.len()).max(pins);
        self.members.iter().zip(self.pins()).map(limit).collect()
    }

    /// The partitions that a member has and another one gets, or none: where they are and where they go.
    pub(super) fn moves(&self, result: &[Option<usize>]) -> Vec<(usize, Option<usize>)> {
        let moved = |(partition, &to): (&Partition, &Option<usize>)| {
            let from = partition.owner.filter(|&from| Some(from) != to)?;
            Some((from, to))
        };
        self.partitions.iter().zip(result).filter_map(moved).collect()
    }
}
