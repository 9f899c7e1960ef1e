//! Makes the state of an assigner out of its nodes. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::value::{AssignerState, MemberInfo, PartitionInfo, UnreadableNode};
use crate::layout::partition_assigner::{Assignment, Config, OWNED, Presence};
use crate::util::natural::{natural, sorted};
use crate::util::path::join;

/// Why a node of a partition that is held says nothing.
const NO_MEMBER: &str = "no member has this registration: it has just left, or a person has created the node";

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) leader: Option<String>,
    pub(super) config: Config,
    pub(super) assignments: BTreeMap<String, Assignment>,
    pub(super) owned: Vec<Owned>,
    /// The nodes of the members that are present, by id. A member whose former session is not over yet has two.
    pub(super) members: BTreeMap<String, Vec<Present>>,
    pub(super) unreadable: Vec<UnreadableNode>,
}

/// The node of a partition that is held.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) name: String,
    pub(super) partition: String,
    /// The registration of the holder.
    pub(super) registration: String,
    /// `None` if the client may not read it.
    pub(super) token: Option<i64>,
}

/// The node that shows that a member is present.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) registration: String,
    /// The transaction that created it; `None` if the client may not read it.
    pub(super) czxid: Option<i64>,
    /// `None` if it cannot be read.
    pub(super) presence: Option<Presence>,
}

impl Found {
    /// Keeps what was parsed, or why it could not be.
    pub(super) fn parse<T>(&mut self, node: &str, parsed: Result<T, String>, keep: impl FnOnce(&mut Found, T)) {
        match parsed {
            Ok(parsed) => keep(self, parsed),
            Err(why) => self.refuse(node, &why),
        }
    }

    /// Notes that a node cannot be read.
    pub(super) fn refuse(&mut self, node: &str, why: &str) {
        self.unreadable.push(UnreadableNode { node: node.to_owned(), why: why.to_owned() });
    }

    /// Returns the node of this member by which a leader knows it: the one that its assignment names, otherwise the
    /// oldest.
    fn present(&self, id: &str) -> Option<&Present> {
        let all = self.members.get(id)?;
        let named = self.assignments.get(id).map(|assignment| assignment.member.as_str());
        let is_named = |present: &&Present| named == Some(&present.registration);
        all.iter().find(is_named).or_else(|| all.iter().min_by_key(|present| present.czxid.unwrap_or(i64::MAX)))
    }

    /// Returns whether the assignment of this member is that of a node which it has now.
    fn is_current(&self, id: &str) -> bool {
        let assignment = self.assignments.get(id);
        self.present(id).zip(assignment).is_some_and(|(present, one)| present.registration == one.member)
    }

    /// Returns the ids of the members by their registrations.
    fn ids(&self) -> HashMap<&str, &String> {
        let former = self.assignments.iter().map(|(id, assignment)| (assignment.member.as_str(), id));
        let present = self.members.iter().flat_map(|(id, all)| all.iter().map(move |one| (&*one.registration, id)));
        former.chain(present).collect()
    }

    fn member(&self, id: &str) -> MemberInfo {
        let present = self.present(id);
        let presence = present.and_then(|present| present.presence.as_ref());
        let assignment = self.assignments.get(id);
        let names = |names: Option<&BTreeSet<Arc<str>>>| sorted(names.into_iter().flatten());
        MemberInfo {
            id: id.to_owned(),
            weight: presence.map(|presence| presence.weight),
            capacity: presence.and_then(|presence| presence.capacity),
            labels: presence.map(|presence| presence.labels.clone()).unwrap_or_default(),
            is_present: present.is_some(),
            is_returning: present.is_some() && assignment.is_some() && !self.is_current(id),
            is_drained: self.config.drained.contains(id),
            assigned: names(assignment.map(|assignment| &assignment.assigned)),
            held: names(assignment.map(|assignment| &assignment.held)),
        }
    }

    fn partitions(&self) -> Vec<PartitionInfo> {
        let mut partitions: BTreeMap<&str, PartitionInfo> = BTreeMap::new();
        let ids = self.ids();
        for Owned { partition, registration, token, .. } in &self.owned {
            let Some(&id) = ids.get(registration.as_str()) else { continue };
            let partition = partitions.entry(partition).or_default();
            // Of two nodes, one is left over from before.
            if partition.owner.is_none() || partition.token < *token {
                (partition.owner, partition.token) = (Some(id.clone()), *token);
            }
        }
        for (id, assignment) in &self.assignments {
            for name in assignment.assigned.union(&assignment.held) {
                partitions.entry(name).or_default();
            }
            for name in &assignment.assigned {
                let partition = partitions.entry(name).or_default();
                if !self.is_current(id) {
                    partition.reserved_for = Some(id.clone());
                } else if partition.owner.as_ref() != Some(id) {
                    partition.moving_to = Some(id.clone());
                }
            }
        }
        for (name, member) in &self.config.pins {
            partitions.entry(name).or_default().pinned = Some(member.clone());
        }
        for (name, partition) in &mut partitions {
            partition.name = (*name).to_owned();
            let of_owner = partition.owner.as_ref().filter(|id| self.is_current(id));
            let of_owner = of_owner.and_then(|id| self.assignments.get(id));
            partition.is_revoked = of_owner.is_some_and(|assignment| !assignment.assigned.contains(*name));
        }
        let mut partitions: Vec<_> = partitions.into_values().collect();
        partitions.sort_by(|one, other| natural(&one.name, &other.name));
        partitions
    }
}

/// Returns the state that these nodes describe.
pub(super) fn assemble(mut found: Found) -> AssignerState {
    let ids = found.ids();
    let strays = found.owned.iter().filter(|owned| !ids.contains_key(owned.registration.as_str()));
    let strays: Vec<String> = strays.map(|owned| join(OWNED, &owned.name)).collect();
    strays.iter().for_each(|node| found.refuse(node, NO_MEMBER));
    let mut ids: Vec<&String> = found.members.keys().chain(found.assignments.keys()).collect();
    ids.extend(&found.config.drained);
    ids.sort_by(|one, other| natural(one, other));
    ids.dedup();
    AssignerState {
        members: ids.into_iter().map(|id| found.member(id)).collect(),
        partitions: found.partitions(),
        rebalances: found.config.rebalances,
        leader: found.leader,
        unreadable: found.unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(member: &str, assigned: &[&str], held: &[&str]) -> Assignment {
        let set = |names: &[&str]| names.iter().map(|&name| Arc::from(name)).collect();
        Assignment { member: member.to_owned(), assigned: set(assigned), held: set(held), ..Assignment::default() }
    }

    fn present(registration: &str, czxid: i64) -> Present {
        let presence = Presence { weight: 1, capacity: None, labels: BTreeMap::new() };
        Present { registration: registration.to_owned(), czxid: Some(czxid), presence: Some(presence) }
    }

    fn found(members: &[(&str, &str)], assignments: Vec<(&str, Assignment)>, owned: &[(&str, &str, i64)]) -> Found {
        let mut found = Found::default();
        for (&(id, registration), czxid) in members.iter().zip(1..) {
            found.members.entry(id.to_owned()).or_default().push(present(registration, czxid));
        }
        found.assignments = assignments.into_iter().map(|(id, one)| (id.to_owned(), one)).collect();
        found.owned.extend(owned.iter().map(|&(partition, registration, token)| Owned {
            name: format!("{partition}~{registration}.0"),
            partition: partition.to_owned(),
            registration: registration.to_owned(),
            token: Some(token),
        }));
        found
    }

    fn shown(found: Found) -> (Vec<String>, Vec<String>) {
        let state = assemble(found);
        let members = state.members.iter().map(ToString::to_string).collect();
        let partitions = state.partitions.iter().map(ToString::to_string);
        (members, partitions.chain(state.unreadable.iter().map(ToString::to_string)).collect())
    }

    #[test]
    fn a_partition_is_held_handed_over_taken_or_reserved() {
        let assignments = vec![
            ("w-2", assignment("r2", &["2", "10"], &["2", "3"])),
            ("w-10", assignment("r10", &["4"], &[])),
            ("gone", assignment("r0", &["6", "7"], &["6", "7"])),
        ];
        // Also one whose session has just ended, and one of a member that is not known.
        let owned = [("2", "r2", 31), ("3", "r2", 32), ("7", "r0", 33), ("8", "r9", 34)];
        let mut found = found(&[("w-2", "r2"), ("w-10", "r10"), ("new", "r3")], assignments, &owned);
        found.config.pins.insert("9".into(), "gone".to_owned());
        found.config.drained.extend(["w-10", "other"].map(str::to_owned));
        let (members, partitions) = shown(found);
        let expected = [
            "gone: away, 2 reserved",
            "new: present, holds 0 of 0 assigned",
            "other: away, drained, 0 reserved",
            "w-2: present, holds 2 of 2 assigned",
            "w-10: present, drained, holds 0 of 1 assigned",
        ];
        assert_eq!(members, expected);
        let expected = [
            "2: w-2 (token 31)",
            "3: w-2 (token 32), revoked",
            "4: unowned -> w-10",
            "6: unowned, reserved for gone",
            "7: gone (token 33), reserved for gone",
            "9: unowned, pinned to gone",
            "10: unowned -> w-2",
            "owned/8~r9.0: no member has this registration: it has just left, or a person has created the node",
        ];
        assert_eq!(partitions, expected);
    }

    #[test]
    fn what_a_member_had_before_it_came_back_is_reserved_for_it() {
        let (members, partitions) = shown(found(&[("a", "new")], vec![("a", assignment("old", &["1"], &["1"]))], &[]));
        assert_eq!(members, ["a: returning, 1 reserved"]);
        assert_eq!(partitions, ["1: unowned, reserved for a"]);
    }

    #[test]
    fn of_two_nodes_of_a_member_the_one_that_its_assignment_names_counts_or_else_the_oldest() {
        for (named, weight, is_returning) in [("r1", 1, false), ("r2", 2, false), ("r0", 1, true)] {
            let mut found = found(&[("a", "r1"), ("a", "r2")], vec![("a", assignment(named, &["1"], &[]))], &[]);
            let second = found.members.get_mut("a").and_then(|all| all[1].presence.as_mut());
            second.expect("it can be read").weight = 2;
            let state = assemble(found);
            let [member] = &state.members[..] else { panic!("one member: {state:?}") };
            assert_eq!((member.weight, member.is_returning), (Some(weight), is_returning), "{named}");
        }
    }

    #[test]
    fn a_member_whose_node_may_not_be_read_is_present() {
        let mut found = found(&[("a", "r1")], vec![("a", assignment("r1", &["1"], &[]))], &[]);
        let present = Present { registration: "r1".to_owned(), czxid: None, presence: None };
        found.members.insert("a".to_owned(), vec![present]);
        let state = assemble(found);
        let [member] = &state.members[..] else { panic!("one member: {state:?}") };
        assert_eq!((member.is_present, member.is_returning, member.weight), (true, false, None));
        assert_eq!(state.partitions[0].moving_to.as_deref(), Some("a"));
    }

    #[test]
    fn of_two_nodes_of_a_partition_the_later_counts() {
        let assignments = || vec![("a", assignment("r1", &[], &[])), ("b", assignment("r2", &["7"], &["7"]))];
        for owned in [[("7", "r1", 8), ("7", "r2", 9)], [("7", "r2", 9), ("7", "r1", 8)]] {
            let (_, partitions) = shown(found(&[("a", "r1"), ("b", "r2")], assignments(), &owned));
            assert_eq!(partitions, ["7: b (token 9)"]);
        }
    }
}
