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
    let asks = leader_makes_room && precedes(next, leader);
    !asks && !behind.iter().any(|other| precedes(other, next))
}

/// Returns whether a participant is to lead before the `other`, and does not give way to it.
fn precedes(place: &Place, other: &Place) -> bool {
    let (Some(rank), Some(than)) = (rank(place), rank(other)) else { return false };
    let gives_way = match rank.gives_way {
        None => false,
        Some(None) => true,
        // It has made room for this one and those before it, and entered after them.
        Some(Some(chosen)) => number(other) <= chosen && number(place) > chosen,
    };
    rank.priority < than.priority && !gives_way
}

/// What the name of a node states.
struct Rank {
    priority: u32,
    /// Whether its owner gives way; and if not to all, up to which number.
    gives_way: Option<Option<u32>>,
}

fn number(place: &Place) -> u32 {
    place.path[place.path.len() - 10..].parse().expect("a name ends in ten digits")
}

fn rank(place: &Place) -> Option<Rank> {
    let label = place.path.rsplit_once("-latch-")?.0;
    if let Some((_, priority)) = label.rsplit_once("-priority-") {
        return Some(Rank { priority: priority.parse().ok()?, gives_way: None });
    }
    let (_, given) = label.rsplit_once("-gives-way-")?;
    let (priority, chosen) =
        given.split_once("-to-").map_or((given, None), |(priority, to)| (priority, to.parse().ok()));
    Some(Rank { priority: priority.parse().ok()?, gives_way: Some(chosen) })
}
