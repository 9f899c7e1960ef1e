//! Priorities of participants.

use crate::line::Place;
use crate::stage::Stage;

/// How many different priorities there are.
const PRIORITIES: u32 = 3;

/// Returns the priority of a participant that enters; half of them have none.
pub(crate) fn a_priority(stage: &mut Stage) -> Option<u32> {
    let priority = stage.world.random.u32(..PRIORITIES * 2);
    (priority < PRIORITIES).then_some(priority)
}

/// Returns whether the participants stand as their priorities demand: the next in line lets none behind it pass, and
/// does not precede the leader, if that makes room when it is asked.
pub(crate) fn is_ranked(line: &[Place], leader_makes_room: bool) -> bool {
    let [leader, next, behind @ ..] = line else { return true };
    let Some((number, gives_way)) = rank(next) else { return true };
    let passes = |other: &Place| rank(other).is_some_and(|(other, gives_way)| !gives_way && other < number);
    let asks = leader_makes_room && !gives_way && rank(leader).is_some_and(|(leader, _)| number < leader);
    !asks && !behind.iter().any(passes)
}

/// Returns the priority that the name of a node states, and whether its owner gives way.
fn rank(place: &Place) -> Option<(u32, bool)> {
    let (before, priority) = place.path.rsplit_once("-latch-")?.0.rsplit_once('-')?;
    let gives_way = before.ends_with("-gives-way");
    let has_priority = gives_way || before.ends_with("-priority");
    has_priority.then(|| priority.parse().ok().map(|priority| (priority, gives_way))).flatten()
}
