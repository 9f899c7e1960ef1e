//! The operations of a transaction, and what each of them is for.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{Error, Multi, Op, OpResult};
use crate::util::path::{ancestors, split};
use crate::util::znode::{Acl, CreateMode};

/// What an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It checks a fence; the number counts the checks.
    Fence(usize),
    /// It creates a missing node above that of the step with this number.
    Parent(usize),
    /// It is the step with this number.
    Step(usize),
}

/// What is wrong with the nodes above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack<'a> {
    /// One of them is missing.
    Missing,
    /// This one is not: another client has just created it, or an earlier step does.
    Unneeded(&'a str),
}

/// The operations in the order in which the servers carry them out.
#[derive(Debug)]
pub(super) struct Request {
    ops: Vec<(Place, Op)>,
}

impl Request {
    /// Places the missing nodes above a node before the step that creates it, each once. A step that creates such a
    /// node itself does that for the later ones.
    pub(super) fn new(
        checks: impl Iterator<Item = Op>,
        steps: &[Op],
        missing: &BTreeSet<String>,
        acls: &[Acl],
    ) -> Request {
        let mut ops: Vec<_> = checks.enumerate().map(|(number, check)| (Place::Fence(number), check)).collect();
        let mut made: BTreeSet<&str> = BTreeSet::new();
        for (number, step) in steps.iter().enumerate() {
            if let Op::Create { path, mode, .. } = step {
                for parent in above(path).filter(|parent| missing.contains(*parent)) {
                    if made.insert(parent) {
                        ops.push((Place::Parent(number), create(parent, acls)));
                    }
                }
                // The server appends a number to the name of a sequential one.
                made.extend((!mode.is_sequential()).then_some(path.as_str()));
            }
            ops.push((Place::Step(number), step.clone()));
        }
        Request { ops }
    }

    pub(super) fn ops(&self) -> Vec<Op> {
        self.ops.iter().map(|(_, op)| op.clone()).collect()
    }

    /// Returns the bytes of all paths and data that are the caller's.
    pub(super) fn bytes(&self) -> usize {
        let counted = self.ops.iter().filter(|(place, _)| !matches!(place, Place::Fence(_)));
        counted.map(|(_, op)| op.path().len() + op.data_len()).sum()
    }

    pub(super) fn get(&self, index: usize) -> Option<&(Place, Op)> {
        self.ops.get(index)
    }

    /// Returns what to do about the nodes above, if the servers refused the transaction because of them.
    pub(super) fn lack(&self, outcome: &Multi) -> Option<Lack<'_>> {
        let Multi::Refused { index, error } = outcome else { return None };
        let (place, op) = self.get(*index)?;
        match (place, op, error) {
            (Place::Step(_), Op::Create { path, .. }, Error::NoNode) => {
                let deletes =
                    |op: &Op| matches!(op, Op::Delete { path: deleted, .. } if above(path).any(|one| one == deleted));
                let is_deleted = self.ops[..*index].iter().any(|(_, op)| deletes(op));
                (!is_deleted).then_some(Lack::Missing)
            }
            (Place::Parent(_), _, Error::NoNode) => Some(Lack::Missing),
            (Place::Parent(_), op, Error::NodeExists) => Some(Lack::Unneeded(op.path())),
            _ => None,
        }
    }

    /// Returns the results of the steps.
    pub(super) fn of_steps(self, results: Vec<OpResult>) -> impl Iterator<Item = OpResult> {
        let places = self.ops.into_iter().map(|(place, _)| place);
        places.zip(results).filter(|(place, _)| matches!(place, Place::Step(_))).map(|(_, result)| result)
    }
}

/// Returns a step that needs a missing node which only a later step creates, and the number of that one.
pub(super) fn out_of_order(steps: &[Op], missing: &BTreeSet<String>) -> Option<(usize, usize)> {
    let mut creators: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        if let Op::Create { path, mode, .. } = step
            && !mode.is_sequential()
        {
            creators.entry(path).or_insert(number);
        }
    }
    let mut creates = steps.iter().enumerate().filter(|(_, step)| matches!(step, Op::Create { .. }));
    creates.find_map(|(number, step)| {
        let needed = above(step.path()).filter(|parent| missing.contains(*parent));
        let mut creators = needed.filter_map(|parent| creators.get(parent));
        creators.find(|creator| **creator > number).map(|later| (number, *later))
    })
}

/// Returns the nodes above those that the steps create, without the root.
pub(super) fn parents(steps: &[Op]) -> BTreeSet<String> {
    let created = steps.iter().filter(|step| matches!(step, Op::Create { .. }));
    created.flat_map(|step| above(step.path())).map(str::to_owned).collect()
}

/// Returns the nodes above a node, topmost first, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    ancestors(split(path).0)
}

fn create(path: &str, acls: &[Acl]) -> Op {
    Op::Create { path: path.to_owned(), data: Vec::new(), mode: CreateMode::Persistent, acls: acls.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, mode: CreateMode) -> Op {
        Op::Create { path: path.to_owned(), data: b"data".to_vec(), mode, acls: Vec::new() }
    }

    fn planned(steps: &[Op], missing: &[&str]) -> Vec<(Place, String)> {
        let check = Op::Check { path: "/fence".to_owned(), version: None };
        let missing = missing.iter().map(|&path| path.to_owned()).collect();
        let request = Request::new([check].into_iter(), steps, &missing, &[]);
        request.ops.iter().map(|(place, op)| (*place, op.path().to_owned())).collect()
    }

    #[test]
    fn missing_nodes_come_once_right_before_the_first_step_that_needs_them() {
        let delete = Op::Delete { path: "/x/y".to_owned(), version: None };
        let steps = [step("/a", CreateMode::Persistent), delete, step("/b/c/d", CreateMode::Ephemeral)];
        let steps = [&steps[..], &[step("/b/c/e", CreateMode::Ephemeral)]].concat();
        let expected = [
            (Place::Fence(0), "/fence"),
            (Place::Step(0), "/a"),
            (Place::Step(1), "/x/y"),
            (Place::Parent(2), "/b"),
            (Place::Parent(2), "/b/c"),
            (Place::Step(2), "/b/c/d"),
            (Place::Step(3), "/b/c/e"),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(place, path)| (place, path.to_owned())).collect();
        assert_eq!(planned(&steps, &["/b", "/b/c", "/x"]), expected);
        assert_eq!(parents(&steps).into_iter().collect::<Vec<_>>(), ["/b", "/b/c"]);
    }

    #[test]
    fn what_a_step_creates_is_not_created_for_a_later_one_unless_it_gets_a_number() {
        for (mode, is_created) in [(CreateMode::Persistent, false), (CreateMode::PersistentSequential, true)] {
            let planned = planned(&[step("/a/b", mode), step("/a/b/c", CreateMode::Persistent)], &["/a", "/a/b"]);
            let parents: Vec<_> = planned.iter().filter(|(place, _)| matches!(place, Place::Parent(_))).collect();
            assert_eq!(parents.iter().any(|(_, path)| path == "/a/b"), is_created, "{mode:?}");
            assert_eq!(parents.len(), 1 + usize::from(is_created), "{mode:?}");
        }
    }
}
