//! Examples whose result is known, among them the tables of the documentation.

use crate::recipes::partition_assigner::strategy::{Member, Partition, Strategy, StrategyError};

fn named(count: usize) -> Vec<Partition> {
    (0..count).map(|number| Partition::new(format!("orders-{number}"))).collect()
}

fn assign(partitions: &[Partition], members: &[Member]) -> Vec<Option<usize>> {
    Strategy::Sticky.assign(partitions, members).expect("good partitions and members")
}

fn loads(result: &[Option<usize>], members: usize) -> Vec<usize> {
    (0..members).map(|member| result.iter().filter(|&&one| one == Some(member)).count()).collect()
}

/// Members a to e, and which of them are there.
#[derive(Debug)]
struct Story {
    partitions: Vec<Partition>,
    owners: Vec<Option<String>>,
    members: Vec<Member>,
}

impl Story {
    /// Lets the partitions move. Checks how many each member has then, and how many have moved.
    fn step(&mut self, expected: &[usize], moved: usize) {
        let place = |owner: &Option<String>| self.members.iter().position(|member| owner.as_ref() == Some(&member.id));
        let owners = self.owners.iter().map(place);
        let partitions: Vec<_> =
            self.partitions.iter().cloned().zip(owners).map(|(partition, owner)| partition.owner(owner)).collect();
        let result = assign(&partitions, &self.members);
        assert_eq!(loads(&result, self.members.len()), expected);
        let new: Vec<_> = result.iter().map(|member| member.map(|member| self.members[member].id.clone())).collect();
        let moves = new.iter().zip(&self.owners).filter(|(new, old)| old.is_some() && new != old);
        assert_eq!(moves.count(), moved);
        self.owners = new;
    }

    fn joins(&mut self, id: &str) {
        self.members.push(Member::new(id));
    }

    fn leaves(&mut self, id: &str) {
        self.members.retain(|member| member.id != id);
    }

    fn member(&mut self, id: &str) -> &mut Member {
        self.members.iter_mut().find(|member| member.id == id).expect("it has joined")
    }
}

#[test]
fn members_join_and_leave_as_the_table_says() {
    let mut story = Story { partitions: named(12), owners: vec![None; 12], members: Vec::new() };
    story.joins("a");
    story.step(&[12], 0);
    story.joins("b");
    story.step(&[6, 6], 6);
    story.joins("c");
    story.step(&[4, 4, 4], 4);
    story.joins("d");
    story.step(&[3, 3, 3, 3], 3);
    story.joins("e");
    story.step(&[3, 3, 2, 2, 2], 2);
    story.leaves("a");
    story.step(&[3, 3, 3, 3], 3);
    story.member("c").weight = 2;
    story.step(&[3, 4, 3, 2], 1);
    story.member("b").capacity = Some(1);
    story.step(&[1, 6, 3, 2], 2);
    story.leaves("c");
    story.step(&[1, 6, 5], 6);
    story.member("d").capacity = Some(4);
    story.member("e").capacity = Some(4);
    story.step(&[1, 4, 4], 3);
}

#[test]
fn without_members_no_partition_has_one() {
    assert_eq!(assign(&named(3), &[]), [None; 3]);
    assert_eq!(assign(&[], &[Member::new("a")]), []);
}

#[test]
fn neighbours_go_to_different_members() {
    let members = ["a", "b", "c"].map(Member::new);
    let turns = [0, 1, 2, 0, 1, 2, 0].map(Some);
    assert_eq!(assign(&named(7), &members), turns);
}

#[test]
fn a_member_gives_up_the_same_partitions_on_every_machine() {
    let members = ["worker-0000000000", "worker-0000000001"].map(Member::new);
    let partitions: Vec<_> = named(12).into_iter().map(|partition| partition.owner(0)).collect();
    let moved = |strategy: Strategy, partitions: &[Partition]| {
        let result = strategy.assign(partitions, &members).expect("good partitions and members");
        (0..12).filter(|&partition| result[partition] == Some(1)).collect::<Vec<_>>()
    };
    assert_eq!(moved(Strategy::Sticky, &partitions), [0, 3, 4, 5, 8, 10]);
    // One more that may not move.
    let eligible = Strategy::eligible(|partition, member| partition != "fixed" || member.id == "worker-0000000000");
    let partitions = [partitions, vec![Partition::new("fixed").owner(0)]].concat();
    assert_eq!(moved(eligible, &partitions), [0, 3, 4, 5, 8, 10]);
}

#[test]
fn the_partitions_that_move_are_not_always_the_same() {
    let mut members = vec![Member::new("worker-0")];
    let mut partitions = named(120);
    let mut moves = vec![0; partitions.len()];
    for number in 1..=12 {
        let result = assign(&partitions, &members);
        for ((partition, member), moves) in partitions.iter_mut().zip(result).zip(&mut moves) {
            *moves += usize::from(partition.owner.is_some() && partition.owner != member);
            partition.owner = member;
        }
        members.push(Member::new(format!("worker-{number}")));
    }
    // If all gave up the last, the last would have moved each of the 11 times.
    assert!(moves.iter().max() <= Some(&7), "{moves:?}");
}

#[test]
fn the_last_partitions_go_to_the_largest_remainders_and_then_to_the_first() {
    // 10 in the proportion 1 : 2 : 4 is 1.43, 2.86, 5.71.
    let members = [Member::new("a"), Member::new("b").weight(2), Member::new("c").weight(4)];
    assert_eq!(loads(&assign(&named(10), &members), 3), [1, 3, 6]);
    assert_eq!(loads(&assign(&named(8), &["a", "b", "c"].map(Member::new)), 3), [3, 3, 2]);
}

#[test]
fn the_largest_remainder_counts_for_who_has_nothing() {
    // 4.44 and 0.56.
    let members = [Member::new("a").weight(8), Member::new("b")];
    assert_eq!(loads(&assign(&named(5), &members), 2), [4, 1]);
}

#[test]
fn the_last_partition_goes_to_who_has_most() {
    let owners = [0, 0, 0, 1, 1, 1, 1];
    let partitions: Vec<_> = named(7).into_iter().zip(owners).map(|(one, owner)| one.owner(owner)).collect();
    assert_eq!(loads(&assign(&partitions, &["a", "b", "c"].map(Member::new)), 3), [2, 3, 2]);
}

#[test]
fn partitions_that_move_go_to_their_new_members_in_turn() {
    let owners = [0, 1].into_iter().cycle();
    let partitions: Vec<_> = named(12).into_iter().zip(owners).map(|(one, owner)| one.owner(owner)).collect();
    let result = assign(&partitions, &["a", "b", "c", "d"].map(Member::new));
    let moved: Vec<_> = result.into_iter().flatten().filter(|&member| member > 1).collect();
    assert_eq!(moved, [2, 3, 2, 3, 2, 3]);
}

#[test]
fn the_last_partitions_stay_with_who_has_them() {
    let members = ["a", "b", "c"].map(Member::new);
    let owners = [0, 0, 1, 1, 2, 2, 2, 2];
    let partitions: Vec<_> = named(8).into_iter().zip(owners).map(|(one, owner)| one.owner(owner)).collect();
    // c keeps three, and the other two have two each: one of them gets what c gives up.
    assert_eq!(loads(&assign(&partitions, &members), 3), [3, 2, 3]);
}

#[test]
fn a_pinned_partition_counts_and_may_exceed_the_capacity() {
    let members = [Member::new("a").capacity(1), Member::new("b")];
    let mut partitions = named(6);
    partitions[0].pinned = Some(0);
    partitions[1].pinned = Some(0);
    assert_eq!(assign(&partitions, &members), [0, 0, 1, 1, 1, 1].map(Some));
    let members = ["a", "b"].map(Member::new);
    assert_eq!(loads(&assign(&partitions, &members), 2), [3, 3]);
}

#[test]
fn what_a_member_cannot_take_goes_to_the_others() {
    let members = [Member::new("a").weight(8).capacity(2), Member::new("b"), Member::new("c").weight(3)];
    assert_eq!(loads(&assign(&named(10), &members), 3), [2, 2, 6]);
}

#[test]
fn the_largest_weights_do_not_overflow() {
    let members = [
        Member::new("a").weight(u64::MAX),
        Member::new("b").weight(u64::MAX).capacity(usize::MAX),
        Member::new("c").weight(u64::MAX).capacity(1),
        Member::new("d"),
    ];
    for strategy in
        [Strategy::Sticky, Strategy::eligible(|partition, member| partition != "orders-0" || member.id != "d")]
    {
        let result = strategy.assign(&named(9), &members).expect("good partitions and members");
        assert_eq!(loads(&result, 4), [4, 4, 1, 0], "{strategy:?}");
    }
}

#[test]
fn invalid_arguments_are_an_error() {
    let fails = |partition: Partition, member: Member| {
        Strategy::Sticky.assign(&[partition], &[member]).expect_err("not valid").to_string()
    };
    let (partition, member) = (|| Partition::new("p"), || Member::new("a"));
    assert_eq!(fails(partition(), member().weight(0)), "member \"a\": the weight is 0; it must be at least 1");
    assert_eq!(fails(partition().owner(1), member()), "partition \"p\": it is owned by member 1 of 1; the first is 0");
    let pinned = Strategy::Sticky.assign(&[partition().pinned(0)], &[]);
    assert!(matches!(pinned, Err(StrategyError::InvalidPartition { name, .. }) if name == "p"));
}
