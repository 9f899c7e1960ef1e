//! What to write next, so that at no moment the members together may apply more than the maximum. No clock, no server.
//!
//! A member *holds* the largest share that it may still be applying: what it was given, once it has acknowledged; the
//! ceiling in its record until then. Lowering is free. A raise takes from the credit: the maximum without all that is held.
//! As every step of a wave keeps the sum, so does each part of one: a leader may die anywhere in it.

/// How a change of shares is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Transition {
    /// Lowers first; raises only from what others have acknowledged to have given up, or are safely gone with.
    #[default]
    Safe,
    /// Everything at once. Until all members have heard of it they may together apply more than the maximum.
    Immediate,
}

/// What the leader knows of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    /// What its record gives it.
    pub(super) throughput: u64,
    /// The largest share that it may be applying.
    pub(super) held: u64,
    /// What it is to have in the end.
    pub(super) target: u64,
    /// Whether it can say that it follows: nobody is given more before that.
    pub(super) ready: bool,
    /// Its record must be written anew in any case, and acknowledged.
    pub(super) rewrite: bool,
    /// No leader has told it anything yet.
    pub(super) is_new: bool,
}

/// A record to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Whose: the index of its seat.
    pub(super) seat: usize,
    pub(super) throughput: u64,
    pub(super) ceiling: u64,
    pub(super) confirm: bool,
}

/// What to write, those that are lowered before those that are raised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wave {
    pub(super) lowers: Vec<Change>,
    pub(super) raises: Vec<Change>,
}

/// What may be given beside all that is held.
pub(super) fn credit(maximum: u64, seats: &[Seat], held_elsewhere: u64) -> u64 {
    let held: u128 = seats.iter().map(|seat| u128::from(seat.held)).sum::<u128>() + u128::from(held_elsewhere);
    // What is left of a u64 is one.
    u64::try_from(u128::from(maximum).saturating_sub(held)).unwrap_or(0)
}

/// The next wave. `credit` is what may be given now.
pub(super) fn plan(seats: &[Seat], mut credit: u64, transition: Transition) -> Wave {
    let mut wave = Wave::default();
    for (seat, known) in seats.iter().enumerate() {
        let Seat { throughput, held, target, ready, rewrite, is_new } = *known;
        if transition == Transition::Immediate {
            if target != throughput || rewrite || is_new {
                let side = if target < throughput { &mut wave.lowers } else { &mut wave.raises };
                side.push(Change { seat, throughput: target, ceiling: target, confirm: rewrite });
            }
        } else if rewrite {
            wave.lowers.push(Change { seat, throughput: target.min(held), ceiling: held, confirm: true });
        } else if target < throughput {
            wave.lowers.push(Change { seat, throughput: target, ceiling: held, confirm: false });
        } else if target > throughput && ready {
            let raised = target.min(held.saturating_add(credit));
            if raised > throughput {
                credit -= raised.saturating_sub(held);
                wave.raises.push(Change { seat, throughput: raised, ceiling: held.max(raised), confirm: false });
            }
        } else if target == throughput && is_new {
            // That this is what it has is a decision too.
            wave.raises.push(Change { seat, throughput, ceiling: held, confirm: false });
        }
    }
    wave
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seat(throughput: u64, held: u64, target: u64) -> Seat {
        Seat { throughput, held, target, ready: true, rewrite: false, is_new: false }
    }

    #[test]
    fn a_newcomer_gets_nothing_before_the_others_have_let_go() {
        let mut seats = [seat(1000, 1000, 500), seat(0, 0, 500)];
        let wave = plan(&seats, credit(1000, &seats, 0), Transition::Safe);
        assert_eq!(wave.lowers, [Change { seat: 0, throughput: 500, ceiling: 1000, confirm: false }]);
        assert_eq!(wave.raises, []);
        // Written, not acknowledged: whoever leads now sees the same.
        seats[0] = seat(500, 1000, 500);
        assert_eq!(plan(&seats, credit(1000, &seats, 0), Transition::Safe), Wave::default());
        seats[0] = seat(500, 500, 500);
        let wave = plan(&seats, credit(1000, &seats, 0), Transition::Safe);
        assert_eq!(wave.raises, [Change { seat: 1, throughput: 500, ceiling: 500, confirm: false }]);
    }

    #[test]
    fn what_is_held_elsewhere_is_not_given() {
        let seats = [seat(0, 0, 1000)];
        let wave = plan(&seats, credit(1000, &seats, 400), Transition::Safe);
        assert_eq!(wave.raises, [Change { seat: 0, throughput: 600, ceiling: 600, confirm: false }]);
        assert_eq!(plan(&seats, credit(1000, &seats, u64::MAX), Transition::Safe), Wave::default());
    }

    #[test]
    fn one_that_never_acknowledged_the_lowering_may_be_raised_within_what_it_holds() {
        let seats = [seat(100, 700, 500)];
        let wave = plan(&seats, 0, Transition::Safe);
        assert_eq!(wave.raises, [Change { seat: 0, throughput: 500, ceiling: 700, confirm: false }]);
    }

    #[test]
    fn at_once_means_at_once() {
        let seats = [seat(1000, 1000, 500), seat(0, 0, 500)];
        let wave = plan(&seats, 0, Transition::Immediate);
        assert_eq!((wave.lowers.len(), wave.raises.len()), (1, 1));
    }

    /// Members that apply what they are told late or never, in a world of steps.
    #[derive(Debug, Clone)]
    struct Member {
        throughput: u64,
        ceiling: u64,
        acknowledged: bool,
        /// What it really applies.
        applies: u64,
    }

    proptest! {
        /// Whatever the targets, whoever acknowledges when, and wherever a leader dies in a wave: the sum of what is applied
        /// never passes the maximum, and with everybody following all reach their targets.
        #[test]
        fn the_sum_of_what_is_applied_never_passes_the_maximum(
            maximum in 0u64..2_000,
            rounds in prop::collection::vec(
                (prop::collection::vec(0u64..1_000, 6), any::<u64>(), 0usize..14), 1..12),
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
            let seats = |members: &[Member], targets: &[u64]| -> Vec<Seat> {
                members.iter().zip(targets).map(|(member, target)| Seat {
                    throughput: member.throughput,
                    held: if member.acknowledged { member.throughput } else { member.ceiling },
                    target: *target,
                    ready: true,
                    rewrite: false,
                    is_new: false,
                }).collect()
            };
            let mut targets = vec![0; 6];
            for (wishes, who, dies_after) in rounds {
                targets = fit(wishes);
                let now = seats(&members, &targets);
                let wave = plan(&now, credit(maximum, &now, 0), Transition::Safe);
                for change in wave.lowers.iter().chain(&wave.raises).take(dies_after) {
                    let member = &mut members[change.seat];
                    member.throughput = change.throughput;
                    member.ceiling = change.ceiling;
                    // A raise above all that was held needs no acknowledgement.
                    member.acknowledged = change.throughput >= change.ceiling;
                    if who >> (change.seat + 32) & 1 == 1 {
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
                let now = seats(&members, &targets);
                for change in { let wave = plan(&now, credit(maximum, &now, 0), Transition::Safe); [wave.lowers, wave.raises].concat() } {
                    members[change.seat].throughput = change.throughput;
                    members[change.seat].ceiling = change.ceiling;
                }
            }
            let reached: Vec<u64> = members.iter().map(|member| member.throughput).collect();
            prop_assert_eq!(reached, targets);
        }
    }
}
