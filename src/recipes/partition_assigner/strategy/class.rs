//! Classes of partitions, by the members that are eligible for them.

use std::collections::BTreeMap;

use super::member::Member;
use super::member_set::MemberSet;
use super::task::Task;

/// The partitions that may go to the same members. There are few classes where the predicate goes by labels.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) members: MemberSet,
    pub(super) partitions: Vec<usize>,
}

/// Returns the classes of the partitions that are not pinned. Calls the predicate once for each partition and member.
pub(super) fn classify(task: &Task<'_>, is_eligible: impl Fn(&str, &Member) -> bool) -> Vec<Class> {
    let mut classes = BTreeMap::<_, Vec<usize>>::new();
    for partition in task.free() {
        let name = &task.partitions[partition].name;
        let set = MemberSet::of(task.members.len(), |member| is_eligible(name, &task.members[member]));
        classes.entry(set).or_default().push(partition);
    }
    classes.into_iter().map(|(members, partitions)| Class { members, partitions }).collect()
}

/// Separates the classes that share no member with another class from the others.
pub(super) fn separate(task: &Task<'_>, classes: Vec<Class>) -> (Vec<Class>, Vec<Class>) {
    let mut memberships = vec![0_usize; task.members.len()];
    classes.iter().flat_map(|class| class.members.iter()).for_each(|member| memberships[member] += 1);
    classes.into_iter().partition(|class| class.members.iter().all(|member| memberships[member] == 1))
}
