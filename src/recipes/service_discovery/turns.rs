//! Whose turn it is: a schedule that is made when something changes, so that a choice is one step.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};

use super::found::Instance;
use super::health::Standing;
use super::strategy::{Strategy, Weight};

/// The most entries that weights may ask for; larger ones are scaled down.
const MOST_ENTRIES: u64 = 4_096;

/// An instance that may be chosen.
#[derive(Debug)]
struct Candidate<P> {
    instance: Instance<P>,
    /// For one that is probed: whether a caller does so already.
    probe: Option<Arc<AtomicBool>>,
    /// It went down after the schedule was made.
    is_down: AtomicBool,
}

/// The instances that may be chosen, and in which order.
#[derive(Debug)]
pub(super) struct Turns<P> {
    candidates: Vec<Candidate<P>>,
    /// Indices of candidates, each as often as its weight says.
    schedule: Vec<u32>,
    /// The index of the candidate that [`Strategy::Sticky`] stays with.
    sticky: usize,
    /// The indices of those that are probed.
    probed: Vec<usize>,
}

impl<P> Turns<P> {
    pub(super) fn none() -> Self {
        Turns { candidates: Vec::new(), schedule: Vec::new(), sticky: 0, probed: Vec::new() }
    }

    /// Makes the schedule of those that may be chosen: the enabled ones that are not down; without any, the enabled
    /// ones; without any, all. `draw` returns a number below another one.
    pub(super) fn new(
        all: Vec<(Instance<P>, Standing)>,
        weight: Option<&Weight<P>>,
        before: &Turns<P>,
        draw: impl FnOnce(usize) -> usize,
    ) -> Self {
        let is_usable = |one: &(Instance<P>, Standing)| one.0.is_enabled() && !matches!(one.1, Standing::Down);
        let some_usable = all.iter().any(is_usable);
        let some_enabled = all.iter().any(|(instance, _)| instance.is_enabled());
        let chosen = all.into_iter().filter(|one| match (some_usable, some_enabled) {
            (true, _) => is_usable(one),
            (false, true) => one.0.is_enabled(),
            (false, false) => true,
        });
        let candidates: Vec<_> = chosen
            .map(|(instance, standing)| {
                let probe = match standing {
                    Standing::Probed(is_taken) => Some(is_taken),
                    Standing::Up | Standing::Down => None,
                };
                Candidate { instance, probe, is_down: AtomicBool::new(false) }
            })
            .collect();
        let weights: Vec<u32> = match weight {
            None => vec![1; candidates.len()],
            Some(weight) => candidates.iter().map(|candidate| weight.of(&candidate.instance)).collect(),
        };
        let is_same = |candidate: &Candidate<P>| {
            let stayed = before.candidates.get(before.sticky).map(|stayed| &stayed.instance);
            candidate.probe.is_none() && stayed.is_some_and(|stayed| candidate.instance.is_same_registration(stayed))
        };
        let sticky = candidates.iter().position(is_same).unwrap_or_else(|| {
            let steady: Vec<_> = (0..candidates.len()).filter(|index| candidates[*index].probe.is_none()).collect();
            steady.get(draw(steady.len().max(1))).copied().unwrap_or_default()
        });
        let probed = (0..candidates.len()).filter(|index| candidates[*index].probe.is_some()).collect();
        Turns { schedule: schedule(&weights), candidates, sticky, probed }
    }

    /// Returns the instance whose turn it is; `position` counts the calls.
    pub(super) fn next(&self, strategy: &Strategy<P>, position: &AtomicUsize) -> Option<Instance<P>> {
        let length = self.schedule.len();
        if length == 0 {
            return None;
        }
        // Wraps around.
        let turn = || position.fetch_add(1, Memory::Relaxed);
        let start = match strategy {
            Strategy::RoundRobin => turn() % length,
            Strategy::Random => fastrand::usize(..length),
            Strategy::Sticky => {
                let stays = self.candidates.get(self.sticky).filter(|candidate| candidate.claim());
                return self.probe().or(stays).or_else(|| self.first()).map(Candidate::found);
            }
            Strategy::LeastLoaded(load) => {
                let (before, after) = self.candidates.split_at(turn() % self.candidates.len());
                let from_there = after.iter().chain(before).filter(|candidate| candidate.probe.is_none());
                let up = from_there.filter(|candidate| candidate.claim());
                let least = up.min_by_key(|candidate| load.of(&candidate.instance));
                return self.probe().or(least).or_else(|| self.first()).map(Candidate::found);
            }
        };
        // One that is probed is passed over while a caller does so, and one that is down since a moment ago.
        let free = (0..length).map(|step| self.entry((start + step) % length)).find(|candidate| candidate.claim());
        Some(free.unwrap_or_else(|| self.entry(start)).found())
    }

    /// Returns the instances that may be chosen.
    pub(super) fn instances(&self) -> impl Iterator<Item = &Instance<P>> {
        self.candidates.iter().map(|candidate| &candidate.instance)
    }

    /// Passes over this instance from now on, until the next schedule.
    pub(super) fn pass_over(&self, instance: &Instance<P>) {
        let is_this = |candidate: &&Candidate<P>| candidate.instance.is_same_registration(instance);
        if let Some(candidate) = self.candidates.iter().find(is_this) {
            candidate.is_down.store(true, Memory::Relaxed);
        }
    }

    /// Returns the first one that a call may have; without any, the first one.
    fn first(&self) -> Option<&Candidate<P>> {
        self.candidates.iter().find(|candidate| candidate.claim()).or(self.candidates.first())
    }

    fn entry(&self, entry: usize) -> &Candidate<P> {
        &self.candidates[self.schedule[entry] as usize]
    }

    /// Returns one that is to be probed, and that no caller probes yet. Without this, the strategies that look for the
    /// best one might never choose it.
    fn probe(&self) -> Option<&Candidate<P>> {
        self.probed.iter().map(|index| &self.candidates[*index]).find(|candidate| candidate.claim())
    }
}

impl<P> Candidate<P> {
    /// Returns whether this call may have it: one that is down is not had, and one that is probed once.
    fn claim(&self) -> bool {
        !self.is_down.load(Memory::Relaxed)
            && self
                .probe
                .as_ref()
                .is_none_or(|taken| !taken.load(Memory::Relaxed) && !taken.swap(true, Memory::Relaxed))
    }

    fn found(&self) -> Instance<P> {
        self.instance.clone()
    }
}

/// The next turn of one candidate. Its k-th turn is at (2k + 1) / (2 weight), so that the turns of all are spread
/// evenly.
#[derive(Debug, PartialEq, Eq)]
struct Turn {
    odd: u64,
    weight: u64,
    index: u32,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, others) = (self.odd * other.weight, other.odd * self.weight);
        own.cmp(&others).then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the indices in an order in which each appears in proportion to its weight. If all weights are zero, they
/// count as equal.
fn schedule(weights: &[u32]) -> Vec<u32> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let scaled = |weight: u32| match (total, u64::from(weight)) {
        (0, _) => 1,
        (_, 0) => 0,
        (1..=MOST_ENTRIES, weight) => weight,
        (_, weight) => (weight * MOST_ENTRIES / total).max(1),
    };
    let weights: Vec<u64> = weights.iter().map(|weight| scaled(*weight)).collect();
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let turns = weights.iter().zip(0..).filter(|(weight, _)| **weight > 0);
    let mut turns: BinaryHeap<_> =
        turns.map(|(weight, index)| Reverse(Turn { odd: 1, weight: weight / divisor, index })).collect();
    let length: u64 = weights.iter().map(|weight| weight / divisor).sum();
    let mut order = Vec::with_capacity(length as usize);
    while (order.len() as u64) < length {
        let Some(Reverse(Turn { odd, weight, index })) = turns.pop() else { break };
        order.push(index);
        turns.push(Reverse(Turn { odd: odd + 2, weight, index }));
    }
    order
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Content, Node};
    use crate::service_discovery::ServiceInstance;
    use crate::util::znode::Stat;

    fn turns(ids: &[&str]) -> Turns<()> {
        let of = |id: &str| {
            let instance = ServiceInstance::builder("api").id(id).build().expect("a good instance");
            Node::new(&format!("/services/api/{id}"), Stat::default(), Content::Decoded(instance))
        };
        let all = ids.iter().filter_map(|id| Instance::of(&of(id))).map(|instance| (instance, Standing::Up));
        Turns::new(all.collect(), None, &Turns::none(), |_| 0)
    }

    #[test]
    fn the_count_of_round_robin_may_overflow() {
        let (turns, position) = (turns(&["a", "b", "c"]), AtomicUsize::new(usize::MAX - 4));
        let ids = [(); 9].map(|()| turns.next(&Strategy::RoundRobin, &position).expect("one of them").id().to_owned());
        for id in ["a", "b", "c"] {
            // The order may jump once.
            assert!((2..=4).contains(&ids.iter().filter(|one| *one == id).count()), "{ids:?}");
        }
    }

    #[test]
    fn equal_weights_are_one_turn_each() {
        assert_eq!(schedule(&[]), [0; 0]);
        for weight in [0, 1, 7, u32::MAX] {
            assert_eq!(schedule(&[weight; 4]), [0, 1, 2, 3], "{weight}");
        }
        assert_eq!(schedule(&vec![1; 10_000]).len(), 10_000);
    }

    #[test]
    fn turns_are_in_proportion_and_spread_out() {
        assert_eq!(schedule(&[2, 1]), [0, 1, 0]);
        assert_eq!(schedule(&[30, 0, 10]), [0, 0, 2, 0]);
        let order = schedule(&[5, 3, 2]);
        assert_eq!([0, 1, 2].map(|index| order.iter().filter(|one| **one == index).count()), [5, 3, 2]);
        let together = order.windows(3).filter(|three| three.iter().all(|one| *one == 0)).count();
        assert_eq!(together, 0, "{order:?}");
    }

    #[test]
    fn large_weights_are_scaled_and_none_is_lost() {
        let order = schedule(&[u32::MAX, u32::MAX / 3, 1]);
        assert!(order.len() <= MOST_ENTRIES as usize + 1, "{}", order.len());
        let count = |index| order.iter().filter(|one| **one == index).count();
        assert_eq!(count(2), 1);
        assert!((2.99..3.01).contains(&(count(0) as f64 / count(1) as f64)));
    }
}
