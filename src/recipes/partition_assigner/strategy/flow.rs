//! Divides partitions of classes that share members: what one class gets is missing for another.
//!
//! This is a flow from the classes to the members. The search for a better one goes along paths: a member gives a
//! partition to a second one, which gives another partition to a third one, and so on. If there is no path from a
//! partition without a member to one with room, no division gives more partitions a member. If there is no path from
//! a member to one whose level would stay below, no division of the same partitions is more balanced.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use super::class::Class;
use super::member_set::MemberSet;
use super::task::Task;

/// Divides the partitions of the classes, and writes who gets which to `result`.
pub(super) fn divide(task: &Task<'_>, classes: &[Class], result: &mut [Option<usize>]) {
    let mut flow = Flow {
        task,
        classes,
        loads: task.pins.clone(),
        held: vec![BTreeMap::new(); task.members.len()],
        open: MemberSet::of(task.members.len(), |_| true),
    };
    let waiting = flow.keep();
    flow.relieve();
    waiting.into_iter().for_each(|wait| flow.place(wait));
    flow.balance();
    for (member, held) in flow.held.iter().enumerate() {
        held.values().flatten().for_each(|&partition| result[partition] = Some(member));
    }
}

/// A division in the making.
#[derive(Debug)]
struct Flow<'a> {
    task: &'a Task<'a>,
    classes: &'a [Class],
    /// How many partitions each member has, with those that are pinned to it.
    loads: Vec<usize>,
    /// For each member, its partitions by class. The last of a class leaves first.
    held: Vec<BTreeMap<usize, Vec<usize>>>,
    /// The members that can still be part of a path. A search that fails has found a region that no path leaves, so no
    /// later search needs to enter it.
    open: MemberSet,
}

/// A partition that no eligible member has. Partitions that another member has come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    is_orphaned: bool,
    partition: usize,
    class: usize,
}

/// The share of a member when it has its last partition: its cost in a sum of squares, `(2 * load - 1) / weight`. Where
/// no path leads to a lower level, the sum of `load² / weight` is the smallest. A load above the limit is above all.
#[derive(Debug, Clone, Copy)]
struct Level {
    is_over: bool,
    amount: u64,
    weight: u64,
}

impl Level {
    /// Above each level of a member with room, and below all others.
    const FULL: Level = Level { is_over: true, amount: 0, weight: 1 };
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |one: &Level, other: &Level| u128::from(one.amount) * u128::from(other.weight);
        let order = product(self, other).cmp(&product(other, self));
        self.is_over.cmp(&other.is_over).then(order)
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

/// Where a path begins.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// A member that gives a partition away.
    Member(usize),
    /// A partition that no member has.
    Waiting(Waiting),
}

/// How a search came to a member: by a partition of this class, from this member or from the origin.
#[derive(Debug, Clone, Copy)]
struct Step {
    class: usize,
    from: Option<usize>,
}

/// What a search has found.
#[derive(Debug)]
struct Search {
    /// For each member that was reached, how.
    steps: Vec<Option<Step>>,
    reached: Vec<usize>,
    goal: Option<usize>,
}

impl Flow<'_> {
    /// Lets each member keep what it has and may have, even above its limit. Returns the other partitions.
    fn keep(&mut self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            for &partition in &class.partitions {
                let owner = self.task.partitions[partition].owner;
                match owner.filter(|&owner| class.members.contains(owner)) {
                    Some(owner) => self.give(owner, number, partition),
                    None => waiting.push(Waiting { is_orphaned: owner.is_none(), partition, class: number }),
                }
            }
        }
        for (member, held) in self.held.iter_mut().enumerate() {
            for partitions in held.values_mut() {
                self.task.sort_as_kept_by(member, partitions);
                self.loads[member] += partitions.len();
            }
        }
        waiting.sort_unstable();
        waiting
    }

    /// Moves partitions away from members above their limit. If there is no room for them, no member gets them.
    fn relieve(&mut self) {
        for member in 0..self.loads.len() {
            while self.loads[member] > self.task.limit(member) {
                let search = self.search(Origin::Member(member), Level::FULL);
                if !self.follow(Origin::Member(member), &search) {
                    self.drop_excess(member);
                }
            }
        }
    }

    /// Gives a partition to a member, if there is room for it.
    fn place(&mut self, waiting: Waiting) {
        let origin = Origin::Waiting(waiting);
        let search = self.search(origin, Level::FULL);
        self.follow(origin, &search);
    }

    /// Moves partitions from higher to lower levels until no path leads downward, from the highest level first. Then
    /// the members that a failed search has reached are balanced for good: all are at least as high as what comes.
    fn balance(&mut self) {
        let members = 0..self.loads.len();
        let mut heap: BinaryHeap<_> = members.filter_map(|member| self.entry(member)).collect();
        while let Some((level, Reverse(member))) = heap.pop() {
            // The load has changed since.
            let is_stale = self.entry(member) != Some((level, Reverse(member)));
            if is_stale || !self.open.contains(member) {
                continue;
            }
            let search = self.search(Origin::Member(member), level);
            if self.follow(Origin::Member(member), &search) {
                heap.extend(self.entry(member));
                heap.extend(search.goal.and_then(|goal| self.entry(goal)));
            }
        }
    }

    /// Returns the place of a member in the order of levels, if it has a partition that can move.
    fn entry(&self, member: usize) -> Option<(Level, Reverse<usize>)> {
        let can_give = !self.held[member].is_empty();
        can_give.then(|| (self.level(member, self.loads[member]), Reverse(member)))
    }

    /// Returns the level of a member with this load, which is at least 1.
    fn level(&self, member: usize, load: usize) -> Level {
        let is_over = load > self.task.limit(member);
        Level { is_over, amount: 2 * load as u64 - 1, weight: self.task.members[member].weight }
    }

    /// Searches for a member that one more partition brings to a level below `bound`: the one with the shortest path,
    /// so that little moves, and among those the lowest.
    fn search(&self, origin: Origin, bound: Level) -> Search {
        let mut search = Search { steps: vec![None; self.loads.len()], reached: Vec::new(), goal: None };
        let mut unseen = self.open.clone();
        let mut is_seen = vec![false; self.classes.len()];
        let mut wave = match origin {
            Origin::Member(member) => {
                unseen.remove(member);
                search.reached.push(member);
                self.ways_from(member).collect()
            }
            Origin::Waiting(waiting) => vec![Step { class: waiting.class, from: None }],
        };
        while search.goal.is_none() && !wave.is_empty() {
            let known = search.reached.len();
            for step in wave.drain(..) {
                if !std::mem::replace(&mut is_seen[step.class], true) {
                    unseen.take_common(&self.classes[step.class].members, |member| {
                        search.steps[member] = Some(step);
                        search.reached.push(member);
                    });
                }
            }
            let new = &search.reached[known..];
            let levels = new.iter().map(|&member| (self.level(member, self.loads[member] + 1), member));
            search.goal = levels.filter(|&(level, _)| level < bound).min().map(|(_, member)| member);
            wave.extend(new.iter().flat_map(|&member| self.ways_from(member)));
        }
        search
    }

    fn ways_from(&self, member: usize) -> impl Iterator<Item = Step> + '_ {
        self.held[member].keys().map(move |&class| Step { class, from: Some(member) })
    }

    /// Moves a partition along each step of the path to the goal. Without a goal, closes the members that were reached,
    /// and returns false.
    fn follow(&mut self, origin: Origin, search: &Search) -> bool {
        let Some(goal) = search.goal else {
            search.reached.iter().for_each(|&member| self.open.remove(member));
            return false;
        };
        self.loads[goal] += 1;
        let mut to = goal;
        while let Some(Step { class, from }) = search.steps[to] {
            match (from, origin) {
                (Some(from), _) => {
                    let moved = self.take(from, class);
                    moved.into_iter().for_each(|partition| self.give(to, class, partition));
                    to = from;
                }
                (None, Origin::Waiting(waiting)) => {
                    self.give(to, class, waiting.partition);
                    break;
                }
                (None, Origin::Member(_)) => break,
            }
        }
        if let Origin::Member(member) = origin {
            self.loads[member] -= 1;
        }
        true
    }

    fn give(&mut self, member: usize, class: usize, partition: usize) {
        self.held[member].entry(class).or_default().push(partition);
    }

    fn take(&mut self, member: usize, class: usize) -> Option<usize> {
        let partitions = self.held[member].get_mut(&class)?;
        let taken = partitions.pop();
        if partitions.is_empty() {
            self.held[member].remove(&class);
        }
        taken
    }

    /// Takes from a member what is above its limit.
    fn drop_excess(&mut self, member: usize) {
        while self.loads[member] > self.task.limit(member) {
            let last = self.held[member].last_key_value().map(|(&class, _)| class);
            last.and_then(|class| self.take(member, class));
            self.loads[member] -= 1;
        }
    }
}
