//! Plans the next writes, so that the members together never apply more than the maximum. Uses no clock and no server.
//!
//! A member *holds* the largest share that it may still be applying. A share can always be lowered. A raise takes from
//! the credit: the maximum minus everything that is held. So the sum stays within the maximum after each write, and a
//! leader may die after any of them.

/// What the leader knows of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedMember {
    /// The share in its record.
    pub(super) throughput: u64,
    /// The largest share that it may be applying.
    pub(super) held: u64,
    /// The share that was decided.
    pub(super) target: u64,
    /// No leader has written its record yet: it is written even if that does not change the share.
    pub(super) is_new: bool,
}

/// A record to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The index of the member.
    pub(super) member: usize,
    pub(super) throughput: u64,
    pub(super) ceiling: u64,
}

/// Returns how much may be given in addition to everything that is held.
pub(super) fn credit(maximum: u64, members: &[PlannedMember], held_elsewhere: u64) -> u64 {
    let held: u128 = members.iter().map(|member| u128::from(member.held)).sum::<u128>() + u128::from(held_elsewhere);
    // A u64 minus something fits into a u64.
    u64::try_from(u128::from(maximum).saturating_sub(held)).unwrap_or(0)
}

/// Returns the next writes, lowered shares first. `more_credit_comes` means that acknowledgements are on their way.
pub(super) fn plan(members: &[PlannedMember], credit: u64, more_credit_comes: bool) -> Vec<Change> {
    let (lowered, rest): (Vec<_>, Vec<_>) =
        members.iter().enumerate().partition(|(_, member)| member.target < member.throughput);
    let lowered = lowered.into_iter().map(|(index, member)| Change {
        member: index,
        throughput: member.target,
        ceiling: member.held,
    });
    lowered.chain(raises(rest, credit, more_credit_comes)).collect()
}

/// Gives the credit to the members that have less than was decided, first to those that have least.
///
/// While more credit comes, nothing is written until the credit covers at least half of what is missing. So a thousand
/// acknowledgements that come one by one cost a few transactions, and the credit does not wait for the last of them.
fn raises(mut members: Vec<(usize, &PlannedMember)>, mut credit: u64, more_credit_comes: bool) -> Vec<Change> {
    members.sort_by_key(|(_, member)| member.throughput);
    let (mut missing, mut given) = (0_u128, 0_u128);
    let mut changes = Vec::new();
    for (member, &PlannedMember { throughput, held, target, is_new }) in members {
        let raised = target.min(held.saturating_add(credit));
        // What it still holds of an older share takes no credit.
        credit -= raised.saturating_sub(held);
        missing += u128::from(target - throughput);
        given += u128::from(raised.saturating_sub(throughput));
        if raised > throughput || (is_new && raised == target) {
            changes.push(Change { member, throughput: raised, ceiling: held.max(raised) });
        }
    }
    if more_credit_comes && given * 2 < missing { Vec::new() } else { changes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(throughput: u64, held: u64, target: u64) -> PlannedMember {
        PlannedMember { throughput, held, target, is_new: false }
    }

    fn change(member: usize, throughput: u64, ceiling: u64) -> Change {
        Change { member, throughput, ceiling }
    }

    #[test]
    fn a_newcomer_gets_nothing_before_the_others_have_acknowledged() {
        let mut members = [member(1000, 1000, 500), member(0, 0, 500)];
        assert_eq!(plan(&members, credit(1000, &members, 0), true), [change(0, 500, 1000)]);
        // Written, not acknowledged: the next leader sees the same.
        members[0] = member(500, 1000, 500);
        assert_eq!(plan(&members, credit(1000, &members, 0), true), []);
        members[0] = member(500, 500, 500);
        assert_eq!(plan(&members, credit(1000, &members, 0), false), [change(1, 500, 500)]);
    }

    #[test]
    fn what_is_held_elsewhere_is_not_given() {
        let members = [member(0, 0, 1000)];
        assert_eq!(plan(&members, credit(1000, &members, 400), false), [change(0, 600, 600)]);
        assert_eq!(plan(&members, credit(1000, &members, u64::MAX), false), []);
    }

    #[test]
    fn a_member_that_never_acknowledged_may_be_raised_within_what_it_holds() {
        assert_eq!(plan(&[member(100, 700, 500)], 0, false), [change(0, 500, 700)]);
    }

    #[test]
    fn a_transaction_gives_at_least_half_of_what_is_missing_unless_nothing_more_comes() {
        let members = [member(0, 0, 40), member(0, 0, 40)];
        assert_eq!(plan(&members, 39, true), []);
        assert_eq!(plan(&members, 39, false), [change(0, 39, 39)]);
        assert_eq!(plan(&members, 40, true), [change(0, 40, 40)]);
        assert_eq!(plan(&members, 50, true), [change(0, 40, 40), change(1, 10, 10)]);
    }

    #[test]
    fn members_that_have_least_are_raised_first() {
        let members = [member(30, 30, 40), member(0, 0, 40)];
        assert_eq!(plan(&members, 45, false), [change(1, 40, 40), change(0, 35, 35)]);
    }

    #[test]
    fn a_new_member_gets_a_record_even_if_it_has_nothing() {
        let new = PlannedMember { is_new: true, ..member(0, 0, 0) };
        assert_eq!(plan(&[new], 0, true), [change(0, 0, 0)]);
        let lacking = PlannedMember { is_new: true, ..member(0, 0, 5) };
        assert_eq!(plan(&[lacking], 0, false), [], "its first record contains what was decided");
    }

    /// A simulated member that applies its share late or never.
    #[derive(Debug, Clone)]
    struct Member {
        throughput: u64,
        ceiling: u64,
        acknowledged: bool,
        /// What it really applies.
        applies: u64,
    }

    proptest! {
        /// For all targets, any order of acknowledgements, and any write after which a leader dies, the sum of what is
        /// applied never exceeds the maximum, and when all follow, all reach their targets.
        #[test]
        fn the_sum_of_what_is_applied_never_exceeds_the_maximum(
            maximum in 0u64..2_000,
            rounds in prop::collection::vec(
                (prop::collection::vec(0u64..1_000, 6), any::<u64>(), 0usize..14, any::<bool>()), 1..12),
        ) {
            let fresh = Member { throughput: 0, ceiling: 0, acknowledged: true, applies: 0 };
            let mut members = vec![fresh; 6];
            let fit = |mut wishes: Vec<u64>| {
                let mut left = maximum;
                for wish in &mut wishes {
                    *wish = (*wish).min(left);
                    left -= *wish;
                }
                wishes
            };
            let planned = |members: &[Member], targets: &[u64]| -> Vec<PlannedMember> {
                members.iter().zip(targets).map(|(one, target)| {
                    let held = if one.acknowledged { one.throughput } else { one.ceiling };
                    member(one.throughput, held, *target)
                }).collect()
            };
            let mut targets = vec![0; 6];
            for (wishes, who, dies_after, more) in rounds {
                targets = fit(wishes);
                let now = planned(&members, &targets);
                for change in plan(&now, credit(maximum, &now, 0), more).into_iter().take(dies_after) {
                    let member = &mut members[change.member];
                    member.throughput = change.throughput;
                    member.ceiling = change.ceiling;
                    // A raise above all that was held needs no acknowledgement.
                    member.acknowledged = change.throughput >= change.ceiling;
                    if who >> (change.member + 32) & 1 == 1 {
                        member.applies = change.throughput;
                    }
                    let applied: u64 = members.iter().map(|member| member.applies).sum();
                    prop_assert!(applied <= maximum);
                }
                for (index, member) in members.iter_mut().enumerate() {
                    if who >> index & 1 == 1 {
                        member.applies = member.throughput;
                        member.acknowledged = true;
                    }
                }
                let applied: u64 = members.iter().map(|member| member.applies).sum();
                prop_assert!(applied <= maximum, "{applied} of {maximum}: {members:?}");
            }
            for _ in 0..2 {
                for member in &mut members {
                    member.acknowledged = true;
                    member.applies = member.throughput;
                }
                let now = planned(&members, &targets);
                for change in plan(&now, credit(maximum, &now, 0), false) {
                    members[change.member].throughput = change.throughput;
                    members[change.member].ceiling = change.ceiling;
                }
            }
            let reached: Vec<u64> = members.iter().map(|member| member.throughput).collect();
            prop_assert_eq!(reached, targets);
        }
    }
}
